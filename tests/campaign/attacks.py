"""The attacks of the campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import treadle
from tests.campaign import compared, files, mutants, processes
from tests.campaign.trial import TIMEOUT, Trial, same


def _of_mutant(kind: str, number: int) -> Trial:
    """Loads a mutated model and runs it twice."""
    tried = mutants.mutant(kind, number)

    def run() -> str:
        session = treadle.Session(tried.content)
        first, second = (session.run(tried.feeds, timeout=TIMEOUT) for _ in range(2))
        return "ok" if tried.is_random or same(first, second) else "FAULT two runs differ"

    return Trial(tried.label, run)


ATTACKS: Mapping[str, Callable[[int], Trial]] = {
    **{kind: partial(_of_mutant, kind) for kind in mutants.KINDS},
    "frozen": files.frozen,
    "settings": files.settings,
    "arrays": files.arrays,
    "reference": compared.reference,
    "shapes": compared.shapes,
    "cuts": processes.cuts,
    "kills": processes.kills,
    "forks": processes.forks,
    "signals": processes.signals,
    "memory": processes.memory,
    "threads": processes.threads,
    "quotas": processes.quotas,
    "graphs": processes.graphs,
}
"""Kind of attack -> what makes trial number so and so of it; equal numbers give equal trials."""

IN_CHILDREN = frozenset(("cuts", "kills", "forks", "signals", "memory", "threads", "quotas", "graphs"))
"""Attacks whose trials are processes of their own; the limit on memory is theirs."""
