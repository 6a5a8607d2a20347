"""What direct convolution into the blocked layout multiplies."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.dtypes import DType, bf16, i32
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.passes.lower.conv_shape import ConvShape
from treadle.passes.lower.vnni import vnni_zero_point
from treadle.plan.target import Target


@dataclass(frozen=True, slots=True)
class Factors:
    """The input and the weights as their kernel takes them.

    `dtype` is that of the sums, and of elements as they are multiplied: each is `each` channels, a pair of bf16 or a
    quad of bytes. `lanes` is the block of the output's channels, `zero` what the input's bytes call 0.
    """

    x: Value
    weights: Value
    dtype: DType
    each: int
    lanes: int
    zero: int

    @staticmethod
    def of(node: Node) -> Factors:
        """Those of a `conv` node whose output is blocked."""
        x, weights, layout = node.operand(0), node.operand(1), node.output.layout
        assert isinstance(layout, Blocked), "direct convolution writes blocked"
        dtype = i32 if weights.dtype in BYTES else weights.known_dtype
        each = 4 if x.dtype in BYTES else 2 if x.dtype == bf16 else 1
        return Factors(x, weights, dtype, each, layout.block, node.attrs.get("zero", 0))

    @property
    def plain(self) -> bool:
        """Whether the input is row-major. Its pairs are columns then, not channels."""
        return self.x.layout is None

    @property
    def pairs(self) -> bool:
        """Whether elements are pairs of bf16."""
        return self.each == 2

    @property
    def quads(self) -> bool:
        """Whether elements are quads of bytes."""
        return self.each == 4

    @property
    def block(self) -> int:
        """Elements in a block of the input's channels."""
        return self.lanes // self.each

    @property
    def offset(self) -> int:
        """What counts as 0 in the input's bytes as products of quads see them."""
        return vnni_zero_point(self.x, self.zero) if self.quads else 0

    def channels(self, shape: ConvShape) -> int:
        """Elements along the input's channels that one output reads."""
        return shape.group_channels if self.plain else -(-shape.group_channels // self.each)

    def have_kernel(self, shape: ConvShape, target: Target) -> bool:
        """Whether weights can be packed, and elements lie as `target` multiplies them."""
        if self.weights.data is None or (self.quads and self.plain):
            return False
        if not self.pairs:
            return True
        if self.plain:
            return target.has_bf16_dot and shape.groups == 1 and shape.dilations[1] == 1
        return target.has_bf16_dot and shape.group_channels % 2 == 0
