"""LLVM keeps the sums of direct convolution in registers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.assembly import loops_of, spills
from tests.kernel_runner import lower_graph

from treadle.codegen import target as targets
from treadle.dtypes import bf16, f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.value import Value
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import Target

ROUND = Expr((f32,), (Step("cast", (0,), bf16),), (1,))
RELU = Expr((f32,), (Step("relu", (0,), f32), Step("cast", (1,), bf16)), (2,))
CLIP = Expr((f32, f32, f32), (Step("clip", (0, 1, 2), f32), Step("cast", (3,), bf16)), (4,))
RESIDUAL = Expr(
    (f32, bf16),
    (Step("cast", (1,), f32), Step("add", (0, 2), f32), Step("relu", (3,), f32), Step("cast", (4,), bf16)),
    (5,),
)


def spec_of(outputs: int, size: int, epilogue: Expr, target: Target) -> KernelSpec:
    """The kernel of a 1x1 convolution of bf16 with 64 channels."""
    graph = Graph()
    layout = Blocked(target.lanes(f32))

    def blocked(name: str, channels: int) -> Value:
        value = graph.value(name, bf16, (1, channels, size, size))
        value.layout = layout
        return value

    x, y = blocked("x", 64), blocked("y", outputs)
    weights = graph.constant(np.zeros((outputs, 64, 1, 1), np.float32), "w")
    bias = graph.constant(np.zeros(outputs, np.float32), "bias")
    further = [
        blocked("residual", outputs) if dtype == bf16 else graph.value("bound", f32, ())
        for dtype in epilogue.operands[1:]
    ]
    attrs = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1, "epilogue": epilogue}
    graph.add("conv", [x, weights, bias, *further], attrs, outputs=[y])
    ((call,), _) = lower_graph(graph, target)
    assert call.spec is not None, "convolutions of bf16 have kernels"
    return call.spec


@pytest.fixture
def bf16_target() -> Target:
    """This CPU, if it has bf16 dot products."""
    if "avx512" not in targets.available_isas() or not targets.for_isa("avx512").has_bf16_dot:
        pytest.skip("this CPU has no bf16 dot products")
    return targets.for_isa("avx512")


@pytest.mark.parametrize("epilogue", [ROUND, RELU, CLIP, RESIDUAL], ids=["round", "relu", "clip", "residual"])
@pytest.mark.parametrize(("outputs", "size"), [(16, 56), (32, 14), (48, 13), (64, 7), (1000, 13)])
def test_bf16_dot_products_keep_their_sums_in_registers(
    outputs: int, size: int, epilogue: Expr, bf16_target: Target
) -> None:
    """
    No innermost loop uses the stack, whatever register block the number of outputs leads to.
    """
    loops = loops_of(spec_of(outputs, size, epilogue, bf16_target), bf16_target)
    assert loops, "there is a loop over products"
    for body in loops:
        assert not spills(body), "\n".join(body)


def test_a_factor_used_once_is_a_memory_operand(bf16_target: Target) -> None:
    """
    If a block has one vector of outputs, dot products broadcast from memory themselves.
    """
    for body in loops_of(spec_of(16, 56, RELU, bf16_target), bf16_target):
        assert any(line.startswith("vdpbf16ps") and "{1to16}" in line for line in body)
        assert not [line for line in body if "broadcast" in line], "\n".join(body)
