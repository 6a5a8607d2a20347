"""Times an old commit against a new one: the benchmark's models by turns, and whether outputs are the same bits.

    python -m benches.versions.compare OLD NEW [MODEL ...] [--group GROUP] [--threads 1,2] [--precision f32|bf16]
        [--isa ISA] [--rounds 9] [--seconds 0.4] [--json FILE]

OLD and NEW are checkouts with an installation of their own in .venv; each has its own import name, the project's name
in pyproject.toml. A model is a name of `benches.models` or the path of an ONNX file; without models the whole group is
timed. Each checkout runs in a process of its own with an empty cache folder; rounds are interleaved, and the process
that is not being timed is stopped. `old / new` is the ratio of the medians over rounds of the round's median latency:
above 1, the new commit is faster. `quartiles` are those of the ratio of single rounds. Ends with 1 if outputs differ in
any bit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness.inputs import random_inputs, write_inputs
from benches.harness.process import Engine, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import ratio, time_by_turns
from benches.models import build


@dataclass(frozen=True, slots=True)
class Checkout:
    """A version of the project: the folder, and the empty folder for its compiled forms."""

    name: str
    folder: Path
    cache: Path

    @property
    def package(self) -> str:
        """The import name."""
        name: str = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
        return name

    def engine(self, arguments: dict[str, Any], isa: str | None) -> Engine:
        """The process that runs a model in this version."""
        prefix = self.package.upper()
        return Engine(
            self.name,
            "benches.versions.worker:session",
            {"package": self.package, "source": str(self.folder), **arguments},
            required=True,
            environment={f"{prefix}_CACHE": str(self.cache)} | ({f"{prefix}_ISA": isa} if isa else {}),
            python=str(self.folder / ".venv" / "bin" / "python"),
        )


def compare(
    checkouts: list[Checkout], model: str, threads: int, precision: str, isa: str | None, rounds: int, seconds: float
) -> dict[str, Any]:
    """Times one model in both versions."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        write_inputs(inputs, random_inputs(model))
        arguments = {"model": model, "inputs": str(inputs), "threads": threads, "precision": precision}
        with running(checkout.engine(arguments, isa) for checkout in checkouts) as processes:
            timings = time_by_turns(processes, rounds, seconds)
            ready = {process.name: process.ready for process in processes}
    by_round = [old / new for old, new in zip(timings["old"].rounds, timings["new"].rounds, strict=True)]
    low, high = np.percentile(by_round, (25, 75))
    return {
        "model": Path(model).stem,
        "threads": threads,
        "precision": precision,
        "ratio": ratio(timings, "old", "new"),
        "quartiles": [float(low), float(high)],
        "same": ready["old"]["digest"] == ready["new"]["digest"],
        "engines": {name: {**ready[name], **timing.figures()} for name, timing in timings.items()},
    }


def row(result: dict[str, Any]) -> list[str]:
    """A row of the table."""
    old, new = (result["engines"][name]["median_ns"] for name in ("old", "new"))
    low, high = result["quartiles"]
    return [
        result["model"],
        str(result["threads"]),
        f"{old / 1e3:.1f}",
        f"{new / 1e3:.1f}",
        f"{result['ratio']:.3f}",
        f"{low:.3f} to {high:.3f}",
        "yes" if result["same"] else "NO",
    ]


def main() -> int:
    options = parser(__doc__, rounds=9, seconds=0.4, threads="1,2")
    options.add_argument("old", type=Path)
    options.add_argument("new", type=Path)
    options.add_argument("models", nargs="*")
    options.add_argument("--group", default="models", choices=build.GROUPS)
    options.add_argument("--precision", default="f32", choices=("f32", "bf16"))
    options.add_argument("--isa", choices=("avx512", "avx2", "generic"))
    arguments = options.parse_args()
    models = [model if model.endswith(".onnx") else build.model(model) for model in arguments.models]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        checkouts = [
            Checkout(name, path.resolve(), Path(folder) / name)
            for name, path in (("old", arguments.old), ("new", arguments.new))
        ]
        print(f"{machine()}; latency in us, old / new above 1: the new commit is faster")
        print_header("model", "threads", "old", "new", "old / new", "quartiles", "same bits")
        for model in models or build.all_models(arguments.group):
            for threads in arguments.threads:
                turns = (arguments.rounds, arguments.seconds)
                results.append(compare(checkouts, model, threads, arguments.precision, arguments.isa, *turns))
                print_row(row(results[-1]))
    for threads in arguments.threads:
        ratios = [result["ratio"] for result in results if result["threads"] == threads]
        print(f"threads {threads}: geometric mean of old / new {statistics.geometric_mean(ratios):.3f}")
    same = all(result["same"] for result in results)
    print(f"outputs: {'the same bits in every model' if same else 'NOT the same bits'}")
    write_json(arguments.json, results=results)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
