"""Digests of the outputs of every op and small model, compared between settings and between processes.

Chunks are worth a thousandth of what they are elsewhere: else few of the small ops had several.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import treadle
from tests.everywhere import Eager
from tests.models import small
from tests.ops.case import graph_of
from tests.ops.suite import CASE_OPS, cases_of, defined
from treadle import _native
from treadle.codegen.target import detect
from treadle.compile import runner_of
from treadle.driver import Options, compile_specialized, plans_of
from treadle.plan import machine
from treadle.runtime import executable, threads
from treadle.runtime.control import Request

Run = Callable[[_native.Team, int, int], str]
"""(team, intra_op, inter_op) -> digest of the outputs of one run."""


def digest(arrays: list[np.ndarray]) -> str:
    """Returns a hash of dtypes, shapes and bytes."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update("\0".join(map(str, array.flat)).encode() if array.dtype == object else array.tobytes())
    return state.hexdigest()


def largest_case(op: str) -> tuple[Run, int]:
    """Compiles the case of `op` with the largest inputs; returns it, and the most chunks of its calls."""
    case = max(cases_of(op), key=lambda case: sum(array.nbytes for array in case.inputs if array is not None))
    graph, inputs = graph_of(case)
    runnable = compile_specialized(graph, Options(detect()))
    arrays = [np.array(array, order="C") for array in inputs.values()]
    chunks = max((call.chunks for plan in plans_of(runnable) for call in plan.calls), default=0)
    return lambda team, intra, inter: digest(defined(case, runnable.run(arrays, team, Request(intra, inter)))), chunks


def model(name: str) -> Run:
    """Compiles the small model of that name."""
    proto = small.MODELS[name]()
    session = treadle.Session(proto)
    arrays = list(small.inputs_for(proto).values())
    (plan,) = runner_of(session).plans.all() or [runner_of(session).plans.get(tuple(a.shape for a in arrays), ("y",))]
    return lambda team, intra, inter: digest(plan.run(arrays, team, Request(intra, inter)))


def everything() -> Iterator[tuple[str, Run, int]]:
    """Compiles a case of every op and every small model; returns names, runs and the most chunks of a call."""
    for op in CASE_OPS:
        yield (f"op {op}", *largest_case(op))
    for name in small.MODELS:
        yield f"model {name}", model(name), 1


LIMITS = ((0, 0), (1, 1), (2, 2), (3, 1), (5, 3))
CLIENTS = 3


def main() -> None:
    """Prints the digests of everything on the process's default team, each with the most chunks of a call.

    They are computed at the limits of the environment and at others, by one client and by several at once.
    """
    warnings.simplefilter("ignore")
    machine._CHUNK_MULTIPLY_ADDS //= 1000
    executable._native = Eager()  # type: ignore[assignment]
    found = {}
    team = threads.default_team()
    with ThreadPoolExecutor(CLIENTS) as clients:
        for name, run, chunks in everything():
            seen = {run(team, *limits) for limits in LIMITS}
            seen.update(clients.map(lambda limits, run=run: run(team, *limits), LIMITS[:CLIENTS]))
            found[name] = seen.pop() if len(seen) == 1 else "differs from run to run", chunks
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
