"""Throughput and tail latency of one session under 1, 2, 4 and 8 client threads, beside other engines.

    python -m benches.clients.compare [MODEL.onnx ...] [--clients 1,2,4,8] [--engines treadle,openvino_latency]
        [--rounds 5] [--seconds 1] [--json FILE]

Each engine runs in a process of its own; rounds are interleaved and the processes that are not being timed are stopped.
Figures are medians over rounds of runs a second and of the 99th percentile of latency. treadle has nothing set; of each
rival the best of its settings counts. `threads` are those that the engine added beside the clients; the file also has
`system_us`, the system's CPU time for each run. The last column shows whether treadle's throughput falls with more
clients: the ratio to the number of clients before, within each round, whose parts are seconds apart, as its median and
quartiles over rounds (`--engines treadle --rounds 40` for narrow ones). Fails if treadle's outputs are far from ONNX
Runtime's, or any client's last ones are not those of the first run, bit for bit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from benches.clients.engines import ENGINES
from benches.harness.inputs import random_inputs, write_inputs
from benches.harness.outputs import REFERENCE, is_right, relative_error, saved
from benches.harness.process import Engine, EngineProcess, running
from benches.harness.report import cpu_name, numbers, parser, print_header, print_row, write_json
from benches.harness.timing import turn_orders
from benches.models import build


@dataclass(slots=True)
class Load:
    """The figures of each round of one engine, by number of clients."""

    rates: dict[int, list[float]] = field(default_factory=dict)
    """Runs a second."""
    p99_ms: dict[int, list[float]] = field(default_factory=dict)
    system_us: dict[int, list[float]] = field(default_factory=dict)
    """The system's CPU time for each run."""
    threads: int = 0
    same: bool = True

    def measure(self, process: EngineProcess, clients: int, seconds: float) -> None:
        """Adds one round of `seconds`."""
        answer = process.ask([clients, seconds])
        runs = len(answer["latencies_ns"])
        self.rates.setdefault(clients, []).append(runs / answer["seconds"])
        self.p99_ms.setdefault(clients, []).append(float(np.percentile(answer["latencies_ns"], 99)) / 1e6)
        self.system_us.setdefault(clients, []).append(answer["system_seconds"] / max(1, runs) * 1e6)
        self.threads = max(self.threads, answer["threads"])
        self.same = self.same and answer["same"]

    def figures(self) -> dict[int, dict[str, float]]:
        """Medians by number of clients; `before_*` are quartiles of the throughput over that with the number before."""
        figures = {}
        before = next(iter(self.rates.values()))
        for clients, rates in self.rates.items():
            ratios = [rate / other for rate, other in zip(rates, before, strict=True)]
            low, middle, high = np.percentile(ratios, (25, 50, 75))
            figures[clients] = {
                "runs_per_second": statistics.median(rates),
                "p99_ms": statistics.median(self.p99_ms[clients]),
                "system_us": statistics.median(self.system_us[clients]),
                "threads": self.threads,
                "before_low": float(low),
                "before": float(middle),
                "before_high": float(high),
            }
            before = rates
        return figures


def compare(
    model: str, names: list[str], counts: list[int], rounds: int, seconds: float
) -> tuple[dict[str, dict[int, dict[str, float]]], bool]:
    """Returns figures by engine and number of clients, and whether treadle's outputs are right."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        write_inputs(inputs, random_inputs(model))
        outputs = {name: inputs.with_name(f"{name}.npz") for name in names}
        engines = [
            Engine(
                name,
                "benches.clients.worker:engine",
                {"name": name, "model": model, "inputs": str(inputs), "outputs": str(path)},
                required=name == "treadle",
            )
            for name, path in outputs.items()
        ]
        with running(engines) as processes:
            loads = {process.name: Load() for process in processes}
            for order in turn_orders(processes, rounds):
                for clients, process in product(counts, order):
                    loads[process.name].measure(process, clients, seconds)
        error = None
        if REFERENCE in loads:
            error = relative_error(saved(outputs["treadle"]), saved(outputs[REFERENCE]))
    figures = {name: load.figures() for name, load in loads.items()}
    return figures, is_right(model, error, same=loads["treadle"].same)


def rows(model: str, figures: dict[str, dict[int, dict[str, float]]]) -> list[list[str]]:
    """Table rows: treadle's throughput over its own with one client and over the best rival's, and both p99."""
    lines = []
    for clients, mine in figures["treadle"].items():
        first = next(iter(figures["treadle"].values()))["runs_per_second"]
        rivals = {name: by_count[clients] for name, by_count in figures.items() if name != "treadle"}
        best = max(rivals, key=lambda name: rivals[name]["runs_per_second"], default=None)
        cells = [model, str(clients), f"{mine['runs_per_second'] / first:.2f}"]
        if best is not None:
            ratio = mine["runs_per_second"] / rivals[best]["runs_per_second"]
            cells += [f"{ratio:.2f}", best, f"{rivals[best]['p99_ms'] / mine['p99_ms']:.2f}"]
        else:
            cells += ["-", "-", "-"]
        before = f"{mine['before']:.2f} ({mine['before_low']:.2f} to {mine['before_high']:.2f})"
        lines.append([*cells, str(int(mine["threads"])), before])
    return lines


def main() -> int:
    options = parser(__doc__, rounds=5, seconds=1.0)
    options.add_argument("models", nargs="*")
    options.add_argument("--clients", type=numbers, default=numbers("1,2,4,8"))
    options.add_argument("--engines", default=",".join(ENGINES), help="treadle and rivals, by comma; all")
    arguments = options.parse_args()
    names = arguments.engines.split(",")
    if "treadle" not in names or not set(names) <= set(ENGINES):
        options.error(f"--engines: wanted treadle and any of {', '.join(ENGINES)}, got {arguments.engines}")
    results, right = {}, True
    print(
        f"{cpu_name()}; treadle's throughput over its own with the first number of clients and over the best rival's;\n"
        "the best rival's p99 latency over treadle's (above 1: treadle is better); "
        "threads that treadle added beside the clients"
    )
    print_header(
        *("model", "clients", "over its first", "over best rival", "best rival", "p99 ratio", "threads"),
        "over the number before",
    )
    for model in arguments.models or build.all_models():
        name = Path(model).stem
        results[name], is_model_right = compare(model, names, arguments.clients, arguments.rounds, arguments.seconds)
        right = right and is_model_right
        for row in rows(name, results[name]):
            print_row(row)
    write_json(arguments.json, results=results)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
