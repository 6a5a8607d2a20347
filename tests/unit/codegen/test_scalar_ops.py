"""Which scalar ops are long follows from the code they become."""

from __future__ import annotations

import pytest

from treadle import dtypes
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.scalar_ops import LONG, LONG_OPS, SCALAR_OPS, Operation
from treadle.ops.elementwise import SCALAR_OPS as MEANINGS
from treadle.plan.target import Target

OF_NUMBERS = sorted(name for name, op in MEANINGS.items() if op.domain not in ("bool", "integer") and name != "where")


def instructions(name: str, target: Target) -> int:
    """How many the op takes for a vector of f32, loads of its operands not counted."""
    k = Kernel("counted", target)
    lanes = target.lanes(dtypes.f32)
    operands = [load(k, k.pointer(index), 0, dtypes.f32, lanes) for index in range(MEANINGS[name].arity)]

    def written() -> int:
        return sum(len(block.instructions) for block in k.b.function.blocks)

    before = written()
    SCALAR_OPS[name](k, Operation(operands, dtypes.f32, None))
    return written() - before


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_an_op_of_many_instructions_is_listed_as_long(name: str, target: Target) -> None:
    """
    Epilogues of convolutions and products write long ops once a block: one that is not listed is written up to 30
    times.
    """
    assert (name in LONG_OPS) == (instructions(name, target) > LONG)


def test_every_long_op_is_an_op() -> None:
    """
    A misspelt name would never be met.
    """
    assert set(OF_NUMBERS) >= LONG_OPS
