"""Every op case compiled and run: on each instruction set, at several thread settings, by several clients at once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.everywhere import Clients
from tests.models.digests import digest
from tests.ops.case import graph_of
from tests.ops.suite import CASE_OPS, CASES, cases_of, defined, named
from treadle import _native
from treadle.codegen.target import detect
from treadle.driver import Options, compile_specialized, plans_of
from treadle.errors import RunError
from treadle.graph.graph import Graph
from treadle.ops.evaluate import evaluate
from treadle.plan.target import Target
from treadle.runtime.control import Request

SETTINGS = [(1, 1), (1, 8), (2, 1), (3, 2), (8, 8)]

WITHOUT_KERNEL = {"call", "pick_channels"}
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
@pytest.mark.usefixtures("eager")
@pytest.mark.timeout(600)  # an op has up to 77 cases
@pytest.mark.parametrize("op", CASE_OPS)
def test_compiled_op_agrees_with_its_reference(
    op: str, target: Target, wide_team: _native.Team, clients: Clients
) -> None:
    """
    Each case gives what the reference gives, and the same bits at every setting and number of clients.

    Only ops that are named above run by their reference alone; every other has a case that kernels compute.
    """
    has_kernel = False
    for case in cases_of(op):
        with named(case):
            graph, inputs = graph_of(case)
            wanted = wanted_outputs(graph, inputs)
            runnable = compile_specialized(graph, Options(target))
            calls = [call for plan in plans_of(runnable) for call in plan.calls]
            has_kernel |= bool(calls) and all(call.function is None for call in calls)
            arrays = [np.array(array, order="C") for array in inputs.values()]
            found = clients.at_every_setting(
                lambda *limits, run=runnable.run, arrays=arrays: run(arrays, wide_team, Request(*limits)), SETTINGS
            )
            results = [defined(case, outputs) for outputs in found]

            for value, got in zip(defined(case, wanted), results[0], strict=True):
                assert agree(got, value), f"wanted {value}, got {got}"
            assert len(set(map(digest, results))) == 1
    assert has_kernel == (op not in WITHOUT_KERNEL)


def test_a_failing_op_leaves_the_plan_usable(wide_team: _native.Team) -> None:
    """
    A run that ends in an error is followed by a right one.
    """
    case = next(case for case in CASES if case.op == "gather" and not case.constant_inputs)
    graph, inputs = graph_of(case)
    (wanted,) = wanted_outputs(graph, inputs)
    runnable = compile_specialized(graph, Options(detect()))
    arrays = [np.array(array, order="C") for array in inputs.values()]
    wrong = [arrays[0], np.full_like(arrays[1], 10_000)]
    for request in (Request(1, 1), Request(2, 2)):
        with pytest.raises(RunError, match="out of range"):
            runnable.run(wrong, wide_team, request)
        assert np.array_equal(runnable.run(arrays, wide_team, request)[0], wanted)
