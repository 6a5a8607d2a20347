"""Models with open dimensions beside other engines: requests of random sizes, and a decoder that generates tokens.

    python -m benches.shapes.compare [--models encoder,decoder,detector,mobile_detector,recogniser] [--requests 100]
        [--images 40] [--tokens 100] [--threads 1,2] [--rounds 3] [--json FILE]

Each engine runs in a process of its own. The processes take turns of a few requests, and those that are not being timed
are stopped. All requests have different sizes. Each is answered twice, from arrays of its own: `first / later` is the
median and the 99th percentile of the ratios of both latencies, `total / steady` the sum of the first ones over that of
the later ones.
`over treadle` are an engine's sums over treadle's (above 1: treadle is faster). Memory is in MB (10^6 bytes): the
peak, and the resident memory after the last request over that after request 50. `compiles` are those after loading.
treadle has nothing on disk when it loads. A generation starts with a prompt and no past; engines feed what each run
returns to the next one, `treadle state` and `onnxruntime binding` keep it. `first` is the first generation of a
process, `later` the median of the others, `step` the median latency in ms of the first and of the last tokens of these.
Fails if treadle's outputs are far from ONNX Runtime's, or its tokens are not the same.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness.memory import back_free_memory
from benches.harness.outputs import REFERENCE, is_right, relative_error, saved
from benches.harness.process import Engine, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import turn_orders
from benches.models import build
from benches.models.open_sizes import DECODER_HEADS, DECODER_LAYERS, DECODER_WIDTH, past_names
from benches.shapes.engines import DECODERS, ENGINES
from benches.shapes.requests import KINDS

TURN = 5
"""Requests of one turn."""

EDGE = 20
"""Tokens at the begin and at the end of a generation whose latencies are compared."""

SETTLED = 50
"""The request after which memory should not grow."""

Figures = dict[str, Any]


def engines(names: Iterable[str], factory: str, folder: Path, arguments: Figures) -> list[Engine]:
    """Declares a process for each engine of these `names`; treadle's cache lies in `folder`."""
    return [
        Engine(
            name,
            f"benches.shapes.worker:{factory}",
            {"name": name, **arguments},
            required=name.startswith("treadle"),
            environment={"TREADLE_CACHE": str(folder / "cache")},
        )
        for name in names
    ]


def serve(kind: str, count: int, threads: int) -> Figures:
    """Sends `count` requests to each engine; returns the figures by its name."""
    made = KINDS[kind]
    found: Figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = {"model": build.model(made.model), "threads": threads, "kind": kind, "folder": name}
        back_free_memory()
        with running(engines(ENGINES, "requests", folder, arguments)) as processes:
            for process in processes:
                found[process.name] = {**process.ready, "requests": []}
            requests = list(enumerate(made.sizes(count)))
            turns = [requests[start : start + TURN] for start in range(0, count, TURN)]
            for turn, order in zip(turns, turn_orders(processes, len(turns)), strict=True):
                for process in order:
                    answer = process.ask(turn)
                    answer["requests"] = found[process.name]["requests"] + answer["requests"]
                    found[process.name].update(answer)
        for engine, figures in found.items():
            figures["error"] = largest_error(folder, engine)
    return found


def largest_error(folder: Path, name: str) -> float | None:
    """The largest error of an engine's saved outputs; None if ONNX Runtime is missing."""
    wanted = sorted(folder.glob(f"{REFERENCE}-*.npz"))
    errors = [relative_error(saved(path.with_name(path.name.replace(REFERENCE, name))), saved(path)) for path in wanted]
    return max(errors, default=None)


def summary(figures: Figures) -> Figures:
    """The figures of one engine's requests in a row of the table."""
    requests = figures["requests"]
    first, later = (np.array([each[field] for each in requests]) for field in ("first_ns", "later_ns"))
    settled = requests[min(SETTLED, (len(requests) + 1) // 2) - 1]
    return {
        "median": float(np.median(first / later)),
        "p99": float(np.percentile(first / later, 99)),
        "total": int(first.sum()),
        "steady": int(later.sum()),
        "growth": requests[-1]["megabytes"] / settled["megabytes"],
    }


def request_rows(kind: str, threads: int, found: Figures) -> Iterable[list[str]]:
    """A row for each engine."""
    sums = {name: summary(figures) for name, figures in found.items()}
    mine = sums["treadle"]
    for name, own in sums.items():
        yield [
            *(kind, str(threads), name),
            *(f"{own['median']:.2f}", f"{own['p99']:.2f}", f"{own['total'] / own['steady']:.2f}"),
            *(f"{own[field] / mine[field]:.2f}" for field in ("total", "steady")),
            *(f"{found[name]['peak']:.0f}", f"{own['growth']:.2f}"),
            str(found[name]["compiles"]) if name == "treadle" else "-",
            "-" if found[name]["error"] is None else f"{found[name]['error']:.0e}",
        ]


def generate(count: int, threads: int, rounds: int) -> Figures:
    """Generates `count` tokens `rounds` times with each engine; returns the figures by its name."""
    found: Figures = {}
    with tempfile.TemporaryDirectory() as name:
        arguments = {
            "model": build.model("decoder_open"),
            "threads": threads,
            "past": past_names(DECODER_LAYERS),
            "shape": [1, DECODER_HEADS, 0, DECODER_WIDTH // DECODER_HEADS],
        }
        with running(engines(DECODERS, "tokens", Path(name), arguments)) as processes:
            for process in processes:
                found[process.name] = {**process.ready, "rates": [], "early_ns": [], "late_ns": []}
            for order in turn_orders(processes, rounds):
                for process in order:
                    answer = process.ask(count)
                    own, latencies = found[process.name], answer["latencies_ns"]
                    own["rates"].append(1e9 * count / sum(latencies))
                    own["early_ns"].append(statistics.median(latencies[1 : 1 + EDGE]))
                    own["late_ns"].append(statistics.median(latencies[-EDGE:]))
                    own.update(answer)
    return found


def later(figures: Sequence[float]) -> float:
    """The median after the first generation."""
    return statistics.median(figures[1:] or figures)


def token_rows(threads: int, found: Figures) -> Iterable[list[str]]:
    """A row for each engine."""
    mine = found["treadle state"]
    for name, own in found.items():
        yield [
            *("decoder", str(threads), name),
            *(f"{own['rates'][0]:.0f}", f"{later(own['rates']):.0f}"),
            f"{mine['rates'][0] / own['rates'][0]:.2f}",
            f"{later(mine['rates']) / later(own['rates']):.2f}",
            *(f"{later(own[field]) / 1e6:.2f}" for field in ("early_ns", "late_ns")),
            f"{own['peak']:.0f}",
            str(own["compiles"]) if name.startswith("treadle") else "-",
            "yes" if own["tokens"] == mine["tokens"] else "NO",
        ]


def main() -> int:
    options = parser(__doc__, rounds=3, threads="1,2")
    options.add_argument(
        "--models", default="encoder,detector,mobile_detector,recogniser,decoder", help="by comma; default: all"
    )
    options.add_argument("--requests", type=int, default=100, help="to the encoder")
    options.add_argument("--images", type=int, default=40, help="requests to each model of images")
    options.add_argument("--tokens", type=int, default=100, help="of a generation, after the prompt")
    arguments = options.parse_args()
    models = arguments.models.split(",")
    if not set(models) <= {*KINDS, "decoder"}:
        options.error(f"--models: wanted any of {', '.join(KINDS)}, decoder, got {arguments.models}")
    results: list[Figures] = []
    right = True
    print(machine())
    served = [kind for kind in models if kind in KINDS]
    if served:
        print_header(
            *("model", "threads", "engine", "first / later: median", "p99", "total / steady"),
            *("total over treadle", "steady over treadle", "peak", "last / request 50", "compiles", "error"),
        )
    for kind, threads in product(served, arguments.threads):
        found = serve(kind, arguments.requests if kind == "encoder" else arguments.images, threads)
        results.append({"model": kind, "threads": threads, "engines": found})
        for row in request_rows(kind, threads, found):
            print_row(row)
        right = is_right(KINDS[kind].model, found["treadle"]["error"]) and right
    if "decoder" in models:
        print()
        print_header(
            *("model", "threads", "engine", "tokens a second: first", "later"),
            *("treadle state over them: first", "later", "step: first", "last", "peak", "compiles", "same tokens"),
        )
        for threads in arguments.threads:
            found = generate(arguments.tokens, threads, arguments.rounds)
            results.append({"model": "decoder", "threads": threads, "engines": found})
            for row in token_rows(threads, found):
                print_row(row)
            tokens = {tuple(own["tokens"]) for name, own in found.items() if name.startswith(("treadle", REFERENCE))}
            same = len(tokens) == 1
            right = is_right("decoder_open", None, same=same) and right
    versions = {name: figures["version"] for name, figures in results[0]["engines"].items()}
    print("\n" + ", ".join(f"{name} {version}" for name, version in versions.items()))
    write_json(arguments.json, versions=versions, results=results)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
