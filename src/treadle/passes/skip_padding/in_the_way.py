"""Why a model of padded texts computes their padding."""

from __future__ import annotations

from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class InTheWay:
    """Why the rows of padding must be computed.

    Attributes:
        reason: What is true of `node`, or of the model if there is none.
        node: The name of a node of the model.
        op: Its op.
    """

    reason: str
    node: str | None = None
    op: str | None = None

    def __str__(self) -> str:
        return self.reason if self.node is None else f"node {self.node!r} ({self.op}): {self.reason}"
