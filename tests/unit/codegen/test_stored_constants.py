"""Coefficients of polynomials on AVX2."""

from __future__ import annotations

import pytest
from tests.assembly import loops_of
from tests.kernel_runner import lower_graph

from treadle.codegen import target as targets
from treadle.dtypes import DType, f32, f64
from treadle.graph.graph import Graph


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("op", ["exp", "erf"])
def test_multiplications_read_coefficients_from_memory(op: str, dtype: DType) -> None:
    """
    The loop of the kernel spreads no number over a vector: it has more coefficients than fit the registers.
    """
    if "avx2" not in targets.available_isas():
        pytest.skip("this CPU has no avx2")
    target = targets.for_isa("avx2")
    graph = Graph()
    x = graph.input("x", dtype, (4096,))
    graph.add(op, [x], outputs=[graph.value("y", dtype, (4096,))])
    ((call,), _) = lower_graph(graph, target)
    assert call.spec is not None
    loops = [body for body in loops_of(call.spec, target) if any("ymm" in line for line in body)]
    assert loops
    for body in loops:
        assert any(line.startswith("vfmadd") and "(%r" in line for line in body), "\n".join(body)
        assert not [line for line in body if line.startswith("vbroadcast")], "\n".join(body)
