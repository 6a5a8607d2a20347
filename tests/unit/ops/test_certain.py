"""What is certain of results while sizes are open holds for all sizes, without an assumption."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from tests.ops.case import Case, graph_of
from tests.ops.suite import CASE_OPS, cases_of, named
from tests.unit.ops.test_open_shapes import MODES, array_at, at, opened, other_size

from treadle import dtypes
from treadle.errors import DtypeError, ShapeError, TreadleError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.dim import symbols_of
from treadle.graph.graph import Graph
from treadle.graph.guard import evaluate
from treadle.graph.node import Node
from treadle.ops.certain import certain_infos
from treadle.ops.evaluate import infer_node
from treadle.ops.op import Info
from treadle.ops.operands import sizes_array
from treadle.ops.reshape import reshaped
from treadle.ops.resize import infer_resize

UNKNOWN = "?"
"""How the names of symbols start that stand for sizes of which nothing is known."""


def assert_holds(result: Info, expected: Info, values: dict[str, int]) -> None:
    """`result` says nothing else than `expected`, which was inferred for these values of the symbols."""
    assert result.dtype == expected.dtype
    if result.shape is None or expected.shape is None:
        return
    assert len(result.shape) == len(expected.shape)
    for dim, wanted in zip(result.shape, expected.shape, strict=True):
        if not any(str(symbol).startswith(UNKNOWN) for symbol in symbols_of(dim)):
            assert evaluate(dim, values) == wanted, f"{result.shape} for {values}"
    if result.value is not None and expected.value is not None:
        np.testing.assert_array_equal(array_at(result, values), expected.value)


@pytest.mark.parametrize("op", CASE_OPS)
def test_what_is_certain_holds_for_all_sizes(op: str) -> None:
    """Also for sizes of 0 and 1, and where the shape rule would decide otherwise."""
    for case, mode in product(cases_of(op), MODES):
        with named(case, mode):
            assert_certain_holds(case, mode)


def assert_certain_holds(case: Case, mode: str) -> None:
    facts = CaseAnalysis()
    node = graph_of(case)[0].nodes[0]
    operands = opened(case, facts, mode, least=0)
    results = certain_infos(node, operands, facts)
    assert facts.guards == []
    rng = random.Random(case.id + mode)
    samples = {name: symbol.hint for name, symbol in facts.symbols.items()}
    names = [name for name in samples if not name.startswith(UNKNOWN)]
    others = ({name: max(0, rng.choice((0, 1, other_size(samples[name], rng)))) for name in names} for _ in range(40))
    for values in (samples, *others):
        try:
            wanted = infer_node(node, [at(info, values) for info in operands])
        except TreadleError:
            assert values is not samples
            continue
        for result, expected in zip(results, wanted, strict=False):
            assert_holds(result, expected, values)


def node(op: str, inputs: int, **attrs: object) -> Node:
    """A node with one result."""
    graph = Graph("g")
    return graph.make(op, [graph.value(f"x{i}") for i in range(inputs)], attrs, name=op, outputs=1)


def test_a_size_that_differs_between_cases_is_unknown() -> None:
    """The rank and what is the same in all cases are known."""
    facts = CaseAnalysis()
    n, m = facts.symbol("n", 7, least=0), facts.symbol("m", 8, least=0)
    left, right = Info(dtypes.f32, (n, n, 4, n)), Info(dtypes.f32, (n, m, n, 1))
    (found,) = certain_infos(node("add", 2), [left, right], facts)
    assert found.shape is not None
    assert (found.shape[0], found.shape[2], found.shape[3]) == (n, 4, n)
    assert str(found.shape[1]).startswith(UNKNOWN)


def test_a_rank_that_differs_between_cases_is_unknown() -> None:
    """Axes of size 1 are dropped: which, a run tells."""
    facts = CaseAnalysis()
    (found,) = certain_infos(node("squeeze", 1), [Info(dtypes.f32, (facts.symbol("n", 7, least=0), 4))], facts)
    assert found == Info(dtypes.f32, None)


def test_elements_are_followed() -> None:
    """As expressions, and as numbers of the result's dtype where no expression is left."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)
    shape = Info(dtypes.i64, (2,), sizes_array((n, 3)))
    for at_index, wanted in ((0, n), (1, 3)):
        index = Info(dtypes.i64, (), np.array(at_index))
        (found,) = certain_infos(node("gather", 2, axis=0), [shape, index], facts)
        assert found.value is not None
        assert found.value.item() is wanted or found.value.dtype == np.int64
        assert found.value.item() == wanted


def test_long_chains_of_shape_arithmetic_end_in_unknown_sizes() -> None:
    """Expressions that double in every step are given up early."""
    facts = CaseAnalysis()
    info = Info(dtypes.i64, (), np.array(facts.symbol("n", 7, least=0), object))
    for step in range(200):
        by = Info(dtypes.i64, (), np.array(step + 2))
        (half,) = certain_infos(node("div", 2), [info, by], facts)
        (info,) = certain_infos(node("mul", 2), [half, info], facts)
        (info,) = certain_infos(node("add", 2), [half, info], facts)
    assert info == Info(dtypes.i64, ())


def test_operands_that_fit_for_no_size_are_refused() -> None:
    """The error is that of the shape rule."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)
    with pytest.raises(ShapeError, match="do not broadcast: 3 and 4"):
        certain_infos(node("add", 2), [Info(dtypes.f32, (n, 3)), Info(dtypes.f32, (n, 4))], facts)


def test_a_size_that_can_only_be_one_number_is_that_number() -> None:
    """Every other one raises."""
    facts = CaseAnalysis()
    n, m = facts.symbol("n", 7, least=0), facts.symbol("m", 8, least=0)
    operands = [Info(dtypes.f32, (n, m)), Info(dtypes.f32, (3, 4, 5))]
    (found,) = certain_infos(node("concat", 2, axis=0), [Info(dtypes.f32, (n, m)), Info(dtypes.f32, (2, 4))], facts)
    assert found.shape == (n + 2, 4)
    with pytest.raises(ShapeError):
        certain_infos(node("concat", 2, axis=0), operands, facts)


def test_errors_say_whether_dtypes_are_wrong() -> None:
    """As an exception of their own."""
    facts = CaseAnalysis()
    numbers, text = Info(dtypes.f32, (2,)), Info(dtypes.i32, (2,))
    with pytest.raises(DtypeError):
        certain_infos(node("add", 2), [numbers, text], facts)
    with pytest.raises(DtypeError, match="node 'sqrt'"):
        infer_node(node("sqrt", 1), [text])


def test_dimensions_that_keep_their_sizes_ask_nothing() -> None:
    """Whether they are 0 does not matter, and whether another one is 0 is one question."""
    facts = CaseAnalysis()
    n, m = facts.symbol("n", 7, least=0), facts.symbol("m", 5, least=0)

    assert facts.results(lambda: reshaped((n, m, 6), [n, m, 2, 3], allowzero=False)) == [(n, m, 2, 3)]
    assert len(facts.results(lambda: reshaped((n * m,), [n, m], allowzero=False))) == 2
    x, sizes = Info(dtypes.f32, (n, m)), Info(dtypes.i64, (2,), sizes_array([n, m]))
    attrs = {"mode": "nearest", "coordinate_mode": "asymmetric", "nearest_mode": "floor"}
    (infos,) = facts.results(lambda: infer_resize(attrs, [x, None, None, sizes], 1))
    assert infos[0].shape == (n, m)
