"""Times treadle beside other engines on the same models in one interleaved run.

    python -m benches.rivals.compare [MODEL.onnx ...] [--group GROUP] [--precision f32|bf16] [--threads 1,2]
        [--dim NAME=SIZE]... [--rounds 7] [--seconds 0.4] [--json FILE]

Without models, a group of `benches.models` is built first. Each engine runs in a process of its own; rounds are
interleaved; the processes of engines that are not being timed are stopped, so that a spinning pool cannot disturb. The
figure of an engine is the median over rounds of the round's median latency. Outputs are compared with ONNX Runtime's;
the command ends with 1 if treadle's differ by more than LARGEST_ERROR. Engines that are not installed are skipped and
named, and so are those whose outputs are wrong. The machine's FMA and memory limits are timed in the same rounds: `% of
limit` is the least time that they allow for the model's multiply-adds (done directly; four of bytes at once) or for
reading its weights, where no cache holds them, over treadle's time. Winograd's algorithm needs fewer operations and can
exceed 100.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benches.harness.inputs import NO_DIMS, Array, random_inputs, write_inputs
from benches.harness.outputs import REFERENCE, is_right, relative_error, saved
from benches.harness.process import Engine, EngineProcess, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import Timing, time_by_turns
from benches.models import build
from benches.models.cost import cost
from benches.rivals.engines import BY_GROUP, BY_PRECISION
from benches.rivals.limits import LIMITS, last_level_cache

_LARGEST_RIVAL_ERROR = 0.1
"""Rivals round to fewer bits, or convert the model; with a larger error they have misread it."""


def engines(names: list[str], model: str, threads: int, folder: Path, precision: str) -> list[Engine]:
    """Declares the engines `names`, whose outputs go to `folder`, and those that show the machine's limits."""
    arguments = {"model": model, "threads": threads, "inputs": str(folder / "inputs.npz"), "precision": precision}
    rivals = [
        Engine(
            name,
            "benches.rivals.worker:engine",
            {"name": name, "outputs": str(folder / f"{name}.npz"), **arguments},
            required=name == "treadle",
        )
        for name in names
    ]
    limits = [
        Engine(name, "benches.rivals.worker:limit", {"name": name, "threads": threads}, required=True)
        for name in LIMITS
    ]
    return rivals + limits


def compare(
    model: str,
    threads: int,
    names: list[str],
    rounds: int,
    seconds: float,
    precision: str = "f32",
    dims: Mapping[str, int] = NO_DIMS,
) -> dict[str, Any]:
    """Times the engines `names` on one model; the result holds a latency in ns for each.

    `dims` are the sizes of symbolic dimensions, 1 for others.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = random_inputs(model, dims)
        write_inputs(folder / "inputs.npz", inputs)
        with running(engines(names, model, threads, folder, precision)) as processes:
            timings = time_by_turns(processes, rounds, seconds)
        rivals = [process for process in processes if process.name not in LIMITS]
        outputs = {process.name: saved(folder / f"{process.name}.npz") for process in rivals}
    wanted = outputs.get(REFERENCE)
    errors = {name: None if wanted is None else relative_error(found, wanted) for name, found in outputs.items()}
    wrong = wrong_rivals(errors)
    for each in wrong:
        print(f"{each} is not counted: its outputs differ by {errors[each]:.0e}", file=sys.stderr)
    return {
        "model": Path(model).stem,
        "threads": threads,
        "precision": precision,
        "limit_ns": least_ns(model, inputs, work_ns(processes, timings), precision),
        "engines": {
            process.name: {
                **process.ready,
                **timings[process.name].figures(),
                "error": errors[process.name],
            }
            for process in rivals
            if process.name not in wrong
        },
    }


def wrong_rivals(errors: Mapping[str, float | None]) -> list[str]:
    """The engines that compute something else than the model says, by the relative errors of all (None: unknown)."""
    return [
        name
        for name, error in errors.items()
        if name != "treadle" and error is not None and not error <= _LARGEST_RIVAL_ERROR
    ]


def work_ns(processes: list[EngineProcess], timings: dict[str, Timing]) -> dict[str, float]:
    """The time in ns of one operation or byte, by the name of the limit."""
    return {
        process.name: timings[process.name].median_ns / process.ready["work"]
        for process in processes
        if process.name in LIMITS
    }


def least_ns(model: str, inputs: dict[str, Array], ns_each: dict[str, float], precision: str) -> float:
    """The least time in ns that the machine's limits allow for the model.

    In bf16 it is half, since an instruction multiplies twice as many numbers and memory holds twice as many.
    """
    needs = cost(model, {name: array.shape for name, array in inputs.items()})
    share = 0.5 if precision == "bf16" else 1.0
    uncached = max(0.0, share * needs.weights - last_level_cache())
    return max(share * needs.operations * ns_each["fma"], uncached * ns_each["bandwidth"])


def best_ratio(result: dict[str, Any]) -> float:
    """The best rival's latency over treadle's; NaN without rivals."""
    figures = result["engines"]
    rivals = [each["median_ns"] for name, each in figures.items() if name != "treadle"]
    return float(min(rivals, default=float("nan")) / figures["treadle"]["median_ns"])


def row(result: dict[str, Any], names: list[str]) -> list[str]:
    """A row of the table; latencies are those of the rivals `names` over treadle's."""
    figures = result["engines"]
    mine, error = figures["treadle"]["median_ns"], figures["treadle"]["error"]
    return [
        result["model"],
        str(result["threads"]),
        *(f"{figures[name]['median_ns'] / mine:.2f}" if name in figures else "-" for name in names),
        f"{best_ratio(result):.2f}",
        f"{100 * result['limit_ns'] / mine:.0f}",
        "-" if error is None else f"{error:.0e}",
    ]


def main() -> int:
    options = parser(__doc__, rounds=7, seconds=0.4, threads="1,2")
    options.add_argument("models", nargs="*")
    options.add_argument("--group", default="models", choices=build.GROUPS)
    options.add_argument("--precision", default="f32", choices=BY_PRECISION)
    options.add_argument("--dim", action="append", default=[], help="NAME=SIZE of a symbolic dimension; default 1")
    options.add_argument("--engines", help="comma-separated; default: all that take the group")
    arguments = options.parse_args()
    known = BY_PRECISION[arguments.precision]
    names = arguments.engines.split(",") if arguments.engines else list(BY_GROUP.get(arguments.group, known))
    results = []
    dims = {name: int(size) for name, _, size in (given.partition("=") for given in arguments.dim)}
    how = (arguments.rounds, arguments.seconds, arguments.precision, dims)
    rivals = [name for name in names if name != "treadle"]
    print(f"{machine()}; rival's latency / treadle's (above 1: treadle is faster)")
    print_header("model", "threads", *rivals, "best rival", "% of limit", "error")
    for model in arguments.models or build.all_models(arguments.group):
        for threads in arguments.threads:
            results.append(compare(model, threads, names, *how))
            print_row(row(results[-1], rivals))
    for threads in sorted({result["threads"] for result in results}):
        ratios = [best_ratio(result) for result in results if result["threads"] == threads]
        print(f"threads {threads}: geometric mean over the best rival {statistics.geometric_mean(ratios):.2f}")
    write_json(arguments.json, results=results)
    right = [
        is_right(
            result["model"],
            result["engines"]["treadle"]["error"],
            "quantized" if build.is_quantized(result["model"]) else arguments.precision,
        )
        for result in results
    ]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
