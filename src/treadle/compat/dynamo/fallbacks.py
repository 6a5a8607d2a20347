"""The graphs that run eagerly in PyTorch, and why."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from treadle import forking
from treadle.compile import Session, count_compiles
from treadle.compile_settings import CompileCounter


class FallbackWarning(UserWarning):
    """A graph that torch.compile gave to treadle runs eagerly; the message lists the reasons."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A graph that runs eagerly.

    Attributes:
        graph: Where the graph begins in the program.
        reasons: A sentence for each op or condition that treadle does not support.
    """

    graph: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the graphs captured so far.

    Attributes:
        compiled: The number of graphs that run on treadle.
        fallbacks: The graphs that run eagerly.
        plans: The number of plans compiled for those on treadle. Calls that leave it as it was compiled nothing.
    """

    compiled: int
    fallbacks: tuple[Fallback, ...]
    plans: int = 0

    def __str__(self) -> str:
        lines = [f"{self.compiled} graphs run on treadle, {len(self.fallbacks)} eagerly"]
        for fallback in self.fallbacks:
            lines += [f"{fallback.graph}:", *(f"  - {reason}" for reason in fallback.reasons)]
        return "\n".join(lines)


class _Ledger:
    """Collects the report."""

    def __init__(self) -> None:
        self._lock = forking.lock()
        self.clear()

    def clear(self) -> None:
        self._compiled = 0
        self._plans = CompileCounter()
        self._fallbacks: list[Fallback] = []
        self._warned: set[tuple[str, ...]] = set()

    def add_compiled(self) -> None:
        with self._lock:
            self._compiled += 1

    def count_plans(self, session: Session) -> None:
        """Counts the plans of `session` too."""
        count_compiles(session, self._plans)

    def add_fallback(self, graph: str, reasons: Sequence[str]) -> None:
        fallback = Fallback(graph, tuple(reasons))
        with self._lock:
            self._fallbacks.append(fallback)
            new = fallback.reasons not in self._warned
            self._warned.add(fallback.reasons)
        if new:
            listed = "\n".join(f"  - {reason}" for reason in reasons)
            warnings.warn(f"{graph} runs eagerly, without treadle:\n{listed}", FallbackWarning, stacklevel=3)

    def report(self) -> Report:
        with self._lock:
            return Report(self._compiled, tuple(self._fallbacks), self._plans.count)


LEDGER = _Ledger()


def report() -> Report:
    """Returns what became of the graphs that torch.compile gave to treadle in this process.

    Returns:
        A record of the compiled graphs and the eager ones; printing it lists the reasons.
    """
    return LEDGER.report()


def reset() -> None:
    """Clears the report, and issues each warning again."""
    LEDGER.clear()
