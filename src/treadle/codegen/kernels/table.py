"""Which generator emits which kernel family."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypeGuard, get_type_hints

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
from treadle.errors import InternalError
from treadle.plan import kernels
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.library_gemm import LibraryGemmSpec

Generator = Callable[[Kernel, Any], None]
"""Emits the kernel of a spec of its own family: the record that its parameter `spec` is annotated with."""


def records() -> Iterator[tuple[type[KernelSpec], ModuleType]]:
    """The record of the parameters of each family in `plan.kernels`, and the module that it is in."""
    for entry in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        module = import_module(entry.name)
        for each in vars(module).values():
            if _is_record(each) and each.__module__ == module.__name__:
                yield each, module


def by_record(emits: Iterable[Generator]) -> dict[type[KernelSpec], Generator]:
    """Returns the generators by the records that they take.

    Raises:
        InternalError: a generator takes no record of a family, or a family has no generator.
    """
    generators: dict[type[KernelSpec], Generator] = {}
    for emit in emits:
        record = get_type_hints(emit).get("spec")
        if not _is_record(record):
            raise InternalError(f"{emit.__name__} takes no record of a family")
        generators[record] = emit
    for record, _ in records():
        if record not in generators and record is not LibraryGemmSpec:
            raise InternalError(f"{record.__name__} has no generator")
    return generators


def _is_record(each: Any) -> TypeGuard[type[KernelSpec]]:
    return isinstance(each, type) and issubclass(each, KernelSpec) and "family" in vars(each)


GENERATORS = by_record(
    [
        emit_copy_bytes,
        emit_pool_blocked,
        emit_pool_plain,
        emit_reorder,
        emit_pick_channels,
        emit_conv,
        emit_conv_depthwise,
        emit_conv_plain,
        emit_conv_pool,
        emit_conv_strassen,
        emit_conv_winograd,
        emit_winograd_input,
        emit_copy_rows,
        emit_copy_tiles,
        emit_attention,
        emit_recurrent,
        emit_gemm,
        emit_gemm_pack,
        emit_gemm_strassen,
        emit_strassen_left,
        emit_gemv,
        emit_byte_table,
        emit_elementwise,
        emit_elementwise_flat,
        emit_gather,
        emit_gather_elements,
        emit_gather_nd,
        emit_gather_reduce,
        emit_scatter_elements,
        emit_scatter_nd,
        emit_lookup,
        emit_resample,
        emit_one_hot,
        emit_trilu,
        emit_trees,
        emit_cumsum,
        emit_arg_reduce,
        emit_reduce_rows,
        emit_reduce_columns,
        emit_softmax_rows,
        emit_softmax_columns,
        emit_norm_rows,
    ]
)
"""The generator of each family, by the record of its parameters. Products by a library have none."""

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
"""What LLVM's optimiser does for families whose code is as fast without all of it, which takes longer than the code
generator.

"tidy" folds branches and combines instructions, in a tenth of the time. Measured for each: the sums of the kernels of
five models differ by less than 1 %. Of "attention" and "norm_rows" they differ by 3 %.
"""


def effort_of(family: str) -> Effort:
    """What LLVM's optimiser does for a kernel of `family`."""
    return EFFORTS.get(family, "full")
