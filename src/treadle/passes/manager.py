"""Runs lists of passes, and verifies, times and prints for all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import field

from treadle import knobs
from treadle.errors import GraphError, InternalError
from treadle.graph.graph import Graph
from treadle.graph.text import print_graph
from treadle.graph.verify import verify
from treadle.ops.table import arity
from treadle.passes.base import Pass, PassContext
from treadle.records import dataclass
from treadle.runtime.control import check_compile

Steps = Sequence[tuple[Pass, str]]
"""Passes in order, each with the reason why it stands there."""

_ROUNDS = 12


@dataclass(slots=True)
class PassRecord:
    """Total time of one pass in seconds, its runs, and the runs that changed the graph."""

    name: str
    seconds: float = 0.0
    runs: int = 0
    changes: int = 0


@dataclass(slots=True)
class Manager:
    """Runs passes on one graph. `records` has an entry for each pass, in order of first use."""

    context: PassContext
    records: dict[str, PassRecord] = field(default_factory=dict)

    def check(self, graph: Graph, moment: str, *, typed: bool = False) -> None:
        """Verify `graph`, and if `typed` that every shape is known. Raises InternalError naming the `moment`."""
        try:
            verify(graph, arity, typed=typed)
        except GraphError as error:
            raise InternalError(
                f"graph {graph.name!r} is invalid {moment}: {error}\n"
                "  this is a fault of treadle; run with TREADLE_DEBUG=2 to see the graph after every pass, and "
                "report it"
            ) from error

    def run(self, graph: Graph, steps: Steps) -> bool:
        """Run each pass that is not disabled once; True if any changed the graph."""
        debug = knobs.get("TREADLE_DEBUG")
        disabled = knobs.get("TREADLE_DISABLE") or ()
        changed_any = False
        for step, _ in steps:
            if step.name in disabled:
                continue
            check_compile()
            start = time.perf_counter()
            changed = step.run(graph, self.context)
            record = self.records.setdefault(step.name, PassRecord(step.name))
            record.seconds += time.perf_counter() - start
            record.runs += 1
            record.changes += changed
            changed_any |= changed
            if debug >= 2 and changed:
                sys.stderr.write(f"--- after {step.name}\n{print_graph(graph)}\n")
            if debug >= 1:
                self.check(graph, f"after pass {step.name}")
        return changed_any

    def run_until_stable(self, graph: Graph, steps: Steps) -> bool:
        """Repeat all passes until none changes the graph, or enough rounds went by; True if any changed it."""
        changed_any = False
        for _ in range(_ROUNDS):
            if not self.run(graph, steps):
                break
            changed_any = True
        return changed_any
