"""Programs of TensorFlow's and PyTorch's guides, unchanged, on treadle and on these libraries.

    python -m benches.programs.compare [loops] [graph] [scripts] [--rounds N] [--json FILE]

loops: two CPU-bound Python functions, added, with inter_op 1 and 2. graph: independent products and sums at several
settings. scripts: torch.jit.script of chains of small ops and of the module that forks a product. Rounds are
interleaved, and the processes that are not being timed are stopped; figures are medians over the rounds, ratios of
minima in brackets.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from benches.harness.process import Engine, running
from benches.harness.report import parser, write_json
from benches.harness.timing import turn_orders
from benches.programs.scripts import OPS, SCRIPTS, TIMES

LOOPS = (
    ("treadle-process", "loops"),
    ("treadle", "loops"),
    ("tensorflow", "loops"),
    ("tensorflow", "loops-session"),
)
SETTINGS = ((1, 1), (2, 1), (1, 2), (2, 2))


class Case(NamedTuple):
    """One process: an engine, the program that it runs, and the two limits."""

    name: str
    program: str
    intra: int
    inter: int


def measure(cases: list[Case], rounds: int) -> dict[Case, list[float]]:
    """Returns the seconds of each round of each case whose engine is installed.

    Ends the command if the engines disagree about the result of a program.
    """
    declared = {f"{case.name} ({case.program}, intra {case.intra}, inter {case.inter})": case for case in cases}
    factory = "benches.programs.worker:engine"
    engines = [
        Engine(name, factory, case._asdict(), required=case.name.startswith("treadle"))
        for name, case in declared.items()
    ]
    found: dict[Case, list[float]] = {}
    totals: dict[str, float] = {}
    with running(engines) as processes:
        for process in processes:
            program = declared[process.name].program.partition("-")[0]
            check_total(totals.setdefault(program, process.ready["total"]), process.ready["total"])
        for order in turn_orders(processes, rounds):
            for process in order:
                found.setdefault(declared[process.name], []).append(process.ask(None))
    return found


def check_total(wanted: float, total: float) -> None:
    """Ends the command if two engines do not compute the same."""
    if abs(total - wanted) > 1e-3 * abs(wanted) + 1:
        raise SystemExit(f"results differ: {total} and {wanted}")


class Ratio(NamedTuple):
    """The medians in seconds of two lists of rounds; the ratio of the medians and that of the minima."""

    first: float
    second: float
    medians: float
    minima: float

    @classmethod
    def of(cls, first: list[float], second: list[float]) -> Ratio:
        one, two = statistics.median(first), statistics.median(second)
        return cls(one, two, one / two, min(first) / min(second))


def loops(rounds: int) -> dict[str, Any]:
    """Times the Python functions and prints a table."""
    cases = [Case(name, program, 2, inter) for name, program in LOOPS for inter in (1, 2)]
    found = measure(cases, rounds)
    print(f"{'two Python functions':32} {'inter 1':>10} {'inter 2':>10} {'ratio':>12}")
    figures = {}
    for engine, program in LOOPS:
        one, two = (found.get(Case(engine, program, 2, inter)) for inter in (1, 2))
        if one is None or two is None:
            continue
        ratio = Ratio.of(one, two)
        name = f"{engine}, {'tf.function' if program == 'loops' else 'session'}"
        print(f"{name:32} {ratio.first:8.3f} s {ratio.second:8.3f} s {ratio.medians:5.2f} ({ratio.minima:.2f})")
        figures[name] = {"inter 1": one, "inter 2": two, "ratio": ratio.medians, "ratio of minima": ratio.minima}
    return figures


def versus(label: str, cases: tuple[Case, Case], rounds: int, scale: float, unit: str) -> dict[str, Any] | None:
    """Times treadle and its rival and prints a line: both medians times `scale`, the rival's over treadle's."""
    found = measure(list(cases), rounds)
    ours, theirs = (found.get(case) for case in cases)
    if ours is None or theirs is None:
        return None
    ratio = Ratio.of(theirs, ours)
    print(
        f"{label:32} {ratio.second * scale:7.2f} {unit} {ratio.first * scale:9.2f} {unit} "
        f"{ratio.medians:5.2f} ({ratio.minima:.2f})"
    )
    return {"treadle": ours, cases[1].name: theirs, "ratio": ratio.medians, "ratio of minima": ratio.minima}


def graph(rounds: int) -> dict[str, Any]:
    """Times the graph and prints a table."""
    print(f"{'products and sums':32} {'treadle':>10} {'tensorflow':>12} {'ratio':>12}")
    figures = {}
    for intra, inter in SETTINGS:
        cases = (Case("treadle", "graph", intra, inter), Case("tensorflow", "graph", intra, inter))
        name = f"intra {intra} inter {inter}"
        found = versus(name, cases, rounds * 10, 1e3, "ms")
        if found is not None:
            figures[name] = found
    return figures


def scripts(rounds: int) -> dict[str, Any]:
    """Times scripts and calls outside them, and prints a table: us a call, or an op of a chain."""
    print(f"{'us (an op of a chain)':32} {'treadle':>10} {'PyTorch':>12} {'ratio':>12}")
    figures = {}
    for script in SCRIPTS:
        parts = TIMES[script] * (1 if script.startswith("fork") else OPS)
        for intra, inter in ((1, 1), (1, 2), (2, 2)) if script.startswith("fork") else ((1, 1),):
            program = f"script-{script}"
            cases = (Case("treadle-torch", program, intra, inter), Case("torch", program, intra, inter))
            name = f"{script}, intra {intra} inter {inter}"
            found = versus(name, cases, rounds * 5, 1e6 / parts, "us")
            if found is not None:
                figures[name] = {**found, "parts": parts}
    return figures


TABLES: dict[str, Callable[[int], dict[str, Any]]] = {"loops": loops, "graph": graph, "scripts": scripts}


def main() -> None:
    options = parser(__doc__, rounds=7)
    names = f"{', '.join(TABLES)}; all where none is named"
    options.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[], metavar="TABLE", help=names)
    arguments = options.parse_args()
    figures = {table: TABLES[table](arguments.rounds) for table in arguments.tables or TABLES}
    write_json(arguments.json, **figures)


if __name__ == "__main__":
    main()
