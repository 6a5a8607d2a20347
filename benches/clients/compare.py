"""Throughput and tail latency of one session under 1, 2, 4 and 8 client threads, beside other engines.

    python -m benches.clients.compare [MODEL.onnx ...] [--clients 1,2,4,8] [--engines treadle,openvino_latency]
        [--rounds 5] [--seconds 1] [--json FILE]

Each engine runs in a process of its own; rounds are interleaved and the processes that are not being timed are
stopped. Figures are medians over rounds of runs a second and of the 99th percentile of latency. treadle has nothing set;
of each rival the best of its settings counts. `threads` are those that the engine added, beside the clients; the file
also has `system_us`, the system's CPU time a run. Whether treadle's throughput falls with more clients is asked of each
round by itself, whose parts are seconds apart: the ratio to the number of clients before, as its median and quartiles
over rounds (`--engines treadle --rounds 40` for narrow ones).
Fails if treadle's outputs are far from ONNX Runtime's, or any client's last ones are not those of the first run, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benches.clients.engines import ENGINES
from benches.harness.outputs import is_right, relative_error, saved
from benches.models import build
from benches.rivals.compare import REFERENCE, cpu_name, random_inputs, write_inputs
from benches.rivals.process import EngineProcess, open_process

WORKER = Path(__file__).with_name("worker.py")


@dataclass(slots=True)
class Engine(EngineProcess):
    """An engine and what it did, by number of clients."""

    outputs: Path
    rates: dict[int, list[float]] = field(default_factory=dict)
    tails: dict[int, list[float]] = field(default_factory=dict)
    system: dict[int, list[float]] = field(default_factory=dict)
    """Microseconds of CPU time that the system took a run."""
    threads: int = 0
    same: bool = True

    def time(self, clients: int, seconds: float) -> None:
        """One round of `seconds`."""
        answer = self.ask(f"{clients} {seconds}")
        self.rates.setdefault(clients, []).append(len(answer["latencies_ns"]) / answer["seconds"])
        self.tails.setdefault(clients, []).append(float(np.percentile(answer["latencies_ns"], 99)) / 1e6)
        per_run = answer["system_seconds"] / max(1, len(answer["latencies_ns"]))
        self.system.setdefault(clients, []).append(per_run * 1e6)
        self.threads = max(self.threads, answer["threads"])
        self.same = self.same and answer["same"]

    def figures(self) -> dict[int, dict[str, float]]:
        """By number of clients; `before_*` are quartiles of the throughput over that with the number measured before."""
        figures = {}
        before = next(iter(self.rates.values()))
        for clients, rates in self.rates.items():
            ratios = [rate / other for rate, other in zip(rates, before, strict=True)]
            low, middle, high = np.percentile(ratios, (25, 50, 75))
            figures[clients] = {
                "runs_per_second": statistics.median(rates),
                "p99_ms": statistics.median(self.tails[clients]),
                "system_us": statistics.median(self.system[clients]),
                "threads": self.threads,
                "before_low": float(low),
                "before": float(middle),
                "before_high": float(high),
            }
            before = rates
        return figures


def start(name: str, model: str, inputs: Path) -> Engine | None:
    """Start an engine and wait until it has run once; None if it is not installed."""
    outputs = inputs.with_name(f"{name}.npz")
    engine = Engine(name, open_process([sys.executable, str(WORKER), name, model, str(inputs), str(outputs)]), outputs)
    return None if engine.first_answer() is None else engine


def compare(
    model: str, names: list[str], counts: list[int], rounds: int, seconds: float
) -> tuple[dict[str, dict[int, dict[str, float]]], bool]:
    """Figures by engine and number of clients, and whether treadle's outputs were right."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        write_inputs(inputs, random_inputs(model))
        engines: list[Engine] = []
        try:
            for name in names:
                engine = start(name, model, inputs)
                if engine is not None:
                    engines.append(engine)
            for round_ in range(rounds):
                for clients in counts:
                    for engine in engines if round_ % 2 else engines[::-1]:
                        engine.time(clients, seconds)
            figures = {engine.name: engine.figures() for engine in engines}
            by_name = {engine.name: engine for engine in engines}
            mine, reference = by_name["treadle"], by_name.get(REFERENCE)
            error = relative_error(saved(mine.outputs), saved(reference.outputs)) if reference else None
            return figures, is_right(model, error, same=mine.same)
        finally:
            for engine in engines:
                engine.close()


def rows(model: str, figures: dict[str, dict[int, dict[str, float]]]) -> list[str]:
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
        lines.append(f"| {' | '.join([*cells, str(int(mine['threads'])), before])} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--clients", default="1,2,4,8")
    parser.add_argument("--engines", default=",".join(ENGINES), help="treadle and rivals, by comma; all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.clients.split(",")]
    names = arguments.engines.split(",")
    if "treadle" not in names or not set(names) <= set(ENGINES):
        parser.error(f"--engines: wanted treadle and any of {', '.join(ENGINES)}, got {arguments.engines}")
    results, right = {}, True
    print(
        f"{cpu_name()}; treadle's throughput over its own with the first number of clients and over the best rival's;"
    )
    print(
        "the best rival's p99 latency over treadle's (above 1: treadle is better); threads that treadle added beside the clients"
    )
    print(
        "| model | clients | over its first | over best rival | best rival | p99 ratio | threads | over the number before |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for model in arguments.models or build.all_models():
        name = Path(model).stem
        results[name], is_model_right = compare(model, names, counts, arguments.rounds, arguments.seconds)
        right = right and is_model_right
        print("\n".join(rows(name, results[name])), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpu": cpu_name(), "results": results}, indent=1))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
