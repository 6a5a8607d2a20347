"""Kernel specs to addresses by LLVM: emits IR, optimises, compiles and links it."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache

from llvmlite import binding

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.kernels.table import GENERATORS, Effort, effort_of
from treadle.codegen.resident_memory import release_heap, release_llvm_code
from treadle.errors import InternalError
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import Target

_numbers = itertools.count()

_SPARE_BYTES, _BYTES_OF_TEXT = 64 << 20, 400
"""Address space that compiling takes at most, in all and for each character of IR: a heap of glibc for a thread, and
what the largest kernel of mobilenet_v2 took beside. Measured as the growth of VmPeak in /proc/self/status over
`compile_kernel` in a new process."""

# A fork waits until no thread is inside LLVM. Otherwise the child would inherit llvmlite's lock taken by a thread that
# the child does not have, and LLVM in the middle of a call.
_llvm = binding.ffi.lib._lock  # noqa: SLF001 - llvmlite's own callbacks leave a moment in which the lock is taken
os.register_at_fork(before=_llvm.__enter__, after_in_parent=_llvm.__exit__, after_in_child=_llvm.__exit__)


@lru_cache(maxsize=1)
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()  # for inline assembly


@lru_cache(maxsize=8)
def target_machine(target: Target) -> binding.TargetMachine:
    """Returns LLVM's code generator for `target`."""
    _initialize()
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small", jit=True
    )


@lru_cache(maxsize=1)
def _engine() -> binding.LLJIT:
    _initialize()
    return binding.create_lljit_compiler()


def emit_ir(spec: KernelSpec, target: Target) -> str:
    """Returns the LLVM IR of the kernel before any optimisation."""
    k = Kernel(spec.symbol, target)
    GENERATORS[type(spec)](k, spec)
    return k.finish()


def compile_ir(text: str, target: Target, effort: Effort = "full") -> bytes:
    """Compiles the IR `text` to object code. Raises InternalError if LLVM rejects it, MemoryError if it needs more.

    `effort` is that of LLVM's optimiser: with "none" only the code generator's own passes run.
    """
    _require_memory(_SPARE_BYTES + _BYTES_OF_TEXT * len(text))
    machine = target_machine(target)
    with binding.create_context() as context:  # frees what modules leave in LLVM's global context
        try:
            module = binding.parse_assembly(text, context)
        except RuntimeError as error:
            raise _invalid(text, error) from error
        with module:
            try:
                module.verify()
            except RuntimeError as error:
                raise _invalid(text, error) from error
            _optimize(module, machine, effort)
            return bytes(machine.emit_object(module))


def _require_memory(size: int) -> None:
    """Raises MemoryError unless the process may map `size` bytes more: LLVM ends a process in which it finds none."""
    try:
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise MemoryError(f"LLVM needs up to {size >> 20} MB to compile a kernel") from error


def release_memory() -> None:
    """Releases the memory that LLVM keeps between compiles."""
    release_llvm_code()
    release_heap()


def _invalid(text: str, error: RuntimeError) -> InternalError:
    return InternalError(f"generated IR is not valid: {error}\n{text[:4000]}")


def _optimize(module: binding.ModuleRef, machine: binding.TargetMachine, effort: Effort) -> None:
    if effort == "none":
        return
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    with binding.create_pass_builder(machine, options) as builder:
        if effort == "full":
            passes = builder.getModulePassManager()
        else:
            passes = binding.create_new_module_pass_manager()
            passes.add_simplify_cfg_pass()
            if effort == "loops":
                passes.add_reassociate_pass()
                passes.add_loop_rotate_pass()
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
        passes.run(module, builder)


def compile_kernel(spec: KernelSpec, target: Target) -> bytes:
    """Compiles the kernel to object code, without looking into the cache."""
    return compile_ir(emit_ir(spec, target), target, effort_of(spec.family))


class Library:
    """Kernels linked into this process. Their addresses are valid as long as the library lives."""

    def __init__(self, objects: Iterable[tuple[KernelSpec, bytes]]) -> None:
        pairs = list(objects)
        self._linked = LlvmLinkedCode([(spec.symbol, code) for spec, code in pairs])
        self.addresses: dict[KernelSpec, int] = {spec: self._linked.addresses[spec.symbol] for spec, _ in pairs}


class LlvmLinkedCode:
    """Functions that LLVM linked into this process. `addresses` are valid as long as the object lives."""

    def __init__(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Links pairs of a function's name and the object that defines it."""
        builder = binding.JITLibraryBuilder()
        for name, code in objects:
            builder.add_object_img(code)
            builder.export_symbol(name)
        builder.add_current_process()
        self._tracker = builder.link(_engine(), f"treadle{next(_numbers)}") if objects else None
        self.addresses: dict[str, int] = {name: self._tracker[name] for name, _ in objects if self._tracker is not None}
