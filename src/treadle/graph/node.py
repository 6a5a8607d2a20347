"""Nodes: the operations of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from treadle.errors import TreadleError
from treadle.graph.value import Value


class Node:
    """One operation: `op` (a name in `ops.table`), its operands, results and attributes.

    An absent optional operand is None. `name` is the node's name in the user's model; fused nodes join names with `+`.
    `max_workers` caps the workers that share its work (0: no cap); what replaces or fuses nodes takes over the smallest
    of their caps, and their `origins`. Change operands through Graph or Patch only: they keep `Value.users` right.
    """

    __slots__ = ("_origins", "attrs", "inputs", "max_workers", "name", "op", "outputs")

    def __init__(
        self, op: str, inputs: Sequence[Value | None], outputs: Sequence[Value], attrs: dict[str, Any], name: str
    ) -> None:
        self.op = op
        self.inputs: list[Value | None] = list(inputs)
        self.outputs: list[Value] = list(outputs)
        self.attrs = attrs
        self.name = name
        self.max_workers = 0
        self._origins: dict[str, int] | None = None

    @property
    def origins(self) -> dict[str, int]:
        """The nodes of the model whose work this node does, by name, with the cap of each; only itself unless it
        replaces others."""
        return {self.name: self.max_workers} if self._origins is None else self._origins

    def take_over(self, nodes: Iterable[Node]) -> None:
        """Replaces `nodes` in reports and limits: takes their origins and the smallest of their caps."""
        origins: dict[str, int] = {}
        for node in nodes:
            for name, cap in node.origins.items():
                origins[name] = smallest_cap((cap, origins.get(name, 0)))
        self._origins = origins
        self.max_workers = smallest_cap(origins.values())

    @property
    def place(self) -> str:
        """The description of the node in messages."""
        return f"node {self.name!r} ({self.op})"

    def placed(self, error: TreadleError) -> TreadleError:
        """Returns `error` with the description of this node in front, unless its message begins with a node's: that of
        a part of this one."""
        what = str(error)
        return type(error)(what, "" if what.startswith("node '") else self.place, self.name)

    @property
    def output(self) -> Value:
        """The result of a node that has exactly one."""
        (value,) = self.outputs
        return value

    def operand(self, index: int) -> Value:
        """Input `index`, which must be present."""
        value = self.inputs[index]
        assert value is not None, f"{self.op} {self.name!r} lacks input {index}"
        return value

    def __repr__(self) -> str:
        results = ", ".join(f"%{value.name}" for value in self.outputs)
        operands = ", ".join("_" if value is None else f"%{value.name}" for value in self.inputs)
        return f"{results} = {self.op}({operands}) {self.attrs or ''}  # {self.name}"


def smallest_cap(caps: Iterable[int]) -> int:
    """The smallest of caps on workers, where 0 is none; 0 if there is no other."""
    return min(filter(None, caps), default=0)
