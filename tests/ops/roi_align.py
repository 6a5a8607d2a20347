"""Cases of roi_align."""

import numpy as np

from tests.ops.case import Case, floats, random

_SIZES = (2, 9, 11)


def _case(
    name: str,
    *,
    channels: int = 5,
    samples: int = 2,
    largest: bool = False,
    half_pixel: bool = True,
    dtype: type = np.float32,
    images: type = np.int64,
    regions: int = 6,
) -> Case:
    """Some regions reach beyond the image, one is empty and one turned inside out."""
    rng = random(f"roi_align/{name}")
    ends = rng.random((regions, 4)) * np.array([24, 20, 24, 20]) - 4
    ends[:, 2:] = np.maximum(ends[:, :2], ends[:, 2:])
    if regions > 2:
        ends[1, 2:] = ends[1, :2]
    attrs = {"rows": 3, "columns": 4, "samples": samples, "scale": 0.5, "largest": largest, "half_pixel": half_pixel}
    x = floats(f"roi_align/{name}", *_SIZES, channels, dtype=dtype)
    return Case(
        f"roi_align/{name}",
        "roi_align",
        attrs,
        (x, ends.astype(dtype), rng.integers(0, _SIZES[0], regions).astype(images)),
    )


CASES = [
    _case("average"),
    _case("many_channels", channels=37),
    _case("one_channel", channels=1),
    _case("largest", largest=True, channels=19),
    _case("by_size", samples=0),
    _case("whole_pixels", half_pixel=False, samples=0),
    _case("f64", dtype=np.float64),
    _case("i32", images=np.int32),
    _case("no_regions", regions=0),
    _case("no_channels", channels=0),
]
