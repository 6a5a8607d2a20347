"""Tests docs/guide/determinism.md: on one instruction set, thread settings change no bit of any result.

Models, and processes; `tests/ops/test_compiled.py` tests single ops.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from functools import cache, partial

import pytest

from tests.everywhere import Clients
from tests.models import digests, small
from tests.ops.suite import CASE_OPS
from treadle import _native
from treadle.tracing.record import record

SETTINGS = list(itertools.product((1, 2, 3, 8), (1, 2, 8)))
MOST_ROUNDS = 50
"""Rounds to try: if other processes use the CPUs, a second worker may come too late to every op of a round."""

MOST_DIVIDED = 40
"""More ops than so many have several small chunks, on every instruction set."""

LARGER = {
    "branches": lambda: small.branches(width=192, count=5),
    "convolutional": lambda: small.convolutional(channels=40, size=57),
    "attention": lambda: small.attention(tokens=96, width=64, heads=4),
}


@pytest.mark.parametrize("larger", [False, True])
@pytest.mark.parametrize("name", small.MODELS)
def test_a_model_has_the_same_bits_at_every_setting(
    name: str, larger: bool, wide_team: _native.Team, clients: Clients, eager: None, monkeypatch: pytest.MonkeyPatch
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
            found.update(clients.at_every_setting(partial(run, wide_team), SETTINGS * 2))
        workers |= {event.worker for event in recording.events}
        if len(workers) > 1 or not larger:
            break

    assert len(found) == 1
    assert len(workers) > 1 or not larger, "nothing was shared: the test shows nothing"


@cache
def digests_of_process(**environment: str) -> dict[str, tuple[str, int]]:
    """Returns what a new process prints with these variables set; one process serves several tests."""
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
    Every op that has a kernel of its own, unlike elementwise ops, has several chunks.
    """
    wanted = digests_of_process(TREADLE_INTRA_OP_THREADS="1", TREADLE_INTER_OP_THREADS="1")

    assert len(wanted) > len(CASE_OPS)
    assert sum(chunks > 1 for _, chunks in wanted.values()) > MOST_DIVIDED
    assert digests_of_process(**environment) == wanted
