"""What blocks of matrix products do for their epilogue."""

from __future__ import annotations

import numpy as np
from tests.kernel_runner import lower_graph

from treadle.codegen import jit
from treadle.dtypes import f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.plan.kernels.gemm import GemmSpec
from treadle.plan.target import LINE, Target

BIAS = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))
RESIDUAL = Expr((f32, f32, f32), (Step("add", (0, 1), f32), Step("add", (3, 2), f32)), (4,))


def compiled(target: Target, *, residual: bool) -> tuple[GemmSpec, int]:
    """The kernel of a linear layer with a bias and perhaps a residual, and how many prefetches its code has."""
    graph = Graph()
    x = graph.value("x", f32, (96, 256))
    operands = [x, *(graph.constant(np.zeros(shape, np.float32)) for shape in ((256, 256), (256,)))]
    if residual:
        operands.append(graph.value("residual", f32, (96, 256)))
    epilogue = RESIDUAL if residual else BIAS
    graph.add("matmul", operands, {"epilogue": epilogue}, outputs=[graph.value("y", f32, (96, 256))])
    ((call,), _) = lower_graph(graph, target)
    assert isinstance(call.spec, GemmSpec)
    return call.spec, jit.emit_ir(call.spec, target).count('call void @"llvm.prefetch')


def test_blocks_prefetch_the_lines_of_a_residual(target: Target) -> None:
    """
    Blocks of each height prefetch the part of the residual that their epilogue reads.
    """
    _, without = compiled(target, residual=False)
    spec, with_residual = compiled(target, residual=True)
    lines = -(-spec.vectors * target.lanes(f32) * f32.size // LINE)
    assert with_residual - without == sum(spec.rows) * lines
