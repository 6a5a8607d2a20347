"""The IR builder whose instructions are text: LLVM reads what it writes, and it writes few objects."""

import pytest
from llvmlite import binding, ir

from treadle.codegen.emit.builder import Line
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.memory import load, load_masked, store, store_masked
from treadle.codegen.emit.types import I64
from treadle.codegen.emit.vectors import constant, fma, splat
from treadle.codegen.target import detect
from treadle.dtypes import f32


@pytest.fixture
def k() -> Kernel:
    return Kernel("kernel", detect())


def parsed(k: Kernel) -> list[str]:
    """Return the opcodes of the kernel as LLVM reads it."""
    with binding.create_context() as context, binding.parse_assembly(k.finish(), context) as module:
        module.verify()
        return [each.opcode for block in module.get_function("kernel").blocks for each in block.instructions]


def test_llvm_reads_every_kind_of_line(k):
    pointer = k.pointer(0)
    left, right = load(k, pointer, k.chunk, f32, 4), splat(k, load(k, pointer, 3, f32), 4)
    mask = k.b.icmp_signed("<", k.b.gep(pointer, [I64(1)], source_etype=I64), pointer)
    value = k.b.select(mask, fma(k, left, right, left), k.b.fsub(left, constant(f32, 1.0, 4)))
    lanes = k.b.icmp_signed(">=", splat(k, k.mul(k.chunk, 3), 4), splat(k, k.b.sub(k.chunk, I64(2), flags=("nsw",)), 4))
    store(k, load_masked(k, pointer, 8, f32, lanes, value), pointer, 16, f32)
    store_masked(k, value, pointer, 24, f32, lanes)
    opcodes = parsed(k)
    for opcode in ("getelementptr", "load", "store", "call", "select", "icmp", "fsub", "mul", "shufflevector"):
        assert opcode in opcodes


def test_results_of_both_builders_of_a_kernel_have_names_of_their_own(k):
    first = k.b.add(k.chunk, I64(1))
    k.pointer(1)
    assert first.get_reference() != k.b.add(k.chunk, I64(2)).get_reference()
    assert parsed(k)[-1] == "ret"


def test_common_instructions_are_lines(k):
    assert isinstance(k.b.add(k.chunk, k.chunk), Line)
    assert isinstance(load(k, k.pointer(0), 5, f32, 8), Line)


def test_named_results_keep_their_names(k):
    assert k.b.add(k.chunk, k.chunk, name="twice").get_reference() == '%"twice"'


def test_operands_of_two_types_are_refused(k):
    with pytest.raises(ValueError, match="same type"):
        k.b.add(k.chunk, ir.Constant(ir.IntType(32), 1))
