"""roi_align: regions of images, pooled to a grid of bins from samples between pixels (He et al., Mask R-CNN)."""

from collections.abc import Sequence

import numpy as np

from treadle.errors import KernelError, ShapeError
from treadle.graph.shape import text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import dims, need_float, need_integer, operand, present, result, same_dtype
from treadle.plan.kernels.roi_align import MOST_SAMPLES


def infer_roi_align(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x [images, height, width, channels], regions [regions, 4] as (x1, y1, x2, y2), images [regions], integers.

    attrs: rows, columns, of bins; samples along each axis of a bin (0: as many as it has pixels, rounded up); scale,
    from the coordinates of regions to pixels; largest, or the average, of samples; half_pixel. The result is [regions,
    rows, columns, channels].
    """
    x, regions, images = operand(inputs, 0, "x"), operand(inputs, 1, "regions"), operand(inputs, 2, "images")
    need_float(x, "x")
    same_dtype(("x", x), ("regions", regions))
    need_integer(images, "images")
    shape, count = dims(x), dims(images)
    if len(shape) != 4 or len(count) != 1 or dims(regions) != (*count, 4):
        raise ShapeError(
            f"x must be [images, height, width, channels], regions [n, 4] and images [n], got {text(shape)}, "
            f"{text(dims(regions))} and {text(count)}"
        )
    if attrs["rows"] < 1 or attrs["columns"] < 1 or attrs["samples"] < 0:
        raise ShapeError(
            f"rows and columns must be 1 or more and samples 0 or more, got {attrs['rows']}, {attrs['columns']} and "
            f"{attrs['samples']}"
        )
    return [result(x.dtype, (*count, attrs["rows"], attrs["columns"], shape[3]))]


def evaluate_roi_align(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """Raises KernelError for an image that there is not, and a bin of more than MOST_SAMPLES samples along an axis."""
    x, regions, images = present(arrays, 0), present(arrays, 1), present(arrays, 2)
    rows, columns = attrs["rows"], attrs["columns"]
    if len(regions) and 0 in x.shape[1:3]:
        raise KernelError("images must have pixels")
    y = np.zeros((len(regions), rows, columns, x.shape[3]), x.dtype)
    if ((images < 0) | (images >= len(x))).any():
        raise KernelError(f"images must be in [0, {len(x)})")
    for region, image, target in zip(regions, images, y, strict=True):
        down = _places(attrs, region[[1, 3]], rows, x.shape[1])
        across = _places(attrs, region[[0, 2]], columns, x.shape[2])
        for row, column in np.ndindex(rows, columns):
            samples = [
                np.stack([a * b * x[image, i, j] for i, a in p for j, b in q])
                for p in down[row]
                for q in across[column]
            ]
            count = max(len(down[row]) * len(across[column]), 1)
            if attrs["largest"]:
                target[row, column] = np.max([sample.max(axis=0) for sample in samples], axis=0) if samples else 0
            else:
                target[row, column] = np.sum([sample.sum(axis=0) for sample in samples], axis=0) / count
    return [y]


def _places(attrs: Attrs, ends: Array, bins: int, size: int) -> list[list[list[tuple[int, float]]]]:
    """For each bin along an axis of `size` pixels its samples, each of two pixels with their weights."""
    kind = ends.dtype.type
    begin, end = ends * kind(attrs["scale"]) - kind(0.5 if attrs["half_pixel"] else 0)
    length = end - begin if attrs["half_pixel"] else max(end - begin, kind(1))
    each = length / kind(bins)
    count = attrs["samples"] or np.ceil(each)
    if not count <= MOST_SAMPLES:
        raise KernelError(f"a region needs {count} samples along an axis of a bin; the most are {MOST_SAMPLES}")
    found = []
    for bin_ in range(bins):
        places = (begin + kind(bin_) * each + (kind(i) + kind(0.5)) * each / kind(count) for i in range(int(count)))
        found.append([_pixels(float(place), size) for place in places])
    return found


def _pixels(place: float, size: int) -> list[tuple[int, float]]:
    if not -1 <= place <= size:
        return [(0, 0.0), (0, 0.0)]
    place = max(place, 0.0)
    low = min(int(place), size - 1)
    high = min(low + 1, size - 1)
    part = place - low if low < size - 1 else 0.0
    return [(low, 1 - part), (high, part)]
