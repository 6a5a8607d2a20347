"""Embeddings of padded texts of different lengths, with and without padding, beside other engines.

    python -m benches.padding.compare [--texts 32] [--threads 1,2] [--rounds 5] [--seconds 2] [--json FILE]

A MiniLM-size encoder with a masked mean embeds one batch of texts of 5 to 256 tokens. Each engine runs in a process of
its own; the processes take turns, and those that are not being timed are stopped. `padded / tokens` is the number of
positions over that of tokens, `times treadle` the latency of treadle, which computes padding, over that of the engine.
`difference` is the largest one of an element of an embedding of length 1 from that of treadle. Fails if it is above
1e-6 for treadle without padding, or if treadle's outputs are far from ONNX Runtime's.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness.outputs import REFERENCE, is_right, relative_error, saved
from benches.harness.process import Engine, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import ratio, time_by_turns
from benches.models import build
from benches.padding.worker import LONGEST, SKIPPING, lengths
from benches.shapes.engines import ENGINES

SPREADS = ("even by magnitude", "even")

MOST_DIFFERENCE = 1e-6
"""Of an element of an embedding without padding."""


def engines(folder: Path, arguments: dict[str, Any]) -> list[Engine]:
    """Declares a process for each engine; its embeddings and treadle's cache lie in `folder`."""
    return [
        Engine(
            name,
            "benches.padding.worker:embeds",
            {"name": name, "file": str(folder / f"{name}.npz"), **arguments},
            required=name in ("treadle", SKIPPING),
            environment={"TREADLE_CACHE": str(folder / "cache")},
        )
        for name in ("treadle", SKIPPING, *(name for name in ENGINES if name != "treadle"))
    ]


def difference(folder: Path, name: str) -> float:
    """The largest difference of an engine's embeddings, scaled to a length of 1, from those of treadle."""
    (mine,), (wanted,) = (
        [each / np.linalg.norm(each, axis=1, keepdims=True) for each in saved(folder / f"{one}.npz")]
        for one in (name, "treadle")
    )
    return float(np.abs(mine - wanted).max())


def main() -> int:
    options = parser(__doc__, rounds=5, seconds=2, threads="1,2")
    options.add_argument("--texts", type=int, default=32, help="of a batch")
    arguments = options.parse_args()
    model = build.model("embedder_open")
    results, right = [], True
    versions: dict[str, str] = {}
    print(machine())
    print_header("lengths", "threads", "padded / tokens", "engine", "ms", "times treadle", "difference")
    for spread, threads in product(SPREADS, arguments.threads):
        share = LONGEST * arguments.texts / int(lengths(spread, arguments.texts).sum())
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            own = {"model": model, "threads": threads, "spread": spread, "texts": arguments.texts}
            with running(engines(folder, own)) as processes:
                versions.update({process.name: process.ready["version"] for process in processes})
                timings = time_by_turns(processes, arguments.rounds, arguments.seconds)
            for engine, timing in timings.items():
                print_row(
                    [
                        *(spread, threads, f"{share:.2f}", engine, f"{timing.median_ns / 1e6:.1f}"),
                        *(f"{ratio(timings, 'treadle', engine):.2f}", f"{difference(folder, engine):.1e}"),
                    ]
                )
            outputs = {engine: saved(folder / f"{engine}.npz") for engine in timings}
            error = relative_error(outputs["treadle"], outputs[REFERENCE]) if REFERENCE in outputs else None
            right = is_right(model, error, same=difference(folder, SKIPPING) <= MOST_DIFFERENCE) and right
        figures = {engine: timing.figures() for engine, timing in timings.items()}
        results.append({"lengths": spread, "threads": threads, "share": share, "engines": figures})
    print("\n" + ", ".join(f"{name} {version}" for name, version in versions.items()))
    write_json(arguments.json, versions=versions, results=results)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
