"""Loops with small bodies beside ONNX Runtime: what an iteration costs beside the kernels of its body.

    python -m benches.loops.compare [--iterations N] [--tensorflow PYTHON] [--rounds N] [--seconds S] [--threads N,...]
                                    [--json FILE]

Each engine has a process of its own for each model, and the processes take turns. `Loop` and `Scan` run the body;
`nodes` is the same computation without a loop: the body's nodes once for each iteration. The difference of the two
latencies is what the loop costs. `list` appends to a list of tensors, `stacked` stacks in a loop without a limit, and
`growing` carries a value that is one row longer after each iteration. `while` is the Loop with a condition that every
iteration computes. `recurrent` is a dynamic recurrent network of TensorFlow: a while loop over TensorArrays, also in
TensorFlow itself, beside the same network as a Scan in ONNX Runtime. The items of the list that `uneven` writes differ
in size, `popped` takes items from the end of a list. PYTHON is an interpreter with
TensorFlow; without it these rows are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benches.harness.process import ROOT, Engine, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import time_by_turns
from benches.loops import recurrent
from benches.loops.models import SIZE, models, recurrent_scan

ENGINES = ("treadle", "onnxruntime", "tensorflow")


def engines(name: str, folder: str, threads: int, python: str) -> list[Engine]:
    """The engines for the model `name`, whose files are in `folder`."""
    inputs = str(Path(folder, f"{name}.npz"))
    onnx_model = str(Path(folder, f"{name}.onnx"))
    frozen = str(Path(folder, f"{name}.pb"))
    found = []
    for engine in ENGINES:
        common = {"threads": threads, "inputs": inputs, "outputs": str(Path(folder, f"{name}.{engine}.npz"))}
        if engine == "tensorflow":
            if name in recurrent.NAMES:
                factory = "benches.loops.recurrent:tensorflow"
                found.append(Engine(engine, factory, {**common, "model": frozen}, python=python))
            continue
        if engine == "onnxruntime" and not Path(onnx_model).exists():
            continue
        model = frozen if name in recurrent.NAMES and engine == "treadle" else onnx_model
        arguments = {**common, "name": engine, "model": model, "precision": "f32"}
        found.append(Engine(engine, "benches.rivals.worker:engine", arguments, required=engine == "treadle"))
    return found


def freeze(name: str, folder: str, iterations: int, python: str) -> bool:
    """Writes the frozen graph of a network to `folder`; False if that interpreter has no TensorFlow."""
    path = str(Path(folder, f"{name}.pb"))
    command = [python, "-m", "benches.loops.recurrent", name, path, str(iterations)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def difference(name: str, folder: str, measured: Sequence[str]) -> float:
    """The largest difference between the last outputs of treadle and those of other engines."""
    last: dict[str, np.ndarray] = {}
    for engine in measured:
        with np.load(Path(folder, f"{name}.{engine}.npz")) as stored:
            last[engine] = stored[stored.files[-1]]
    return max((float(np.abs(last["treadle"] - array).max()) for array in last.values()), default=0.0)


def cells(found: Mapping[str, float]) -> list[str]:
    """The columns of a row: each engine's latency, and the least of the others over treadle's."""
    others = [latency for engine, latency in found.items() if engine != "treadle"]
    ratio = f"{min(others) / found['treadle']:.2f}" if others else ""
    return [*(f"{found[engine]:.2f}" if engine in found else "" for engine in ENGINES), ratio]


def main() -> None:
    options = parser(__doc__, rounds=5, seconds=0.3, threads="1,2")
    options.add_argument("--iterations", type=int, default=1000)
    options.add_argument("--tensorflow", default=sys.executable, metavar="PYTHON")
    arguments = options.parse_args()
    iterations: int = arguments.iterations
    results: dict[str, dict[str, float]] = {}
    print(f"{machine()}; {iterations} iterations, us an iteration")
    print_header("threads", "model", *ENGINES, "ratio", "difference")
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(1)
        feeds = {"x": rng.standard_normal((1, SIZE)).astype(np.float32)}
        names = list(models(iterations))
        for name, model in models(iterations).items():
            Path(folder, f"{name}.onnx").write_bytes(model.SerializeToString())
            given = feeds | ({"xs": np.zeros((iterations, 1, SIZE), np.float32)} if name == "Scan" else {})
            np.savez(Path(folder, f"{name}.npz"), allow_pickle=False, **given)
        for name in recurrent.NAMES:
            if freeze(name, folder, iterations, arguments.tensorflow):
                names.append(name)
                x = rng.standard_normal((iterations, 1, recurrent.SIZE)).astype(np.float32)
                np.savez(Path(folder, f"{name}.npz"), allow_pickle=False, x=x)
        Path(folder, "recurrent.onnx").write_bytes(recurrent_scan(iterations).SerializeToString())
        for threads in arguments.threads:
            for name in names:
                with running(engines(name, folder, threads, arguments.tensorflow)) as processes:
                    timings = time_by_turns(processes, arguments.rounds, arguments.seconds)
                found = {engine: timing.median_ns / iterations / 1000 for engine, timing in timings.items()}
                results[f"{name}, {threads} threads"] = found
                print_row([threads, name, *cells(found), f"{difference(name, folder, list(found)):.1e}"])
    write_json(arguments.json, iterations=iterations, us_per_iteration=results)


if __name__ == "__main__":
    main()
