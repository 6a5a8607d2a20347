"""Digests of everything the tests compute: what determinism is judged by, here and in processes of their own."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import weft
from tests.models import small
from tests.ops.case import graph_of
from tests.ops.suite import CASES
from weft import _native
from weft.codegen.target import detect
from weft.driver import Options, compile_specialized
from weft.runtime import threads
from weft.runtime.control import Request

Run = Callable[[_native.Team, int, int], str]
"""(team, intra_op, inter_op) -> digest of the outputs of one run."""


def digest(arrays: list[np.ndarray]) -> str:
    """The digest of dtypes, shapes and bytes."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update("\0".join(map(str, array.flat)).encode() if array.dtype == object else array.tobytes())
    return state.hexdigest()


def op_case(index: int) -> Run:
    """The op case of that number, compiled."""
    graph, inputs = graph_of(CASES[index])
    runnable = compile_specialized(graph, Options(detect()))
    arrays = [np.array(array, order="C") for array in inputs.values()]
    return lambda team, intra, inter: digest(runnable.run(arrays, team, Request(intra, inter)))


def model(name: str) -> Run:
    """The small model of that name, compiled."""
    proto = small.MODELS[name]()
    session = weft.Session(proto)
    arrays = list(small.inputs_for(proto).values())
    (plan,) = session._plans.all() or [session._plans.get(tuple(a.shape for a in arrays), ("y",))]
    return lambda team, intra, inter: digest(plan.run(arrays, team, Request(intra, inter)))


def everything() -> Iterator[tuple[str, Run]]:
    """Every op case and every small model by name."""
    for index, case in enumerate(CASES):
        yield f"op {index} {case.id}", op_case(index)
    for name in small.MODELS:
        yield f"model {name}", model(name)


def main(repeats: int) -> None:
    """Write the digests of everything, run on the process's default team with whatever the environment says."""
    warnings.simplefilter("ignore")
    found = {}
    for name, run in everything():
        seen = {run(threads.default_team(), 0, 0) for _ in range(repeats)}
        found[name] = seen.pop() if len(seen) == 1 else "differs from run to run"
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
