"""Which generator emits which kernel family: a function of this folder is found by the record that it takes.

Importing this module fails where a family has no generator, or a generator no record.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypeGuard, get_type_hints

from treadle.codegen import kernels as generators_of
from treadle.codegen.emit.kernel import Kernel
from treadle.errors import InternalError
from treadle.plan import kernels as records_of
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.kernels.library_gemm import LibraryGemmSpec

Generator = Callable[[Kernel, Any], None]
"""Emits the kernel of a spec of its own family: the record that its parameter `spec` is annotated with."""


def records() -> Iterator[tuple[type[KernelSpec], ModuleType]]:
    """Yields the record of the parameters of each family in `plan.kernels`, and the module that defines it."""
    for module in _modules(records_of):
        for each in vars(module).values():
            if _is_record(each) and each.__module__ == module.__name__:
                yield each, module


def generators() -> Iterator[Generator]:
    """Yields each function `emit_<family>(k, spec)` that a module of this folder defines."""
    for module in _modules(generators_of):
        for name, each in vars(module).items():
            if name.startswith("emit_") and each.__module__ == module.__name__ and "spec" in each.__annotations__:
                yield each


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    """Yields the modules of `package` and of its folders, without this one."""
    for entry in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if entry.name != __name__:
            yield import_module(entry.name)


def by_record(emits: Iterable[Generator]) -> dict[type[KernelSpec], Generator]:
    """Returns the generators by the records that they take.

    Raises:
        InternalError: a generator takes no record of a family, or a family has none or two.
    """
    found: dict[type[KernelSpec], Generator] = {}
    for emit in emits:
        record = get_type_hints(emit).get("spec")
        if not _is_record(record):
            raise InternalError(f"{emit.__name__} takes no record of a family")
        if record in found:
            raise InternalError(f"{record.__name__} has two generators: {found[record].__name__} and {emit.__name__}")
        found[record] = emit
    for record, _ in records():
        if record not in found and record is not LibraryGemmSpec:
            raise InternalError(f"{record.__name__} has no generator")
    return found


def _is_record(each: Any) -> TypeGuard[type[KernelSpec]]:
    return isinstance(each, type) and issubclass(each, KernelSpec) and "family" in vars(each)


GENERATORS = by_record(generators())
"""The generator of each family, by the record of its parameters. Products by a library have none."""

Effort: TypeAlias = Literal["none", "tidy", "loops", "full"]

EFFORTS: dict[str, Effort] = {
    "attention": "loops",
    "conv": "none",
    "conv_depthwise": "none",
    "conv_pool": "tidy",
    "conv_winograd": "tidy",
    "copy_rows": "tidy",
    "copy_tiles": "tidy",
    "cumulative": "tidy",
    "elementwise": "loops",
    "elementwise_flat": "loops",
    "gather": "tidy",
    "gather_nd": "tidy",
    "gemm": "tidy",
    "norm_rows": "loops",
    "one_hot": "tidy",
    "pool_blocked": "tidy",
    "range": "tidy",
    "recurrent": "tidy",
    "reduce_columns": "loops",
    "reduce_rows": "loops",
    "reorder": "tidy",
    "scatter_elements": "tidy",
    "scatter_nd": "tidy",
    "sizes": "tidy",
    "softmax_columns": "loops",
    "softmax_rows": "loops",
    "trilu": "tidy",
    "winograd_input": "tidy",
}
"""What LLVM's optimiser does for families whose code is as fast without all of it, which takes longer than the code
generator.

"tidy" folds branches and combines instructions, in a tenth of the time. "loops" also reassociates expressions, so that
more of them are invariant, and rotates loops, in a fifth of the time. Measured for each: the sums of the kernels of
five models, or kernels on data in the first cache, differ by less than 1 %. With "tidy", "softmax_columns" differs by
11 %, other families that have "loops" by 1 to 3 %.
"""


def effort_of(family: str) -> Effort:
    """What LLVM's optimiser does for a kernel of `family`."""
    return EFFORTS.get(family, "full")
