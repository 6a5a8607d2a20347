"""Which generator emits which kernel family."""

from collections.abc import Callable

from weft.codegen.emit.kernel import Kernel
from weft.codegen.kernels.conv import emit_conv
from weft.codegen.kernels.conv_depthwise import emit_conv_depthwise
from weft.codegen.kernels.conv_plain import emit_conv_plain
from weft.codegen.kernels.copy import emit_copy_rows, emit_copy_tiles
from weft.codegen.kernels.copy_bytes import emit_copy_bytes
from weft.codegen.kernels.elementwise import emit_elementwise, emit_elementwise_flat
from weft.codegen.kernels.gemm import emit_gemm
from weft.codegen.kernels.pool import emit_pool_blocked
from weft.codegen.kernels.pool_plain import emit_pool_plain
from weft.codegen.kernels.reorder import emit_reorder
from weft.plan.kernel_spec import KernelSpec

Generator = Callable[[Kernel, KernelSpec], None]

KERNELS: dict[str, Generator] = {
    "copy_bytes": emit_copy_bytes,
    "pool_blocked": emit_pool_blocked,
    "pool_plain": emit_pool_plain,
    "reorder": emit_reorder,
    "conv": emit_conv,
    "conv_depthwise": emit_conv_depthwise,
    "conv_plain": emit_conv_plain,
    "copy_rows": emit_copy_rows,
    "copy_tiles": emit_copy_tiles,
    "gemm": emit_gemm,
    "elementwise": emit_elementwise,
    "elementwise_flat": emit_elementwise_flat,
}
