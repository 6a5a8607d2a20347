"""Elementwise results written over operands."""

from __future__ import annotations

import pytest
from tests.unit.passes.conftest import TARGET, Writer

from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.passes.choose_kernels import Lowered, choose_kernels
from treadle.passes.write_over import write_over_operands


def lowered(graph: Graph) -> Lowered:
    """The calls of `graph`, with results written over operands."""
    found = choose_kernels(graph, TARGET, "fast")
    write_over_operands(graph, found)
    return found


def lies_in(found: Lowered, value: Value, other: Value) -> bool:
    return found.root(value) == found.root(other)


def softmax(w: Writer, x: Value) -> Value:
    """A value that a kernel makes which is no elementwise loop."""
    return w.op("softmax", x, axis=-1)


def test_a_chain_of_loops_stays_in_the_memory_of_its_first_value() -> None:
    w = Writer()
    made = softmax(w, w.input(4, 64))
    first = w.op("exp", made)
    second = w.op("mul", w.constant(w.rng.standard_normal((4, 1))), first)
    third = w.op("sqrt", second)
    found = lowered(w.done(softmax(w, third)))
    assert lies_in(found, first, made)
    assert lies_in(found, second, made)
    assert lies_in(found, third, made)


def test_the_operand_that_repeats_keeps_its_memory() -> None:
    w = Writer()
    row, whole = softmax(w, w.input(64)), softmax(w, w.input(4, 64, name="y"))
    total = w.op("add", row, whole)
    found = lowered(w.done(softmax(w, total)))
    assert lies_in(found, total, whole)
    assert not lies_in(found, total, row)


@pytest.mark.parametrize("kind", ["an input", "a constant", "read later", "read in another shape", "an output"])
def test_memory_that_others_read_is_not_written(kind: str) -> None:
    w = Writer()
    x = w.input(4, 64)
    operand = x if kind == "an input" else w.weights(4, 64) if kind == "a constant" else softmax(w, x)
    others = []
    if kind == "read later":
        others.append(softmax(w, operand))
    if kind == "read in another shape":
        others.append(softmax(w, w.op("reshape", operand, w.ints(8, 32), allowzero=False)))
    if kind == "an output":
        others.append(operand)
    result = w.op("exp", operand)
    found = lowered(w.done(softmax(w, result), *others))
    assert not lies_in(found, result, operand)


def test_an_output_has_memory_of_its_own() -> None:
    w = Writer()
    made = softmax(w, w.input(4, 64))
    result = w.op("exp", made)
    assert not lies_in(lowered(w.done(result)), result, made)


def test_results_of_python_are_not_written_over() -> None:
    """Their functions give them arrays."""
    w = Writer()
    made = w.op("einsum", w.input(4, 64), equation="ij->ij")
    result = w.op("exp", made)
    assert not lies_in(lowered(w.done(softmax(w, result))), result, made)


def test_a_result_in_a_concatenation_stays_there() -> None:
    w = Writer()
    x = w.input(1, 64)
    made = softmax(w, x)
    result = w.op("exp", made)
    joined = w.op("concat", result, softmax(w, w.input(1, 64, name="y")), axis=1)
    found = lowered(w.done(softmax(w, joined)))
    assert lies_in(found, result, joined)
