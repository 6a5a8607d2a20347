"""Every op case compiled and run: on each instruction set, on one thread and on several."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.case import Case, graph_of
from tests.ops.suite import CASES, defined
from treadle import _native
from treadle.driver import Options, compile_specialized, plans_of
from treadle.errors import RunError
from treadle.graph.graph import Graph
from treadle.ops.evaluate import evaluate
from treadle.plan.target import Target

TEAMS = [_native.Team(f"test{intra}{inter}", intra, inter) for intra, inter in ((1, 1), (2, 2), (4, 3))]

WITHOUT_KERNEL = {"call", "lrn", "pick_channels"}
"""Ops that run by their NumPy reference: always, but for pick_channels, which passes make where values are in blocks of
channels."""

FP32_RELATIVE = 1e-5
SMALLER = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12}


def wanted_outputs(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        found = evaluate(graph, inputs)
    return [found[value.name] for value in graph.outputs]


def agree(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal where exact or not finite, else within a small relative L2 distance."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if got.dtype.kind not in "fV":
        return np.array_equal(got, wanted)
    limit = SMALLER.get(got.dtype.name, FP32_RELATIVE)
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return False
    norm = np.linalg.norm(wanted[finite])
    return bool(np.linalg.norm(got[finite] - wanted[finite]) <= limit * max(norm, 1e-30))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_compiled_op_agrees_with_its_reference(case: Case, target: Target) -> None:
    """
    The kernels give what the reference gives, and the same bits on every team.
    """
    graph, inputs = graph_of(case)
    wanted = wanted_outputs(graph, inputs)
    runnable = compile_specialized(graph, Options(target))
    arrays = [np.array(array, order="C") for array in inputs.values()]
    results = [runnable.run(arrays, team) for team in TEAMS for _ in range(2)]

    results = [defined(case, arrays) for arrays in results]
    for value, got in zip(defined(case, wanted), results[0], strict=True):
        assert agree(got, value), f"wanted {value}, got {got}"
    assert all([array.tobytes() for array in other] == [array.tobytes() for array in results[0]] for other in results)


def test_hot_ops_have_kernels(target: Target) -> None:
    """
    Only the ops named here run by their reference alone; every other has a case that kernels compute.
    """
    native, seen = set(), set()
    for case in CASES:
        graph, _ = graph_of(case)
        seen.add(case.op)
        if case.op in native:
            continue
        calls = [call for plan in plans_of(compile_specialized(graph, Options(target))) for call in plan.calls]
        if calls and all(call.function is None for call in calls):
            native.add(case.op)

    assert seen - native == WITHOUT_KERNEL & seen


def test_a_failing_op_leaves_the_plan_usable() -> None:
    """
    A run that ends in an error is followed by a right one.
    """
    case = next(case for case in CASES if case.op == "gather" and not case.constant_inputs)
    graph, inputs = graph_of(case)
    (wanted,) = wanted_outputs(graph, inputs)
    from treadle.codegen.target import detect

    runnable = compile_specialized(graph, Options(detect()))
    arrays = [np.array(array, order="C") for array in inputs.values()]
    wrong = [arrays[0], np.full_like(arrays[1], 10_000)]
    for team in TEAMS:
        with pytest.raises(RunError, match="out of range"):
            runnable.run(wrong, team)
        assert np.array_equal(runnable.run(arrays, team)[0], wanted)
