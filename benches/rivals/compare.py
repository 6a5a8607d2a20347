"""Times treadle beside other engines on the same models in one interleaved run.

    python -m benches.rivals.compare [MODEL.onnx ...] [--group GROUP] [--precision f32|bf16] [--threads 1,2] [--rounds 7]
        [--seconds 0.4] [--json FILE]

Without models, a group of `benches.models` is built first. Each engine runs in a process of its own; rounds
are interleaved; the processes of engines that are not being timed are stopped, so that a spinning pool cannot
disturb. The figure of an engine is the median over rounds of the round's median latency. Outputs are compared
with ONNX Runtime's; it ends with 1 if treadle's are farther from these than LARGEST_ERROR. Engines that are not installed
are skipped and named. The machine's FMA and memory limits are timed in the same rounds: `% of limit` is the least time
that they leave for the model's multiply-adds (done directly; four of bytes at once) or for reading its weights, where no
cache holds them, over treadle's time; Winograd's fewer operations can exceed 100.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benches.harness.outputs import is_right, relative_error, saved
from benches.models import build
from benches.models.cost import cost
from benches.rivals.engines import BY_GROUP, BY_PRECISION
from benches.rivals.limits import LIMITS, last_level_cache
from benches.rivals.process import EngineProcess, open_process

WORKER = Path(__file__).with_name("worker.py")
REFERENCE = "onnxruntime"


@dataclass(slots=True)
class Engine(EngineProcess):
    """An engine and what was measured of it."""

    outputs: Path
    version: str = ""
    load_seconds: float = 0.0
    work: float = 0.0
    medians: list[float] = field(default_factory=list)

    def time(self, seconds: float) -> None:
        """One round of `seconds`."""
        self.medians.append(statistics.median(self.ask(f"{seconds}")))


def random_inputs(model: str) -> dict[str, np.ndarray[Any, Any]]:
    """Seeded inputs of the declared shapes; symbolic dimensions are 1, integers are small."""
    rng = np.random.default_rng(0)
    graph = onnx.load(model, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = {}
    for value in graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value or 1 for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            inputs[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            inputs[value.name] = rng.integers(0, 100, shape).astype(dtype)
    return inputs


def start(name: str, model: str, threads: int, inputs: Path, folder: Path, precision: str = "f32") -> Engine | None:
    """Start an engine and wait until it has run once; None if it is not installed."""
    outputs = folder / f"{name}.npz"
    command = [sys.executable, str(WORKER), name, model, str(threads), str(inputs), str(outputs), precision]
    engine = Engine(name, open_process(command), outputs)
    answer = engine.first_answer()
    if answer is None:
        return None
    engine.version = answer["ready"]
    engine.load_seconds = answer.get("load_seconds", 0.0)
    engine.work = answer.get("work", 0.0)
    return engine


def compare(
    model: str, threads: int, names: list[str], rounds: int, seconds: float, precision: str = "f32"
) -> dict[str, Any]:
    """Time the engines `names` on one model; the result holds a latency in ns for each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = folder / "inputs.npz"
        given = random_inputs(model)
        write_inputs(inputs, given)
        engines: list[Engine] = []
        try:
            for engine_name in (*names, *LIMITS):
                engine = start(engine_name, model, threads, inputs, folder, precision)
                if engine is not None:
                    engines.append(engine)
            for round_ in range(rounds + 1):
                order = engines if round_ % 2 else engines[::-1]
                for engine in order:
                    engine.time(seconds)
            result: dict[str, Any] = {
                "model": Path(model).stem,
                "threads": threads,
                "precision": precision,
                "engines": {},
            }
            reference = next((engine for engine in engines if engine.name == REFERENCE), None)
            limits = {engine.name: engine for engine in engines if engine.name in LIMITS}
            result["limit_ns"] = least_ns(model, given, limits, precision)
            for engine in engines:
                if engine.name in LIMITS:
                    continue
                result["engines"][engine.name] = {
                    "version": engine.version,
                    "load_seconds": engine.load_seconds,
                    "median_ns": statistics.median(engine.medians[1:]),
                    "round_medians_ns": engine.medians[1:],
                    "error": relative_error(saved(engine.outputs), saved(reference.outputs)) if reference else None,
                }
            return result
        finally:
            for engine in engines:
                engine.close()


def write_inputs(path: Path, inputs: dict[str, np.ndarray[Any, Any]]) -> None:
    """Leave `inputs` where workers read them, by name."""
    arrays: dict[str, Any] = dict(inputs)
    np.savez(path, **arrays)


def least_ns(model: str, inputs: dict[str, np.ndarray[Any, Any]], limits: dict[str, Engine], precision: str) -> float:
    """The time that the machine needs for the model at least, in ns, by the limits timed: half in bf16, of which
    instructions multiply twice as many and memory holds twice as many.
    """
    needs = cost(model, {name: array.shape for name, array in inputs.items()})
    ns_each = {name: statistics.median(engine.medians[1:]) / engine.work for name, engine in limits.items()}
    share = 0.5 if precision == "bf16" else 1.0
    uncached = max(0.0, share * needs.weights - last_level_cache())
    return max(share * needs.operations * ns_each["fma"], uncached * ns_each["bandwidth"])


def best_ratio(result: dict[str, Any]) -> float:
    """The best rival's latency over treadle's; NaN without rivals."""
    engines = result["engines"]
    rivals = [figures["median_ns"] for name, figures in engines.items() if name != "treadle"]
    return float(min(rivals, default=float("nan")) / engines["treadle"]["median_ns"])


def row(result: dict[str, Any], names: list[str]) -> str:
    """A table row: each rival's latency, in the order of `names`, over treadle's (above 1: treadle is faster), the best rival's,
    treadle's share of the machine's limit and error.
    """
    engines = result["engines"]
    mine = engines["treadle"]["median_ns"]
    rivals = {name: figures["median_ns"] / mine for name, figures in engines.items() if name != "treadle"}
    cells = [f"{rivals[name]:.2f}" if name in rivals else "-" for name in names]
    error = engines["treadle"]["error"]
    tail = (
        f"{best_ratio(result):.2f} | {100 * result['limit_ns'] / mine:.0f} | {'-' if error is None else f'{error:.0e}'}"
    )
    return f"| {result['model']} | {result['threads']} | {' | '.join(cells)} | {tail} |"


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--group", default="models", choices=build.GROUPS)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--precision", default="f32", choices=BY_PRECISION)
    parser.add_argument("--engines", help="comma-separated; default: all that take the group")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    models = arguments.models or build.all_models(arguments.group)
    known = BY_PRECISION[arguments.precision]
    names = arguments.engines.split(",") if arguments.engines else list(BY_GROUP.get(arguments.group, known))
    kind = "quantized" if arguments.group == "quantized" else arguments.precision
    results = []
    rivals = [name for name in names if name != "treadle"]
    print(f"{cpu_name()}, {os.cpu_count()} CPUs; rival's latency / treadle's (above 1: treadle is faster)")
    print(f"| model | threads | {' | '.join(rivals)} | best rival | % of limit | error |")
    print(f"| --- | --- | {' | '.join('---' for _ in rivals)} | --- | --- | --- |")
    for model in models:
        for threads in map(int, arguments.threads.split(",")):
            results.append(compare(model, threads, names, arguments.rounds, arguments.seconds, arguments.precision))
            print(row(results[-1], rivals), flush=True)
    for threads in sorted({result["threads"] for result in results}):
        ratios = [best_ratio(result) for result in results if result["threads"] == threads]
        print(f"threads {threads}: geometric mean over the best rival {statistics.geometric_mean(ratios):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpu": cpu_name(), "results": results}, indent=1))
    right = [is_right(result["model"], result["engines"]["treadle"]["error"], kind) for result in results]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
