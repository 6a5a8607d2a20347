"""A seeded share of the campaign, and what it does with workers that die."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.campaign import __main__ as campaign
from tests.campaign.attacks import ATTACKS
from tests.campaign.mutants import KINDS, mutant

TRIALS = {
    **dict.fromkeys(("absurd", "damaged", "structure"), 120),
    **dict.fromkeys(("frozen", "settings", "arrays"), 60),
    **dict.fromkeys(("reference", "memory", "cuts"), 20),
    **dict.fromkeys(("shapes", "kills", "forks", "signals", "quotas"), 3),
    "threads": 1,
}
"""How many trials of each attack the suite makes; the native tests run random graphs."""
ERRORS = {"cuts": {"ModelError", "RunError"}}
"""Attacks behind which no run has a result, as the files of the session are cut: the classes of the errors."""


def test_each_attack_has_a_share() -> None:
    assert TRIALS.keys() == ATTACKS.keys() - {"graphs"}


@pytest.mark.timeout(500)
@pytest.mark.parametrize("kind", TRIALS)
def test_trials_end_in_results_or_errors_of_treadles(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The first ones of each kind.
    """
    if kind == "reference":
        pytest.importorskip("onnxruntime")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    count = TRIALS[kind]
    code = campaign.main(["--trials", str(count), "--kinds", kind, "--folder", str(tmp_path), "--limit", "200"])

    kept = json.loads((tmp_path / f"{kind}.json").read_text(encoding="utf-8"))
    assert kept["faults"] == []
    assert code == 0
    assert kept["next"] == sum(kept["outcomes"].values()) == count
    assert list(temporary.iterdir()) == []
    assert kept["outcomes"].keys() <= ERRORS[kind] if kind in ERRORS else kept["outcomes"]["ok"] >= 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_gives_one_mutant(kind: str) -> None:
    """
    So a fault can be looked at again.
    """
    first, again, other = mutant(kind, 7), mutant(kind, 7), mutant(kind, 8)

    assert (first.label, first.content) == (again.label, again.content)
    assert all(np.array_equal(array, again.feeds[name]) for name, array in first.feeds.items())
    assert first.content != other.content


def test_a_dead_worker_is_a_fault_of_its_mutant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    The campaign goes on behind it, also in the next call.
    """
    calls = []

    def worker(kind: str, first: int, count: int, log: Path, limit: float) -> str:
        calls.append((first, count))
        tried = [{"number": first, "label": "a"}, {"number": first, "outcome": "ok", "seconds": 0.1}]
        dies = [{"number": first + 1, "label": "b"}]
        log.write_text("".join(json.dumps(line) + "\n" for line in tried + dies), encoding="utf-8")
        return "it ended with -11"

    monkeypatch.setattr(campaign, "run_worker", worker)
    arguments = ["--trials", "4", "--kinds", "absurd", "--folder", str(tmp_path)]

    assert campaign.main(arguments) == 1
    assert calls == [(0, 4), (2, 2)]
    assert campaign.main(arguments) == 1
    assert calls[2:] == [(4, 4), (6, 2)]
    kept = json.loads((tmp_path / "absurd.json").read_text(encoding="utf-8"))
    assert [(fault["number"], fault["label"]) for fault in kept["faults"]] == [(1, "b"), (3, "b"), (5, "b"), (7, "b")]
    assert kept["outcomes"] == {"ok": 4, "FAULT": 4}
