"""Latency and throughput on CPUs that other programs use too, beside other engines.

    python -m benches.contention.compare [MODEL ...] [--shares "1 busy thread,a quota of 1 CPU"] [--rounds 5]
        [--seconds 1] [--json FILE]

Conditions: 1, 2 and 4 foreign threads that never wait, with the priority of the engine; quotas of control groups of
1.5, 1 and 0.5 CPUs; a mask that shrinks to one CPU once the engine is loaded. Quotas need the right to make control
groups (root); without it they are left out. A model is the name of one of benches.models, or a file.

Each engine runs in a process of its own; rounds are interleaved, and processes that are not being timed are stopped.
treadle has nothing set. Rivals are ONNX Runtime and OpenVINO with one thread and with one for each CPU, and treadle's
kernels on oneTBB's arena; the best of their settings counts, for each figure by itself. Figures are medians over rounds
of the round's median and 99th percentile of latency; the throughput of a single client is one over its mean latency.
`of ideal` is the mean latency over the one of a run alone times CPUs over the share of the CPUs that an engine gets
which never waits for a thread without a CPU: 1.5 of 2 beside one busy thread. Medians would hide runs that wait: a run
that meets a busy thread, or the end of its quota, takes several times as long as another.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benches.contention.share import SHARES, Share, busy_threads, only_first_cpus, quota
from benches.harness.inputs import random_inputs, write_inputs
from benches.harness.process import Engine, EngineProcess, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import turn_orders
from benches.models import build

MODELS = ("mobilenet_v2", "squeezenet1_1", "minilm_s64")
"""Those that are timed if none is named: short runs of many ops, so that workers wait for each other often."""

OURS = "treadle"


@dataclass(frozen=True, slots=True)
class Setting:
    """An engine with one of its settings. `threads` 0: nothing set."""

    engine: str
    threads: int
    environment: dict[str, str] = field(default_factory=dict)


def settings() -> dict[str, Setting]:
    """Returns the engines by name; treadle with nothing set, the others with each setting that may be best."""
    found = {OURS: Setting(OURS, 0), "oneTBB": Setting(OURS, 0, {"TREADLE_PARALLEL_BACKEND": "tbb"})}
    for engine in ("onnxruntime", "openvino"):
        for threads in sorted({1, os.cpu_count() or 1}):
            found[f"{engine}, {threads}"] = Setting(engine, threads)
    return found


@dataclass(slots=True)
class Figures:
    """Latencies of one engine in one condition, a round each, in ms."""

    median: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)

    def add(self, latencies_ns: Sequence[int]) -> None:
        """Adds a round."""
        milliseconds = np.asarray(latencies_ns) / 1e6
        self.median.append(float(np.median(milliseconds)))
        self.p99.append(float(np.percentile(milliseconds, 99)))
        self.mean.append(float(milliseconds.mean()))

    def summary(self) -> dict[str, float]:
        """Returns the medians over rounds, and the runs a second."""
        mean = statistics.median(self.mean)
        return {
            "median_ms": statistics.median(self.median),
            "p99_ms": statistics.median(self.p99),
            "mean_ms": mean,
            "runs_per_second": 1e3 / mean,
        }


@contextmanager
def loaded(model: str, share: Share) -> Iterator[list[EngineProcess]]:
    """Loads the model in every engine, within the quota if there is one."""
    with ExitStack() as stack:
        if share.quota is not None:
            stack.enter_context(quota(share.quota))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        inputs = folder / "inputs.npz"
        write_inputs(inputs, random_inputs(model))
        engines = [
            Engine(
                name,
                "benches.rivals.worker:engine",
                {
                    "name": setting.engine,
                    "model": model,
                    "threads": setting.threads,
                    "inputs": str(inputs),
                    "outputs": str(folder / "outputs.npz"),
                    "precision": "f32",
                },
                required=name == OURS,
                environment=setting.environment,
            )
            for name, setting in settings().items()
        ]
        yield stack.enter_context(running(engines))


def measure(model: str, share: Share, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Returns the figures of every engine in one condition; the first round does not count."""
    figures: dict[str, Figures] = {}
    with loaded(model, share) as processes:
        for number, order in enumerate(turn_orders(processes, rounds + 1)):
            for process in order:
                with ExitStack() as stack:
                    stack.enter_context(busy_threads(share.busy))
                    if share.cpus is not None:
                        stack.enter_context(only_first_cpus(process.process.pid, share.cpus))
                    latencies = process.ask(seconds)
                if number:
                    figures.setdefault(process.name, Figures()).add(latencies)
    return {name: found.summary() for name, found in figures.items()}


def row(model: str, share: Share, figures: dict[str, dict[str, float]], alone: dict[str, float] | None) -> list[str]:
    """A row of the table: treadle's figures, those of the best rival over them, and what an ideal share would give."""
    mine = figures[OURS]
    rivals = {name: found for name, found in figures.items() if name != OURS}
    cells = [model, share.name, f"{mine['median_ms']:.2f}", f"{mine['p99_ms']:.2f}"]
    for which in ("median_ms", "p99_ms", "mean_ms"):
        best = min(rivals, key=lambda name: rivals[name][which], default=None)
        cells.append("-" if best is None else f"{rivals[best][which] / mine[which]:.2f} ({best})")
    if alone is None:
        return [*cells, "-"]
    cpus = os.cpu_count() or 1
    return [*cells, f"{mine['mean_ms'] / (alone['mean_ms'] * cpus / share.ideal(cpus)):.2f}"]


def main() -> int:
    options = parser(__doc__, rounds=5, seconds=1.0)
    options.add_argument("models", nargs="*")
    options.add_argument("--shares", help="names of conditions, by comma; all")
    arguments = options.parse_args()
    wanted = arguments.shares.split(",") if arguments.shares else [share.name for share in SHARES]
    if not set(wanted) <= {share.name for share in SHARES}:
        options.error(f"--shares: wanted any of {', '.join(share.name for share in SHARES)}, got {arguments.shares}")
    print(f"{machine()}; rival over treadle: above 1, treadle is faster")
    print_header(
        "model", "CPUs", "median ms", "p99 ms", "rival's median", "rival's p99", "rival's throughput", "of ideal"
    )
    results: list[dict[str, Any]] = []
    for model in arguments.models or MODELS:
        path, alone = model if model.endswith(".onnx") else build.model(model), None
        for share in (share for share in SHARES if share.name in wanted):
            try:
                figures = measure(path, share, arguments.rounds, arguments.seconds)
            except OSError as error:
                print(f"{share.name} is left out: {error}", file=sys.stderr)
                continue
            if share == SHARES[0]:
                alone = figures[OURS]
            print_row(row(Path(path).stem, share, figures, alone))
            results.append({"model": Path(path).stem, "share": share.name, "engines": figures})
    write_json(arguments.json, results=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
