"""LLVM keeps the sums of matrix products in registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.assembly import loops_of, spills
from tests.kernel_runner import lower_graph, without_vnni

from treadle.codegen import target as targets
from treadle.dtypes import f32, i32, u8
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.passes.lower.gemm_tiles import MAX_ROWS
from treadle.plan.kernels.gemm import GemmSpec
from treadle.plan.target import Target

BIAS = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))


def spec_of(vectors: int, target: Target) -> GemmSpec:
    """The kernel of a linear layer for any number of rows, whose largest block fills the registers if rows suffice.

    Its last panel is not full.
    """
    graph = Graph()
    x = graph.value("x", f32, (96, 256))
    weights = graph.constant(np.zeros((256, 250), np.float32), "w")
    bias = graph.constant(np.zeros(250, np.float32), "bias")
    graph.add("matmul", [x, weights, bias], {"epilogue": BIAS}, outputs=[graph.value("y", f32, (96, 250))])
    ((call,), _) = lower_graph(graph, target)
    assert isinstance(call.spec, GemmSpec)
    most = min(MAX_ROWS, (target.registers - vectors - 1) // vectors)
    return replace(call.spec, rows=tuple(range(most, 0, -1)), vectors=vectors, edge=vectors, grid=True)


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize("vectors", [2, 3, 4])
def test_a_last_panel_that_is_not_full_leaves_all_registers_to_sums(isa: str, vectors: int) -> None:
    """
    No loop over the depth uses the stack: the masks of the last panel are not kept in registers meanwhile.
    """
    if isa not in targets.available_isas():
        pytest.skip(f"this CPU has no {isa}")
    target = targets.for_isa(isa)
    spec = spec_of(vectors, target)
    loops = loops_of(spec, target)
    assert len(loops) >= len(spec.rows), "each height of blocks has a loop"
    for body in loops:
        assert not spills(body), "\n".join(body)


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize("weight", [0, 127])
def test_sums_of_bytes_stay_in_registers_without_vnni(isa: str, weight: int) -> None:
    """
    LLVM does not add the products of two steps to each other before it adds them to a sum, of bytes and of words.
    """
    if isa not in targets.available_isas():
        pytest.skip(f"this CPU has no {isa}")
    target = without_vnni(targets.for_isa(isa))
    graph = Graph()
    x = graph.value("x", u8, (96, 256))
    weights = graph.constant(np.full((256, 256), weight, np.int8), "w")
    graph.add("matmul", [x, weights], outputs=[graph.value("y", i32, (96, 256))])
    ((call,), _) = lower_graph(graph, target)
    assert isinstance(call.spec, GemmSpec)
    assert call.spec.words == bool(weight)
    assert max(call.spec.rows) * call.spec.vectors >= 8
    loops = loops_of(call.spec, target)
    assert loops
    for body in loops:
        assert not spills(body), "\n".join(body)
