"""Tests docs/guide/determinism.md: on one instruction set, thread settings change no bit of any result.

Models, and processes; `tests/ops/test_compiled.py` tests single ops.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from tests.models import digests, small
from tests.ops.suite import CASE_OPS
from treadle import _native
from treadle.runtime import executable
from treadle.tracing.record import record

SETTINGS = list(itertools.product((1, 2, 3, 8), (1, 2, 8)))
CLIENTS = 4
MOST_ROUNDS = 50
"""Rounds to try: if other processes use the CPUs, a second worker may come too late to every op of a round."""

LARGER = {
    "branches": lambda: small.branches(width=192, count=5),
    "convolutional": lambda: small.convolutional(channels=40, size=57),
    "attention": lambda: small.attention(tokens=96, width=64, heads=4),
}


@pytest.fixture(scope="module")
def team() -> Iterator[_native.Team]:
    """A team with a slot for each of the limits that runs ask for."""
    team = _native.Team("determinism", 8, 8)
    yield team
    team.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers share every step that has several chunks."""
    monkeypatch.setattr(executable, "_native", digests.Eager())


def digests_everywhere(run: digests.Run, team: _native.Team, settings: list[tuple[int, int]]) -> set[str]:
    """Returns the set of digests over all settings, with one client and with several at once."""
    found = {run(team, intra, inter) for intra, inter in settings}
    barrier = threading.Barrier(CLIENTS)

    def client(number: int) -> set[str]:
        barrier.wait()
        return {run(team, *settings[(number + turn) % len(settings)]) for turn in range(2)}

    with ThreadPoolExecutor(CLIENTS) as pool:
        return found.union(*pool.map(client, range(CLIENTS)))


@pytest.mark.parametrize("larger", [False, True])
@pytest.mark.parametrize("name", small.MODELS)
def test_a_model_has_the_same_bits_at_every_setting(
    name: str, larger: bool, team: _native.Team, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A graph has one digest at every intra-op limit, inter-op limit and number of clients, whether its ops have few
    chunks or many.
    """
    if larger:
        monkeypatch.setitem(small.MODELS, name, LARGER[name])
    run = digests.model(name)
    found, workers = set[str](), set[int]()

    for _ in range(MOST_ROUNDS):
        with record() as recording:
            found |= digests_everywhere(run, team, SETTINGS * 2)
        workers |= {event.worker for event in recording.events}
        if len(workers) > 1 or not larger:
            break

    assert len(found) == 1
    assert len(workers) > 1 or not larger, "nothing was shared: the test shows nothing"


@cache
def digests_of_process(**environment: str) -> dict[str, str]:
    """Returns the digests that a new process prints with these variables set; one process serves several tests."""
    command = [sys.executable, "-m", "tests.models.digests"]
    output = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True, timeout=110
    )
    return json.loads(output.stdout)


@pytest.mark.parametrize(
    "environment",
    [
        {"TREADLE_INTRA_OP_THREADS": "3", "TREADLE_INTER_OP_THREADS": "2", "TREADLE_SPIN_US": "0"},
        {"TREADLE_INTRA_OP_THREADS": "3", "TREADLE_PARALLEL_BACKEND": "openmp"},
        {"TREADLE_INTRA_OP_THREADS": "3", "TREADLE_PARALLEL_BACKEND": "tbb"},
    ],
    ids=["limits", "openmp", "tbb"],
)
def test_processes_agree_whatever_their_environment(environment: dict[str, str]) -> None:
    """
    A process with other limits, or with another backend to distribute the chunks of an op, computes the same bits.
    """
    wanted = digests_of_process(TREADLE_INTRA_OP_THREADS="1", TREADLE_INTER_OP_THREADS="1")

    assert len(wanted) > len(CASE_OPS)
    assert digests_of_process(**environment) == wanted
