"""Lowerings of open sizes give expressions whose values for the sample are what the sample's numbers give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from treadle.dtypes import f32, i64
from treadle.graph.dim import DimExpr, RealExpr, hint_of
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.table import LOWERINGS
from treadle.plan.call import Call
from treadle.plan.kernels.conv.depthwise import DepthwiseConvSpec
from treadle.plan.kernels.conv.direct import DirectConvSpec
from treadle.plan.target import Target

TARGET = Target("avx512", "x86_64-unknown-linux-gnu", "", "", 64, 32, 1 << 15, 1 << 20, 1 << 25)

Make = Callable[[Graph, int], Node]


def node(
    graph: Graph,
    op: str,
    shapes: list[tuple[int, ...]],
    out: tuple[int, ...],
    attrs: dict[str, Any],
    indices: bool = False,
) -> Node:
    inputs = [graph.input(f"x{at}", i64 if indices and at else f32, shape) for at, shape in enumerate(shapes)]
    made = graph.add(op, inputs, attrs, outputs=1)
    made.output.dtype, made.output.shape = f32, out
    return made


CASES: dict[str, Make] = {
    "add": lambda g, n: node(g, "add", [(n, 12, 64), (12, 1)], (n, 12, 64), {}),
    "add rows": lambda g, n: node(g, "add", [(4, n, 5000), (n, 1)], (4, n, 5000), {}),
    "relu": lambda g, n: node(g, "relu", [(n, 300)], (n, 300), {}),
    "transpose": lambda g, n: node(g, "transpose", [(2, n, 64)], (2, 64, n), {"perm": (0, 2, 1)}),
    "transpose heads": lambda g, n: node(g, "transpose", [(1, n, 8, 64)], (1, 8, n, 64), {"perm": (0, 2, 1, 3)}),
    "concat": lambda g, n: node(g, "concat", [(n, 64), (n, 3)], (n, 67), {"axis": 1}),
    "softmax": lambda g, n: node(g, "softmax", [(n, 12, 128)], (n, 12, 128), {"axis": -1}),
    "softmax of open rows": lambda g, n: node(g, "softmax", [(8, 128, n)], (8, 128, n), {"axis": -1}),
    "softmax of columns": lambda g, n: node(g, "softmax", [(8, 128, n)], (8, 128, n), {"axis": 1}),
    "layer_norm": lambda g, n: node(
        g, "layer_norm", [(n, 16, 768), (768,), (768,)], (n, 16, 768), {"axis": -1, "epsilon": 1e-5}
    ),
    "reduce rows": lambda g, n: node(g, "reduce_mean", [(n, 768)], (n, 1), {"axes": (1,), "keepdims": True}),
    "reduce columns": lambda g, n: node(g, "reduce_sum", [(50, n)], (n,), {"axes": (0,), "keepdims": False}),
    "reduce in pieces": lambda g, n: node(g, "reduce_max", [(n * 65536,)], (), {"axes": (0,), "keepdims": False}),
    "gather": lambda g, n: node(g, "gather", [(30000, 64), (1, n)], (1, n, 64), {"axis": 0}, indices=True),
}


def lowered(make: Make, size: int) -> list[Call]:
    graph = Graph()
    made = make(graph, size)
    calls = LOWERINGS[made.op](made, LowerContext(graph, TARGET))
    assert calls is not None
    return calls


def sample(value: Any) -> Any:
    """`value` with the number for the sample in the place of each expression."""
    if isinstance(value, DimExpr | RealExpr):
        return hint_of(value)
    if isinstance(value, tuple):
        return tuple(map(sample, value))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: sample(getattr(value, field.name)) for field in fields(value)}
    return value


def general(spec: Any) -> Any:
    """The fields of `spec` but `long` and `short`: kernels for any length take rows of an open one."""
    return {name: value for name, value in sample(spec).items() if name not in ("long", "short")}


@pytest.mark.parametrize("case", CASES)
def test_the_sample_gets_what_its_numbers_get(case: str) -> None:
    """
    Kernels with the same parameters, arguments, chunks, costs and offsets; and no size is fixed to the sample.
    """
    facts = Facts()
    found, known = lowered(CASES[case], facts.symbol("n", 37)), lowered(CASES[case], 37)
    assert len(found) == len(known) > 0
    for one, other in zip(found, known, strict=True):
        assert general(one.spec) == general(other.spec)
        for name in ("args", "chunks", "scratch", "offsets"):
            assert sample(getattr(one, name)) == sample(getattr(other, name)), name
        assert sample(one.cost) == pytest.approx(other.cost)
    assert any(isinstance(value, DimExpr) for call in found for value in vars_of(call))
    fixed = [str(guard) for guard in facts.guards if guard.op == "zero" and guard.holds]
    assert not fixed


def vars_of(call: Call) -> list[Any]:
    assert is_dataclass(call.args)
    flat: list[Any] = []
    for value in (call.chunks, *(getattr(call.args, field.name) for field in fields(call.args))):
        flat += value if isinstance(value, tuple) else [value]
    return flat


@pytest.mark.parametrize(("groups", "channels"), [(1, 64), (32, 32)])
def test_batches_of_convolutions_stay_open(groups: int, channels: int) -> None:
    """
    Direct and depthwise convolutions of an open number of images are partitioned at binding.
    """

    def conv(graph: Graph, images: int) -> Node:
        rng = np.random.default_rng(0)
        weights = graph.constant(rng.standard_normal((channels, channels // groups, 3, 3)).astype(np.float32), "w")
        x = graph.input("x", f32, (images, channels, 28, 28))
        attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "groups": groups, "exact": True}
        made = graph.add("conv", [x, weights], attrs, outputs=1)
        made.output.dtype, made.output.shape = f32, (images, channels, 28, 28)
        x.layout = made.output.layout = Blocked(16)
        return made

    facts = Facts()
    (found,), (known,) = lowered(conv, facts.symbol("n", 3)), lowered(conv, 3)
    assert isinstance(known.spec, DepthwiseConvSpec if groups > 1 else DirectConvSpec)
    for name in ("spec", "args", "chunks"):
        assert sample(getattr(found, name)) == sample(getattr(known, name)), name
    assert isinstance(found.chunks, DimExpr)
    assert not [str(guard) for guard in facts.guards if guard.op == "zero" and guard.holds]
