"""Processes that may use few CPUs, by the real calls of the system: what is automatic then, and that all works on
one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
THREAD_VARIABLES = ("TREADLE_INTRA_OP_THREADS", "TREADLE_INTER_OP_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="needs sched_setaffinity and two CPUs to choose from")

EVERYTHING = """
import threading, time
import numpy as np
from tests.models import small
from treadle import _native

def program(bodies, blocking=()):
    steps = [(body, [], [], 1, 1e7) for body in bodies]
    tasks = [(i, 1, 1.0, i in blocking) for i in range(len(steps))]
    return _native.Program(steps, tasks, [[] for _ in steps], [], 0, 0)

model = small.branches(width=256)
inputs = small.inputs_for(model)
session = treadle.Session(model)
wanted = session.run(inputs)["y"].tobytes()
assert small.wanted(model, inputs)["y"].shape == (16, 1)
same = []
rerun = lambda _: same.append(session.run(inputs)["y"].tobytes() == wanted)
team = treadle.threads.default_team()
inner = program([rerun, rerun])
outer = program([lambda _: inner.run(team, []), lambda _: inner.run(team, []), lambda _: time.sleep(0.01)], {2})
clients = [threading.Thread(target=outer.run, args=(team, [])) for _ in range(6)]
for client in clients: client.start()
for client in clients: client.join()
assert same == [True] * 24, same
result["places"] = list(team.limits)
"""


def in_process(cpus: list[int], body: str = "", **environment: str) -> dict[str, Any]:
    """What `treadle.threads` says in a process bound to `cpus`, and what `body` puts into `result`."""
    lines = [
        f"import json, os; os.sched_setaffinity(0, {cpus})",
        "import treadle",
        "settings = treadle.threads.get()",
        "result = {'intra': settings.intra_op, 'inter': settings.inter_op, 'source': settings.intra_source}",
        body,
        "print(json.dumps(result))",
    ]
    outside = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    root = Path(__file__).resolve().parents[3]
    output = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=root, env=outside | environment, check=True, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    return json.loads(output.stdout)


@pytest.mark.parametrize("count", [1, 2])
def test_the_real_affinity_mask_decides_what_is_automatic(count: int) -> None:
    """
    A process bound to n CPUs has both limits at n, and reports the reason if the machine has more CPUs.
    """
    found = in_process(CPUS[:count])

    assert (found["intra"], found["inter"]) == (count, count)
    if count < len(CPUS):
        assert "affinity mask" in found["source"]


def test_everything_works_on_one_cpu() -> None:
    """
    Clients, nested runs and blocking tasks on a budget of one: no run hangs, and results stay the same.
    """
    assert in_process(CPUS[:1], EVERYTHING)["places"] == [1, 1]


def test_more_threads_than_cpus_work_when_asked_for() -> None:
    """
    An explicit number is used unchanged, also on one CPU.
    """
    found = in_process(CPUS[:1], EVERYTHING, TREADLE_INTRA_OP_THREADS="4", TREADLE_INTER_OP_THREADS="3")

    assert found["places"] == [4, 3]
