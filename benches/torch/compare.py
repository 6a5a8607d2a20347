"""Times treadle as a backend of torch.compile beside PyTorch's own ways to run the same module.

    python -m benches.torch.compare [MODEL ...] [--group models|small] [--threads 1,2] [--rounds 7] [--seconds 0.5] [--json FILE]

Each way runs in a process of its own; rounds are interleaved, and the processes that are not being timed are stopped.
The figure is the median over rounds of the round's median latency; columns are latencies in us, and each rival's over
treadle's (above 1: treadle is faster). `error` is the largest distance from eager, over the largest element of eager's output.
Fails if treadle's error exceeds 1e-4 or a part of the model did not run on treadle.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benches.rivals.compare import Engine, cpu_name
from benches.rivals.process import open_process
from benches.torch.engines import ENGINES
from benches.torch.models import MODELS
from benches.torch.small import SMALL

ROOT = Path(__file__).resolve().parents[2]
MOST_ERROR = 1e-4
GROUPS = {"models": MODELS, "small": SMALL}


def start(name: str, model: str, threads: int, folder: Path) -> Engine | None:
    """Start a way to run `model` and wait until it has run once; None if it cannot."""
    output = folder / f"{name}.npz"
    command = [sys.executable, "-m", "benches.torch.worker", name, model, str(threads), str(output)]
    engine = Engine(name, open_process(command, cwd=ROOT), output)
    answer = engine.first_answer()
    if answer is None:
        return None
    engine.version, engine.load_seconds = answer["ready"], answer["load_seconds"]
    return engine


def distance(got: Path, wanted: Path) -> float:
    """The largest distance between two saved outputs, over the largest element of the second; the largest of all outputs."""
    with np.load(got) as one, np.load(wanted) as other:
        pairs = [(one[name].astype(np.float64), other[name].astype(np.float64)) for name in other]
    return max(float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)) for got, wanted in pairs)


def compare(model: str, threads: int, names: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    """Time the ways `names` to run one model."""
    with tempfile.TemporaryDirectory() as name:
        engines: list[Engine] = []
        try:
            for engine_name in names:
                engine = start(engine_name, model, threads, Path(name))
                if engine is not None:
                    engines.append(engine)
            for round_ in range(rounds + 1):
                for engine in engines if round_ % 2 else engines[::-1]:
                    engine.time(seconds)
            eager = next(engine for engine in engines if engine.name == "eager")
            return {
                "model": model,
                "threads": threads,
                "engines": {
                    engine.name: {
                        "version": engine.version,
                        "load_seconds": engine.load_seconds,
                        "median_ns": statistics.median(engine.medians[1:]),
                        "round_medians_ns": engine.medians[1:],
                        "error": distance(engine.outputs, eager.outputs),
                    }
                    for engine in engines
                },
            }
        finally:
            for engine in engines:
                engine.close()


def row(result: dict[str, Any]) -> str:
    """A row of the table."""
    engines = result["engines"]
    mine = engines["treadle"]["median_ns"]
    cells = [f"{mine / 1e3:.1f}"]
    for name in list(ENGINES)[1:]:
        figures = engines.get(name)
        cells.append(
            "-" if figures is None else f"{figures['median_ns'] / 1e3:.1f} ({figures['median_ns'] / mine:.2f}x)"
        )
    return f"| {result['model']} | {result['threads']} | {' | '.join(cells)} | {engines['treadle']['error']:.0e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = f"{', '.join([*MODELS, *SMALL])}; a group where none is named"
    parser.add_argument("models", nargs="*", choices=[[], *MODELS, *SMALL], default=[], metavar="MODEL", help=names)
    parser.add_argument("--group", choices=list(GROUPS), default="models")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = []
    print(f"{cpu_name()}, {os.cpu_count()} CPUs; latency in us (a rival's over treadle's: above 1, treadle is faster)")
    print(f"| model | threads | {' | '.join(ENGINES)} | error |")
    print(f"| --- | --- | {' | '.join('---' for _ in ENGINES)} | --- |")
    for model in arguments.models or list(GROUPS[arguments.group]):
        for threads in map(int, arguments.threads.split(",")):
            names = arguments.engines.split(",")
            results.append(compare(model, threads, names, arguments.rounds, arguments.seconds))
            print(row(results[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpu": cpu_name(), "results": results}, indent=1))
    far = [result["model"] for result in results if result["engines"]["treadle"]["error"] > MOST_ERROR]
    if far:
        sys.exit(f"further than {MOST_ERROR} from eager: {', '.join(far)}")


if __name__ == "__main__":
    main()
