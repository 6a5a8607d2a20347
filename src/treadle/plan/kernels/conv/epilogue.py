"""What kernels of convolutions with a blocked result share: the bias and the epilogue."""

from __future__ import annotations

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelSpec
from treadle.records import dataclass

BIAS_POINTER = 3
"""Number of the bias's pointer, behind out, x and the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedConvSpec(KernelSpec):
    """Parameters of a convolution whose result is Blocked(lanes).

    Pointers: out, x, weights, bias (if `bias`), operands of the epilogue. The bias is padded to whole vectors.
    """

    dtype: DType
    """Dtype of the sums."""
    lanes: int
    """Channels in a block of the result, and lanes of a vector."""
    bias: bool
    """Sums begin with a bias; else with zero."""
    epilogue: Expr | None
    """What is applied to finished sums, which are its operand 0."""
    kinds: tuple[str, ...]
    """How each further operand of the epilogue is read.

    `scalar`: one element. `channel`: one element an output channel, padded to whole vectors. `ragged`: the same, not
    padded. `image`: one element an image and output channel, not padded. `full`: blocked like the result.
    """

    @property
    def epilogue_pointer(self) -> int:
        """Number of the pointer of the epilogue's first operand."""
        return BIAS_POINTER + self.bias
