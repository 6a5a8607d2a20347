"""Times treadle as a backend of torch.compile beside PyTorch's own ways to run the same module.

    python -m benches.torch.compare [MODEL ...] [--group models|small] [--threads 1,2] [--rounds 7] [--seconds 0.5]
    [--json FILE]

Each engine runs in a process of its own; rounds are interleaved, and the processes that are not being timed are
stopped. The figure is the median over rounds of the round's median latency; columns are latencies in us, and each
rival's over treadle's (above 1: treadle is faster). `error` is the largest distance from eager, over the largest
element of eager's output. Fails if treadle's error exceeds 1e-4 or a part of the model did not run on treadle.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness.process import Engine, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import time_by_turns
from benches.torch.engines import ENGINES
from benches.torch.models import MODELS
from benches.torch.small import SMALL

LARGEST_ERROR = 1e-4
GROUPS = {"models": MODELS, "small": SMALL}


def distance(got: Path, wanted: Path) -> float:
    """The largest distance of an output from the wanted one, over the largest element of the wanted one."""
    with np.load(got) as one, np.load(wanted) as other:
        pairs = [(one[name].astype(np.float64), other[name].astype(np.float64)) for name in other]
    return max(float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)) for got, wanted in pairs)


def compare(model: str, threads: int, names: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    """Times the engines `names` on one module."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = {name: Path(folder) / f"{name}.npz" for name in names}
        arguments = {"model": model, "threads": threads}
        engines = [
            Engine(
                name,
                "benches.torch.worker:engine",
                {"name": name, "outputs": str(path), **arguments},
                required=name == "treadle",
            )
            for name, path in outputs.items()
        ]
        with running(engines) as processes:
            timings = time_by_turns(processes, rounds, seconds)
        return {
            "model": model,
            "threads": threads,
            "engines": {
                process.name: {
                    **process.ready,
                    **timings[process.name].figures(),
                    "error": distance(outputs[process.name], outputs["eager"]),
                }
                for process in processes
            },
        }


def row(result: dict[str, Any]) -> list[str]:
    """A row of the table."""
    engines = result["engines"]
    mine = engines["treadle"]["median_ns"]
    cells = [result["model"], str(result["threads"]), f"{mine / 1e3:.1f}"]
    for name in list(ENGINES)[1:]:
        figures = engines.get(name)
        cells.append(
            "-" if figures is None else f"{figures['median_ns'] / 1e3:.1f} ({figures['median_ns'] / mine:.2f}x)"
        )
    return [*cells, f"{engines['treadle']['error']:.0e}"]


def main() -> None:
    options = parser(__doc__, rounds=7, seconds=0.5, threads="1,2")
    names = f"{', '.join([*MODELS, *SMALL])}; a group where none is named"
    options.add_argument("models", nargs="*", choices=[[], *MODELS, *SMALL], default=[], metavar="MODEL", help=names)
    options.add_argument("--group", choices=list(GROUPS), default="models")
    options.add_argument("--engines", default=",".join(ENGINES))
    arguments = options.parse_args()
    results = []
    print(f"{machine()}; latency in us (a rival's over treadle's: above 1, treadle is faster)")
    print_header("model", "threads", *ENGINES, "error")
    for model in arguments.models or list(GROUPS[arguments.group]):
        for threads in arguments.threads:
            engines = arguments.engines.split(",")
            results.append(compare(model, threads, engines, arguments.rounds, arguments.seconds))
            print_row(row(results[-1]))
    write_json(arguments.json, results=results)
    far = [result["model"] for result in results if result["engines"]["treadle"]["error"] > LARGEST_ERROR]
    if far:
        sys.exit(f"further than {LARGEST_ERROR} from eager: {', '.join(far)}")


if __name__ == "__main__":
    main()
