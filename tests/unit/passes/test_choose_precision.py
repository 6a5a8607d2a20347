"""Which values choose_precision stores as bf16, and which it copies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.passes.conftest import TARGET, Writer

from treadle.codegen import target as targets
from treadle.dtypes import bf16, f32
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.graph.verify import verify
from treadle.passes.base import PassContext, Precision
from treadle.passes.choose_precision import ChoosePrecision
from treadle.plan.target import Target

HOST = targets.for_isa(targets.best_isa())
needs_products = pytest.mark.skipif(not HOST.has_bf16_dot, reason="this CPU lacks AVX512_BF16")
POOL = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), "ceil_mode": False}


def chosen(graph: Graph, precision: Precision = "bf16", target: Target = HOST) -> bool:
    changed = ChoosePrecision().run(graph, PassContext(target, precision=precision))
    verify(graph, typed=True)
    return changed


def dtypes_of(values: Sequence[Value]) -> list[str]:
    return [str(value.dtype) for value in values]


@pytest.mark.parametrize(("precision", "target"), [("f32", HOST), ("bf16", TARGET)], ids=["f32 wanted", "no products"])
def test_nothing_changes_unless_both_the_user_and_the_cpu_agree(precision: Precision, target: Target) -> None:
    """precision="f32", and a CPU without the instruction, leave the graph alone."""
    w = Writer()
    graph = w.done(w.conv(w.conv(w.input(1, 32, 8, 8), (32, 64), size=3), (64, 64)))
    assert not chosen(graph, precision, target)
    assert all(value.dtype == f32 for node in graph.nodes for value in node.outputs)


@needs_products
def test_values_between_convolutions_are_stored_rounded() -> None:
    """Pools, a residual and a concatenation too; the graph's output is as declared."""
    w = Writer()
    a = w.conv(w.input(1, 32, 8, 8), (32, 64))
    b = w.op("max_pool", a, **POOL)
    c = w.conv(b, (64, 64), size=3)
    d = w.op("concat", b, c, axis=1)
    out = w.conv(d, (128, 32))
    graph = w.done(out)
    assert chosen(graph)
    assert dtypes_of([a, b, c, d, out]) == ["bf16", "bf16", "bf16", "bf16", "f32"]


@needs_products
def test_a_concatenation_is_rounded_with_all_its_operands_or_with_none() -> None:
    """One operand is a graph output, so none is stored as bf16; the product reads a rounded copy."""
    w = Writer()
    x = w.conv(w.input(1, 32, 8, 8), (32, 64))
    kept = w.conv(x, (64, 32))
    joined = w.op("concat", kept, w.conv(x, (64, 32)), axis=1)
    graph = w.done(w.conv(joined, (64, 128)), kept)
    assert chosen(graph)
    assert dtypes_of([x, kept, joined]) == ["bf16", "f32", "f32"]
    copies = [node for node in graph.nodes if node.op == "elementwise"]
    assert joined in [node.operand(0) for node in copies]


@needs_products
def test_what_others_read_besides_products_gets_a_rounded_copy() -> None:
    """A residual stream stays f32; what only a product reads does not."""
    w = Writer()
    x = w.op("softmax", w.input(1, 16, 128), axis=-1)
    inner = w.matmul(x, w.weights(128, 256))
    outer = w.matmul(inner, w.weights(256, 128))
    graph = w.done(w.op("reduce_mean", x, axes=(1,), keepdims=True), outer)
    assert chosen(graph)
    assert dtypes_of([x, inner, outer]) == ["f32", "bf16", "f32"]
    (copy,) = [node for node in graph.nodes if node.op == "elementwise"]
    assert copy.operand(0) is x
    assert copy.output.dtype == bf16


@needs_products
def test_small_products_stay_f32() -> None:
    """Rounding a value costs more than a product of a few columns gains."""
    w = Writer()
    graph = w.done(w.matmul(w.input(16, 64), w.weights(64, 8)))
    assert not chosen(graph)


@needs_products
def test_small_products_of_one_value_share_its_rounded_copy() -> None:
    """What one product does not gain, eight of them do: the copy is made once."""
    w = Writer()
    x = w.input(16, 64)
    graph = w.done(*(w.matmul(x, w.weights(64, 8)) for _ in range(8)))
    assert chosen(graph)
    (copy,) = [node for node in graph.nodes if node.op == "elementwise"]
    assert all(node.operand(0) is copy.output for node in graph.nodes if node.op == "matmul")


@needs_products
def test_an_odd_depth_stays_f32() -> None:
    """There is no pair for the last element."""
    w = Writer()
    graph = w.done(w.matmul(w.input(16, 65), w.weights(65, 128)))
    assert not chosen(graph)
