"""Every op case compiled and run: on each instruction set, at several thread settings, by several clients at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.models.digests import Eager
from tests.ops.case import graph_of
from tests.ops.suite import CASE_OPS, CASES, cases_of, defined, named
from treadle import _native
from treadle.codegen.target import detect
from treadle.driver import Options, compile_specialized, plans_of
from treadle.errors import RunError
from treadle.graph.graph import Graph
from treadle.ops.evaluate import evaluate
from treadle.plan.target import Target
from treadle.runtime import executable
from treadle.runtime.control import Request
from treadle.runtime.plans import Runnable

SETTINGS = [(1, 1), (1, 8), (2, 1), (3, 2), (8, 8)]
CLIENTS = 4

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


@pytest.fixture(scope="module")
def team() -> Iterator[_native.Team]:
    """A team with a slot for each of the limits that runs ask for."""
    team = _native.Team("compiled", 8, 8)
    yield team
    team.close()


@pytest.fixture(scope="module")
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CLIENTS) as clients:
        yield clients


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers share every step that has several chunks."""
    monkeypatch.setattr(executable, "_native", Eager())


def results_everywhere(
    runnable: Runnable, arrays: Sequence[np.ndarray], team: _native.Team, clients: ThreadPoolExecutor
) -> list[list[np.ndarray]]:
    """The results at each of SETTINGS, then those of two runs of each client, which begin at the same time."""
    barrier = threading.Barrier(CLIENTS)

    def client(number: int) -> list[list[np.ndarray]]:
        barrier.wait()
        settings = [SETTINGS[(number + turn) % len(SETTINGS)] for turn in range(2)]
        return [runnable.run(arrays, team, Request(*each)) for each in settings]

    alone = [runnable.run(arrays, team, Request(*each)) for each in SETTINGS]
    return alone + [results for found in clients.map(client, range(CLIENTS)) for results in found]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("eager")
@pytest.mark.timeout(600)  # an op has up to 77 cases
@pytest.mark.parametrize("op", CASE_OPS)
def test_compiled_op_agrees_with_its_reference(
    op: str, target: Target, team: _native.Team, clients: ThreadPoolExecutor
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
            results = [defined(case, found) for found in results_everywhere(runnable, arrays, team, clients)]

            for value, got in zip(defined(case, wanted), results[0], strict=True):
                assert agree(got, value), f"wanted {value}, got {got}"
            assert len({bits(found) for found in results}) == 1
    assert has_kernel == (op not in WITHOUT_KERNEL)


def bits(arrays: list[np.ndarray]) -> tuple[object, ...]:
    """What is equal for the same results alone."""
    return tuple(tuple(array.flat) if array.dtype == object else array.tobytes() for array in arrays)


def test_a_failing_op_leaves_the_plan_usable(team: _native.Team) -> None:
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
            runnable.run(wrong, team, request)
        assert np.array_equal(runnable.run(arrays, team, request)[0], wanted)
