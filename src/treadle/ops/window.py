"""Sliding windows: the arithmetic that convolution and pooling share."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from treadle.errors import ShapeError
from treadle.graph.dim import at_least, ceil_div, maximum, minimum
from treadle.graph.shape import StaticShape, text
from treadle.records import dataclass

SAME = ("same_upper", "same_lower")
"""In place of pads: as many as give ceil(size / stride) results; of an odd number one more at the end, or at the
begin."""


def pads_of(attrs: Mapping[str, Any], spatial: StaticShape, kernel: Sequence[int]) -> tuple[int, ...]:
    """The pads of a node with these attributes, all begins, then all ends; `spatial` are the sizes of its input.

    Raises ShapeError if the input has another number of spatial axes than the kernel.
    """
    pads = attrs["pads"]
    if pads not in SAME:
        return tuple(pads)
    if len(spatial) != len(kernel):
        raise ShapeError(f"the window has {len(kernel)} spatial axes, the input {len(spatial)}")
    totals = [
        maximum(0, (ceil_div(size, stride) - 1) * stride + (taps - 1) * dilation + 1 - size)
        for size, taps, stride, dilation in zip(spatial, kernel, attrs["strides"], attrs["dilations"], strict=True)
    ]
    smaller = [total // 2 for total in totals]
    larger = [total - half for total, half in zip(totals, smaller, strict=True)]
    return (*smaller, *larger) if pads == "same_upper" else (*larger, *smaller)


@dataclass(frozen=True, slots=True)
class Window:
    """A window over the spatial axes of a tensor: one number an axis each, `pads_*` in elements."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]

    @staticmethod
    def of(kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]) -> "Window":
        """The window with `pads` given as all begins, then all ends.

        Raises ShapeError if a list has the wrong length or a number is impossible.
        """
        rank = len(kernel)
        for name, numbers, length in (
            ("strides", strides, rank),
            ("pads", pads, 2 * rank),
            ("dilations", dilations, rank),
        ):
            if len(numbers) != length:
                raise ShapeError(f"{name} must have {length} numbers for {rank} spatial axes, got {list(numbers)}")
        for name, numbers in (("kernel", kernel), ("strides", strides), ("dilations", dilations)):
            if any(number < 1 for number in numbers):
                raise ShapeError(f"{name} must be 1 or more on every axis, got {list(numbers)}")
        if any(number < 0 for number in pads):
            raise ShapeError(f"pads must be 0 or more, got {list(pads)}")
        return Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(pads[:rank]), tuple(pads[rank:]))

    def output(self, spatial: StaticShape, *, ceil_mode: bool = False) -> StaticShape:
        """How often the window fits on each axis. With `ceil_mode` a last, partial window counts if it
        starts inside the input or its begin padding. Raises ShapeError if the window does not fit at all.
        """
        if len(spatial) != len(self.kernel):
            raise ShapeError(f"the window has {len(self.kernel)} spatial axes, the input {len(spatial)}")
        found = []
        for axis, size in enumerate(spatial):
            reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            begin, stride = self.pads_begin[axis], self.strides[axis]
            spare = size + begin + self.pads_end[axis] - reach
            if spare < 0:
                raise ShapeError(
                    f"the window spans {reach} elements on spatial axis {axis}, but the padded input {text(spatial)} "
                    f"has only {spare + reach} there"
                )
            count = (ceil_div(spare, stride) if ceil_mode else spare // stride) + 1
            if ceil_mode and not at_least(reach - self.pads_end[axis], stride):
                # Only the last window is given up, even if more of them start in the pads at the end.
                count = minimum(count, maximum(ceil_div(size + begin, stride), count - 1))
            found.append(count)
        return tuple(found)

    def taps(self) -> Iterator[tuple[int, ...]]:
        """The positions in the kernel, row-major."""
        return product(*(range(size) for size in self.kernel))

    def seen(self, tap: tuple[int, ...], output: StaticShape) -> tuple[slice, ...]:
        """The elements of the padded input [N, C, *S] that `tap` reads, as one slice an axis."""
        spatial = (
            slice(tap[axis] * self.dilations[axis], tap[axis] * self.dilations[axis] + (count - 1) * stride + 1, stride)
            for axis, (count, stride) in enumerate(zip(output, self.strides, strict=True))
        )
        return (slice(None), slice(None), *spatial)
