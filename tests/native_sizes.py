"""Sizes as the native core computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle import _native
from treadle.plan.binder import Encoder


def native_sizes(
    symbols: Sequence[Any], expressions: Sequence[Any], values: Sequence[int], guards: Sequence[Any] = ()
) -> list[int]:
    """The values of integer expressions for `values` of the symbols.

    The expressions are the requested sizes of a program without steps that has these guards.
    """
    encoder = Encoder(list(symbols))
    slots = [encoder.integer(expression) for expression in expressions]
    scratch = encoder.integer(0)
    checks = [encoder.guard(guard) for guard in guards]
    done = encoder.finish()
    number = encoder.number_of
    template = _native.ProgramTemplate(
        done.symbols,
        done.constants,
        done.operations,
        done.operands,
        steps=[],
        tasks=[],
        successors=[],
        buffers=[],
        rivals=[],
        scratch_bytes=number(scratch),
        guards=[number(slot) for slot in checks],
        requested=[number(slot) for slot in slots],
    )
    (found,) = template.requested(template.evaluate(tuple(values)), [len(slots)])
    assert found is not None
    return list(found)
