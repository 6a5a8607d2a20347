"""What blocks of matrix products do for their epilogue."""

from __future__ import annotations

import numpy as np
from tests.kernel_runner import lower_graph, run_graph

from treadle.codegen import jit
from treadle.dtypes import f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.plan.kernels.gemm import GemmSpec
from treadle.plan.target import LINE, Target

BIAS = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))
RESIDUAL = Expr((f32, f32, f32), (Step("add", (0, 1), f32), Step("add", (3, 2), f32)), (4,))
GELU = Expr(
    (f32, f32),
    (
        Step("add", (0, 1), f32),
        Step("erf", (2,), f32),
        Step("mul", (2, 3), f32),
    ),
    (4,),
)


def compiled(target: Target, epilogue: Expr) -> tuple[GemmSpec, int]:
    """The kernel of a linear layer with an epilogue of a bias and perhaps a residual, and how many prefetches its code
    has."""
    graph = Graph()
    x = graph.value("x", f32, (96, 256))
    operands = [x, *(graph.constant(np.zeros(shape, np.float32)) for shape in ((256, 256), (256,)))]
    if len(epilogue.operands) > 2:
        operands.append(graph.value("residual", f32, (96, 256)))
    graph.add("matmul", operands, {"epilogue": epilogue}, outputs=[graph.value("y", f32, (96, 256))])
    ((call,), _) = lower_graph(graph, target)
    assert isinstance(call.spec, GemmSpec)
    return call.spec, jit.emit_ir(call.spec, target).count('call void @"llvm.prefetch')


def test_blocks_prefetch_the_lines_of_a_residual(target: Target) -> None:
    """
    Blocks of each height prefetch the part of the residual that their epilogue reads.
    """
    _, without = compiled(target, BIAS)
    spec, with_residual = compiled(target, RESIDUAL)
    assert with_residual - without == sum(spec.rows) * lines_of_a_row(spec, target)


def test_blocks_prefetch_the_lines_that_a_long_epilogue_stores(target: Target) -> None:
    """
    Blocks of each height prefetch what their results are stored to, where the results of several are stored together.
    """
    _, without = compiled(target, BIAS)
    spec, with_gelu = compiled(target, GELU)
    assert with_gelu - without == sum(spec.rows) * lines_of_a_row(spec, target)


def lines_of_a_row(spec: GemmSpec, target: Target) -> int:
    """How many cache lines a row of a block covers."""
    return -(-spec.vectors * target.lanes(f32) * f32.size // LINE)


def scaled(factors: list[float]) -> Graph:
    """Products of a constant and x, each times a factor and less 1."""
    graph = Graph()
    x = graph.value("x", f32, (9, 40))
    graph.inputs.append(x)
    weights = graph.constant((np.arange(40 * 24, dtype=np.float32) % 7).reshape(40, 24))
    for number, factor in enumerate(factors):
        steps = (
            Step("const", (), f32, factor),
            Step("mul", (0, 1), f32),
            Step("const", (), f32, 1.0),
            Step("sub", (2, 3), f32),
        )
        y = graph.value(f"y{number}", f32, (9, 24))
        graph.add("matmul", [x, weights], {"epilogue": Expr((f32,), steps, (4,))}, outputs=[y])
        graph.outputs.append(y)
    return graph


def test_products_that_differ_in_a_number_share_a_kernel(target: Target) -> None:
    """
    Scales are arguments of the kernel; 1 stays in its code.
    """
    factors = [0.3, 0.7, -1.9]
    calls, _ = lower_graph(scaled(factors), target)
    specs = {call.spec for call in calls if isinstance(call.spec, GemmSpec)}
    x = np.linspace(-1, 1, 9 * 40, dtype=np.float32).reshape(9, 40)
    found = run_graph(scaled(factors), {"x": x}, target=target)
    product = x @ (np.arange(40 * 24, dtype=np.float32) % 7).reshape(40, 24)

    (spec,) = specs
    assert spec.given == 1
    for number, factor in enumerate(factors):
        np.testing.assert_allclose(found[f"y{number}"], product * factor - 1, rtol=1e-5, atol=1e-5)
