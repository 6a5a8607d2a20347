"""What models gain from more cores than there are, by simulation, and how well two workers are predicted from one.

    python -m benches.scale.compare [MODEL ...] [--cores 4,8,16,32,64,128] [--clients 1,64] [--memory GB/S]
        [--rounds 9] [--seconds 0.4] [--json FILE]

Each model runs on one worker while its tasks are recorded, and on one and two workers by turns. `predicted` is what the
simulation says of two workers, in us, `measured` the median over rounds. Then a line for each number of clients says
how many times as fast each number of cores is as one, where more cores stop gaining (less than a tenth for twice as
many), and what holds the runs at the largest number. Without models those of `benches.models` are taken.

`--memory` is the bandwidth of memory for all cores together; without it, what `treadle.tune.simulate` assumes.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import treadle
from benches.harness.inputs import random_inputs
from benches.harness.report import machine, numbers, parser, print_header, print_row, write_json
from benches.harness.timing import latencies, turn_orders
from benches.models import build
from treadle.codegen.target import detect
from treadle.tune.scaling import last_gain, scale
from treadle.tune.simulate import Costs, simulate
from treadle.tune.space import Limits
from treadle.tune.task_graph import TaskGraph, record_tasks

TRACED = 20
"""Runs whose tasks are recorded."""

ONE, TWO = Limits(1, 1), Limits(2, 2)


def recorded(path: str, rounds: int, seconds: float) -> tuple[TaskGraph, dict[Limits, float]]:
    """Returns the tasks of a model, and its latency in ns on one worker and on two, medians over rounds by turns."""
    session, feed = treadle.Session(path), random_inputs(path)
    (plan,) = session.plans_for(feed)
    graph = record_tasks(lambda: session.run(feed, **ONE._asdict()), plan, TRACED)
    rows: dict[Limits, list[float]] = {ONE: [], TWO: []}
    for number, order in enumerate(turn_orders((ONE, TWO), rounds + 1)):
        for limits in order:
            settings = limits._asdict()
            found = latencies(lambda settings=settings: session.run(feed, **settings), seconds)  # type: ignore[misc]
            if number:
                rows[limits].append(statistics.median(found))
    return graph, {limits: statistics.median(found) for limits, found in rows.items()}


def main() -> int:
    """Records, simulates and prints."""
    options = parser(__doc__, rounds=9, seconds=0.4)
    options.add_argument("models", nargs="*")
    options.add_argument("--cores", type=numbers, default=numbers("4,8,16,32,64,128"))
    options.add_argument("--clients", type=numbers, default=numbers("1,64"))
    options.add_argument("--memory", type=float, help="bandwidth of memory for all cores, in GB/s")
    arguments = options.parse_args()
    model_of_machine = detect().machine
    paths = [name if name.endswith(".onnx") else build.model(name) for name in arguments.models or build.MODELS]
    print(f"{machine()}, machine model {model_of_machine.name}\n")
    print_header("model", "tasks", "one worker, us", "two: predicted", "measured", "error")
    graphs: dict[str, TaskGraph] = {}
    results: list[dict[str, Any]] = []
    for path in paths:
        name = Path(path).stem
        graph, measured = recorded(path, arguments.rounds, arguments.seconds)
        predicted = simulate(graph, TWO, Costs.of(model_of_machine, 2)).latency_ns
        error = predicted / measured[TWO] - 1
        cells = (measured[ONE], predicted, measured[TWO])
        print_row([name, len(graph.tasks), *(f"{ns / 1e3:.0f}" for ns in cells), f"{100 * error:+.1f} %"])
        graphs[name] = graph
        results.append({"model": name, "one_ns": measured[ONE], "two_ns": measured[TWO], "predicted_ns": predicted})
    errors = [abs(each["predicted_ns"] / each["two_ns"] - 1) for each in results]
    print(f"\nmedian error {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %\n")
    print_header("model", "clients", *(f"{cores} cores" for cores in arguments.cores), "gains up to", "held by")
    for name, graph in graphs.items():
        for clients in arguments.clients:
            found = scale(graph, model_of_machine, arguments.cores, clients, arguments.memory)
            held = f"{found[-1].held_by} ({found[-1].gain:.2f})"
            print_row([name, clients, *(f"{each.speedup:.1f}" for each in found), last_gain(found), held])
            results.append({"model": name, "clients": clients, "speedups": [each.speedup for each in found]})
    write_json(arguments.json, results=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
