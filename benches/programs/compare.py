"""Programs of TensorFlow's and PyTorch's guides on treadle and on these: the same text, each engine in its own processes.

    python -m benches.programs.compare [loops] [graph] [scripts] [--rounds N] [--json FILE]

loops: two CPU-bound Python functions, added, with inter_op 1 and 2. graph: independent products and sums at several
settings. scripts: torch.jit.script of chains of small ops and of the module that forks a product. The rounds of all
processes of a table alternate, so that what else the machine does hits all of them alike; figures are medians over the
rounds, those of minima behind them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.programs.scripts import OPS, SCRIPTS, TIMES

WORKER = Path(__file__).with_name("worker.py")
LOOPS = (
    ("treadle-process", "loops"),
    ("treadle", "loops"),
    ("tensorflow", "loops"),
    ("tensorflow", "loops-session"),
)
SETTINGS = ((1, 1), (2, 1), (1, 2), (2, 2))


@dataclass(frozen=True, slots=True)
class Case:
    """One process: an engine, its work, its numbers of threads."""

    engine: str
    what: str
    intra: int
    inter: int


def measured(cases: list[Case], rounds: int) -> dict[Case, list[float]]:
    """Seconds of each round of each case that can be had; rounds alternate."""
    found: dict[Case, list[float]] = {}
    totals: dict[str, float] = {}
    with ExitStack() as stack:
        processes: dict[Case, Any] = {}
        for case in cases:
            command = [sys.executable, str(WORKER), case.engine, case.what, str(case.intra), str(case.inter)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            stack.enter_context(process)
            assert process.stdout is not None
            answer = json.loads(process.stdout.readline() or '{"missing": "it ended"}')
            if "missing" in answer:
                print(f"{case.engine} is missing: {answer['missing']}", file=sys.stderr)
                continue
            agrees(totals.setdefault(case.what.partition("-")[0], answer["total"]), answer["total"])
            processes[case] = process
        for _ in range(rounds):
            for case, process in processes.items():
                process.stdin.write("again\n")
                process.stdin.flush()
                found.setdefault(case, []).append(float(process.stdout.readline()))
    return found


def agrees(wanted: float, total: float) -> None:
    """Every engine computes the same."""
    if abs(total - wanted) > 1e-3 * abs(wanted) + 1:
        raise SystemExit(f"results differ: {total} and {wanted}")


def loops(rounds: int) -> dict[str, Any]:
    """Time the Python functions and print a table."""
    cases = [Case(engine, what, 2, inter) for engine, what in LOOPS for inter in (1, 2)]
    found = measured(cases, rounds)
    print(f"{'two Python functions':32} {'inter 1':>10} {'inter 2':>10} {'ratio':>12}")
    figures = {}
    for engine, what in LOOPS:
        one, two = (found.get(Case(engine, what, 2, inter)) for inter in (1, 2))
        if one is None or two is None:
            continue
        ratio, best = statistics.median(one) / statistics.median(two), min(one) / min(two)
        name = f"{engine}, {'tf.function' if what == 'loops' else 'session'}"
        print(f"{name:32} {statistics.median(one):8.3f} s {statistics.median(two):8.3f} s {ratio:5.2f} ({best:.2f})")
        figures[name] = {"inter 1": one, "inter 2": two, "ratio": ratio, "ratio of minima": best}
    return figures


def graph(rounds: int) -> dict[str, Any]:
    """Time the graph and print a table."""
    figures: dict[str, Any] = {}
    print(f"{'products and sums':32} {'treadle':>10} {'tensorflow':>12} {'ratio':>12}")
    for intra, inter in SETTINGS:
        cases = [Case(engine, "graph", intra, inter) for engine in ("treadle", "tensorflow")]
        found = measured(cases, rounds * 10)
        ours, theirs = (found.get(case) for case in cases)
        if ours is None or theirs is None:
            continue
        ratio, best = statistics.median(theirs) / statistics.median(ours), min(theirs) / min(ours)
        name = f"intra {intra} inter {inter}"
        a, b = statistics.median(ours) * 1e3, statistics.median(theirs) * 1e3
        print(f"{name:32} {a:7.2f} ms {b:9.2f} ms {ratio:5.2f} ({best:.2f})")
        figures[name] = {"treadle": ours, "tensorflow": theirs, "ratio": ratio, "ratio of minima": best}
    return figures


def scripts(rounds: int) -> dict[str, Any]:
    """Time scripts and calls outside them, and print a table: us a call, or an op of a chain."""
    figures: dict[str, Any] = {}
    print(f"{'us (an op of a chain)':32} {'treadle':>10} {'PyTorch':>12} {'ratio':>12}")
    for what in SCRIPTS:
        parts = TIMES[what] * (1 if what.startswith("fork") else OPS)
        for intra, inter in ((1, 1), (1, 2), (2, 2)) if what.startswith("fork") else ((1, 1),):
            cases = [Case(engine, f"script-{what}", intra, inter) for engine in ("treadle-torch", "torch")]
            found = measured(cases, rounds * 5)
            ours, theirs = (found.get(case) for case in cases)
            if ours is None or theirs is None:
                continue
            ratio, best = statistics.median(theirs) / statistics.median(ours), min(theirs) / min(ours)
            name = f"{what}, intra {intra} inter {inter}"
            a, b = statistics.median(ours) / parts * 1e6, statistics.median(theirs) / parts * 1e6
            print(f"{name:32} {a:7.2f} us {b:9.2f} us {ratio:5.2f} ({best:.2f})")
            figures[name] = {"treadle": ours, "torch": theirs, "parts": parts, "ratio": ratio, "ratio of minima": best}
    return figures


TABLES: dict[str, Callable[[int], dict[str, Any]]] = {"loops": loops, "graph": graph, "scripts": scripts}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = f"{', '.join(TABLES)}; all where none is named"
    parser.add_argument("what", nargs="*", choices=[*TABLES, []], default=[], metavar="TABLE", help=names)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    made = {what: TABLES[what](asked.rounds) for what in asked.what or TABLES}
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
