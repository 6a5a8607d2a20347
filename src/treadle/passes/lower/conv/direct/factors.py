"""What direct convolution into the blocked layout multiplies."""

from __future__ import annotations

from treadle.dtypes import DType, bf16, f32, i32
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.vnni import vnni_zero_point
from treadle.plan.target import Target
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Factors:
    """The input and the weights as their kernel reads them.

    `dtype` is that of the sums and of the elements that are multiplied. An element is `each` channels: two bf16, four
    bytes, or two words of 16 bits, to which bytes may be widened where the CPU has no VNNI. `lanes` is the block of the
    output's channels, `zero` the zero point of the input's bytes.
    """

    x: Value
    weights: Value
    dtype: DType
    each: int
    lanes: int
    zero: int

    @staticmethod
    def of(node: Node, target: Target) -> Factors:
        """Returns the factors of a `conv` node whose output is blocked."""
        x, weights, layout = node.operand(0), node.operand(1), node.output.layout
        assert isinstance(layout, Blocked), "direct convolution writes blocked"
        dtype = i32 if weights.dtype in BYTES else weights.known_dtype
        of_bytes = x.dtype in BYTES
        in_bytes = of_bytes and (target.has_vnni or target.has_byte_pairs)
        each = 4 if in_bytes else 2 if of_bytes or x.dtype == bf16 else 1
        return Factors(x, weights, dtype, each, layout.block, node.attrs.get("zero", 0))

    @property
    def plain(self) -> bool:
        """Whether the input is row-major. Two bf16 are then columns, not channels."""
        return self.x.layout is None

    @property
    def bf16_dot(self) -> bool:
        """Whether elements are multiplied by bf16 dot products."""
        return self.each == 2 and self.dtype == f32

    @property
    def words(self) -> bool:
        """Whether elements are pairs of words, which `widened` input consists of."""
        return self.each == 2 and self.dtype == i32

    @property
    def vnni(self) -> bool:
        """Whether elements are multiplied by VNNI dot products, or by the three instructions that replace one."""
        return self.each == 4

    def rate(self, target: Target) -> float:
        """Returns the products that take as long as one of f32: those of an instruction."""
        if self.vnni and not target.has_vnni:
            return self.each / 3
        return 1 if self.words else self.each

    @property
    def block(self) -> int:
        """Elements in a block of the input's channels."""
        return self.lanes // self.each

    @property
    def zero_point(self) -> int:
        """The zero point of the input's bytes as VNNI dot products see them."""
        return vnni_zero_point(self.x, self.zero) if self.vnni else 0

    def channels(self, shape: ConvShape) -> int:
        """Returns the elements along the input's channels that one output reads."""
        return shape.group_channels if self.plain else -(-shape.group_channels // self.each)

    def have_kernel(self, shape: ConvShape, target: Target) -> bool:
        """Whether weights can be packed, and `target` has instructions for elements in this order."""
        if self.weights.data is None or (self.plain and (self.vnni or self.words)):
            return False
        if not self.bf16_dot:
            return True
        if self.plain:
            return target.has_bf16_dot and shape.groups == 1 and shape.dilations[1] == 1
        return target.has_bf16_dot and shape.group_channels % 2 == 0
