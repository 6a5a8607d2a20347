"""Why the sizes of a model with open dimensions are compiled each for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.immutable import immutable
from treadle.tracing.registry import StepLabel


@immutable
class PerSize:
    """Why a model with open dimensions is compiled for each combination of sizes."""

    reason: str
    nodes: tuple[StepLabel, ...] = ()
    """The nodes of which `reason` is true."""

    @classmethod
    def of(cls, record: Sequence[Any]) -> PerSize:
        """Return what `record` is the record of."""
        reason, nodes = record
        return cls(reason, tuple(StepLabel(node, op) for node, op in nodes))

    @property
    def record(self) -> list[Any]:
        """The same as JSON has it."""
        return [self.reason, [(label.node, label.op) for label in self.nodes]]

    def __str__(self) -> str:
        if not self.nodes:
            return self.reason
        first, more = self.nodes[0], len(self.nodes) - 1
        others = f" and {more} other node{'s' if more > 1 else ''}" if more else ""
        return f"{self.reason}: {first.node} ({first.op}){others}"
