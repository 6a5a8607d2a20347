"""The sizes of a convolution, in two spatial dimensions."""

from __future__ import annotations

from dataclasses import replace

from treadle.graph.dim import at_least, hint_of
from treadle.graph.node import Node
from treadle.graph.shape import equal_shapes, is_open
from treadle.plan.kernels.conv.rows import Pair
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class ConvShape:
    """A 2-D convolution: x [images, channels, *size], w [outputs, channels / groups, *kernel], out [.., *out_size].

    Pairs are (vertical, horizontal); `pads` is (top, left), the paddings before.
    """

    images: int
    channels: int
    size: Pair
    outputs: int
    out_size: Pair
    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pair
    groups: int

    @staticmethod
    def of(node: Node) -> ConvShape | None:
        """Returns the shape of a `conv` node; 1-D images get height 1. None for other ranks and for empty tensors."""
        x, w, out = node.operand(0).static_shape, node.operand(1).static_shape, node.output.static_shape
        rank = len(x) - 2
        if rank not in (1, 2) or 0 in (*x, *w, *out):
            return None
        attrs = node.attrs

        def pair(numbers: tuple[int, ...], missing: int) -> Pair:
            return (numbers[0], numbers[1]) if rank == 2 else (missing, numbers[0])

        return ConvShape(
            images=x[0],
            channels=x[1],
            size=pair(x[2:], 1),
            outputs=w[0],
            out_size=pair(out[2:], 1),
            kernel=pair(w[2:], 1),
            strides=pair(attrs["strides"], 1),
            dilations=pair(attrs["dilations"], 1),
            pads=pair(attrs["pads"][:rank], 0),
            groups=attrs["groups"],
        )

    @property
    def sample(self) -> ConvShape:
        """The convolution of the sample sizes, by which the faster of two ways is chosen. Nothing is assumed."""
        height, width, out_height, out_width = (int(hint_of(size)) for size in (*self.size, *self.out_size))
        images = int(hint_of(self.images))
        return replace(self, images=images, size=(height, width), out_size=(out_height, out_width))

    @property
    def group_channels(self) -> int:
        """Input channels that one output reads."""
        return self.channels // self.groups

    @property
    def group_outputs(self) -> int:
        """Output channels of one group."""
        return self.outputs // self.groups

    @property
    def is_pointwise(self) -> bool:
        """Whether every output pixel reads one input pixel, the one at its own position."""
        alone = self.kernel == (1, 1) and self.strides == (1, 1) and self.pads == (0, 0)
        return alone and equal_shapes(self.size, self.out_size)

    @property
    def is_open(self) -> bool:
        """Whether a size is an expression."""
        return is_open((self.images, *self.size, *self.out_size))

    @property
    def rows_leave_input(self) -> bool:
        """Whether kernel rows fall outside the input somewhere, or may do for some sizes."""
        return self._leaves(0)

    def columns(self, pixel: int) -> Pair:
        """Returns the half-open range of kernel columns that lie inside the input for output pixel `pixel` of a row."""
        stride, dilation, kernel = self.strides[1], self.dilations[1], self.kernel[1]
        left = pixel * stride - self.pads[1]
        low = min(kernel, max(0, -(left // dilation)))
        high = min(kernel, max(0, -(-(self.size[1] - left) // dilation)))
        return (low, max(low, high))

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the whole convolution; padding counts as input."""
        height, width = self.out_size
        return self.images * self.outputs * height * width * self.group_channels * self.kernel[0] * self.kernel[1]

    def _leaves(self, axis: int) -> bool:
        reach = (self.out_size[axis] - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilations[axis]
        return self.pads[axis] > 0 or not at_least(self.size[axis] + self.pads[axis] - reach, 1)
