"""Numbers of scalar programs that kernels are given by the call, so that one kernel does for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_graph

import treadle
from treadle import dtypes
from treadle.codegen import target as targets
from treadle.compile import runner_of
from treadle.dtypes import DType
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.ops.elementwise import evaluate_elementwise
from treadle.passes.lower.expr import with_given
from treadle.plan.kernels.elementwise import FlatElementwiseSpec


def _scaled(dtype: DType, *numbers: float) -> Expr:
    """x * numbers[0] + numbers[1] * numbers[0] + ..., as add and mul in turn."""
    steps: list[Step] = []
    last = 0
    for place, number in enumerate(numbers):
        constant = 1 + len(steps)
        steps.append(Step("const", (), dtype, number))
        steps.append(Step(("mul", "add")[place % 2] if dtype.is_float else "add", (last, constant), dtype))
        last = constant + 1
    return Expr((dtype,), tuple(steps), (last,))


def _graph(expr: Expr, shape: tuple[int, ...]) -> Graph:
    graph = Graph()
    x = graph.input("x", expr.operands[0], shape)
    y = graph.value("y", expr.operands[0], shape)
    graph.outputs = [graph.add("elementwise", [x], {"expr": expr}, name="n", outputs=[y]).output]
    return graph


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64])
def test_programs_that_differ_in_numbers_share_a_kernel(dtype: DType) -> None:
    """
    Specs are equal where only ordinary numbers differ, and differ where the code does.
    """
    graphs = [_graph(_scaled(dtype, *numbers), (5, 7)) for numbers in ((3, 7), (-5, 11), (3, 8), (3, 0))]
    specs = [lower_graph(graph, targets.detect())[0][0].spec for graph in graphs]
    assert specs[0] == specs[1]
    assert specs[2] != specs[0], "a power of two stays: it may make code simpler"
    assert specs[3] != specs[0], "so does 0"


@pytest.mark.parametrize("numbers", [(0.1, 3.7), (-1e-41, 3.4028234e38), (1.7, 0.3, 2.9, 5.1, 7.7, -0.7, 1.1, 0.9)])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64])
@pytest.mark.parametrize("shape", [(67,), (3, 5, 19)])
def test_given_numbers_compute_what_literals_do(
    target: Any, dtype: DType, numbers: tuple[float, ...], shape: tuple[int, ...]
) -> None:
    """
    Subnormal, largest and other numbers give the bits that NumPy gives, on every instruction set.
    """
    numbers = tuple(dtype.numpy.type(number).item() for number in numbers)
    expr = _scaled(dtype, *numbers)
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype.numpy)
    graph = _graph(expr, shape)
    (call,), _ = lower_graph(graph, target)
    assert isinstance(call.spec, FlatElementwiseSpec)
    assert call.spec.given > 0

    got = run_graph(_graph(expr, shape), {"x": x}, target=target)["y"]

    with np.errstate(all="ignore"):
        (wanted,) = evaluate_elementwise({"expr": expr}, [x])
    assert np.array_equal(got, wanted)


def test_numbers_that_shape_the_code_stay_in_it() -> None:
    """
    Exponents, bounds and divisors of integers are part of the kernel, and so are the numbers of a program with many.
    """
    power = Expr((dtypes.f32,), (Step("const", (), dtypes.f32, 3.7), Step("pow", (0, 1), dtypes.f32)), (2,))
    quotient = Expr((dtypes.i32,), (Step("const", (), dtypes.i32, 7), Step("div", (0, 1), dtypes.i32)), (2,))
    result = Expr((dtypes.f32,), (Step("const", (), dtypes.f32, 3.7),), (1,))
    many = _scaled(dtypes.f32, *(0.1 + number for number in range(9)))
    for expr in (power, quotient, result, many):
        assert with_given(expr) == (expr, ())


def test_sessions_that_differ_by_a_number_compile_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A thousand graphs that differ in one scalar compile as often as one of them.
    """
    monkeypatch.setenv("TREADLE_CACHE", "off")
    sessions = [treadle.Session(_graph(_scaled(dtypes.f32, 2.1 + 0.1 * number, 0.3), (64,))) for number in range(4)]
    executables = [runner_of(session).plans.all()[0].executable for session in sessions]
    sets = [executable.layout.kept.kernels for executable in executables]  # type: ignore[attr-defined]
    assert [one.compiled for one in sets[1:]] == [0, 0, 0]
    x = np.arange(64, dtype=np.float32)
    outputs = [session.run({"x": x})["y"] for session in sessions]
    assert all(np.array_equal(y, x * np.float32(2.1 + 0.1 * n) + np.float32(0.3)) for n, y in enumerate(outputs))
