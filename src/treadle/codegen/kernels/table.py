"""Which generator emits which kernel family."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.kernels.arg_reduce import emit_arg_reduce
from treadle.codegen.kernels.attention import emit_attention
from treadle.codegen.kernels.byte_table import emit_byte_table
from treadle.codegen.kernels.conv.depthwise.kernel import emit_conv_depthwise
from treadle.codegen.kernels.conv.direct.kernel import emit_conv
from treadle.codegen.kernels.conv.direct.pooled import emit_conv_pool
from treadle.codegen.kernels.conv.plain.kernel import emit_conv_plain
from treadle.codegen.kernels.conv.strassen.kernel import emit_conv_strassen
from treadle.codegen.kernels.conv.winograd.kernel import emit_conv_winograd, emit_winograd_input
from treadle.codegen.kernels.copy import emit_copy_rows, emit_copy_tiles
from treadle.codegen.kernels.copy_bytes import emit_copy_bytes
from treadle.codegen.kernels.cumsum import emit_cumsum
from treadle.codegen.kernels.elementwise import emit_elementwise, emit_elementwise_flat
from treadle.codegen.kernels.gather import emit_gather, emit_gather_elements, emit_gather_nd
from treadle.codegen.kernels.gather_reduce import emit_gather_reduce
from treadle.codegen.kernels.gemm import emit_gemm
from treadle.codegen.kernels.gemm_pack import emit_gemm_pack
from treadle.codegen.kernels.gemm_strassen import emit_gemm_strassen, emit_strassen_left
from treadle.codegen.kernels.gemv import emit_gemv
from treadle.codegen.kernels.lookup import emit_lookup
from treadle.codegen.kernels.norm import emit_norm_rows
from treadle.codegen.kernels.one_hot import emit_one_hot
from treadle.codegen.kernels.pick_channels import emit_pick_channels
from treadle.codegen.kernels.pool import emit_pool_blocked
from treadle.codegen.kernels.pool_plain import emit_pool_plain
from treadle.codegen.kernels.recurrent import emit_recurrent
from treadle.codegen.kernels.reduce import emit_reduce_columns, emit_reduce_rows
from treadle.codegen.kernels.reorder import emit_reorder
from treadle.codegen.kernels.resample import emit_resample
from treadle.codegen.kernels.scatter import emit_scatter_elements, emit_scatter_nd
from treadle.codegen.kernels.softmax import emit_softmax_columns, emit_softmax_rows
from treadle.codegen.kernels.trees import emit_trees
from treadle.codegen.kernels.trilu import emit_trilu

Generator = Callable[[Kernel, Any], None]
"""Emits the kernel of a spec of its own family."""

KERNELS: dict[str, Generator] = {
    "copy_bytes": emit_copy_bytes,
    "pool_blocked": emit_pool_blocked,
    "pool_plain": emit_pool_plain,
    "reorder": emit_reorder,
    "pick_channels": emit_pick_channels,
    "conv": emit_conv,
    "conv_depthwise": emit_conv_depthwise,
    "conv_plain": emit_conv_plain,
    "conv_pool": emit_conv_pool,
    "conv_strassen": emit_conv_strassen,
    "conv_winograd": emit_conv_winograd,
    "winograd_input": emit_winograd_input,
    "copy_rows": emit_copy_rows,
    "copy_tiles": emit_copy_tiles,
    "attention": emit_attention,
    "recurrent": emit_recurrent,
    "gemm": emit_gemm,
    "gemm_pack": emit_gemm_pack,
    "gemm_strassen": emit_gemm_strassen,
    "strassen_left": emit_strassen_left,
    "gemv": emit_gemv,
    "byte_table": emit_byte_table,
    "elementwise": emit_elementwise,
    "elementwise_flat": emit_elementwise_flat,
    "gather": emit_gather,
    "gather_elements": emit_gather_elements,
    "gather_nd": emit_gather_nd,
    "gather_reduce": emit_gather_reduce,
    "scatter_elements": emit_scatter_elements,
    "scatter_nd": emit_scatter_nd,
    "lookup": emit_lookup,
    "resample": emit_resample,
    "one_hot": emit_one_hot,
    "trilu": emit_trilu,
    "trees": emit_trees,
    "cumsum": emit_cumsum,
    "arg_reduce": emit_arg_reduce,
    "reduce_rows": emit_reduce_rows,
    "reduce_columns": emit_reduce_columns,
    "softmax_rows": emit_softmax_rows,
    "softmax_columns": emit_softmax_columns,
    "norm_rows": emit_norm_rows,
}

Effort: TypeAlias = Literal["none", "tidy", "full"]

EFFORTS: dict[str, Effort] = {
    "conv": "none",
    "conv_depthwise": "none",
    "conv_pool": "tidy",
    "conv_winograd": "tidy",
    "winograd_input": "tidy",
    "gemm": "tidy",
    "gemm_strassen": "tidy",
    "pool_blocked": "tidy",
}
"""What LLVM's optimiser does for families whose code is as fast without all of it, which takes longer than the code generator.

"tidy" folds branches and combines instructions, in a tenth of the time. Measured for each: the sums of the kernels of
five models differ by less than 1 %. Of "attention" and "norm_rows" they differ by 3 %.
"""


def effort_of(family: str) -> Effort:
    """What LLVM's optimiser does for a kernel of `family`."""
    return EFFORTS.get(family, "full")
