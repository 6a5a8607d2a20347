"""Memory and load time of treadle beside other engines: peak and resident memory, first and later loads.

    python -m benches.memory.compare [MODEL.onnx ...] [--rounds 5] [--json FILE]

Without models, those of `benches.models` are built first. Each engine loads a model and runs it three times in a process
of its own, at two threads; rounds are interleaved. Of each rival the leanest of several settings counts for memory, the
quickest for time. treadle's first load compiles into an empty cache folder, later ones find the compiled form there.
Memory is the highest of the rounds, time the lowest. Engines that are not installed are skipped and named. Fails if
treadle's outputs are far from ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.harness.outputs import is_right, relative_error, saved
from benches.memory.engines import ENGINES
from benches.models import build
from benches.rivals.compare import REFERENCE, cpu_name, random_inputs, write_inputs

WORKER = Path(__file__).with_name("worker.py")
RIVALS = ("onnxruntime", "openvino")

Figures = dict[str, Any]


def measure(engine: str, model: str, inputs: Path, folder: Path) -> Figures:
    """What one process of `engine` measures; treadle's cache, and everybody's compiled Python, lie in `folder`."""
    command = [sys.executable, str(WORKER), engine, model, str(inputs), str(folder / f"{engine}.npz")]
    environment = os.environ | {"TREADLE_CACHE": str(folder / "cache"), "PYTHONPYCACHEPREFIX": str(folder / "python")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise RuntimeError(f"{engine} on {model}: {result.stderr[-2000:]}")
    figures: Figures = json.loads(result.stdout.splitlines()[-1])
    return figures


def compare(model: str, rounds: int) -> Figures:
    """All engines on one model: for each the figures of every round; `treadle, first` is the load that compiles."""
    found: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, inputs = Path(name), Path(name) / "inputs.npz"
        write_inputs(inputs, random_inputs(model))
        for engine in ENGINES:  # each compiles its Python
            measure(engine, model, inputs, folder)
        for round_ in range(rounds):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            found.setdefault("treadle, first", []).append(measure("treadle", model, inputs, folder))
            order = list(ENGINES) if round_ % 2 else list(ENGINES)[::-1]
            for engine in order:
                found.setdefault(engine, []).append(measure(engine, model, inputs, folder))
        reference = folder / f"{REFERENCE}.npz"
        error = relative_error(saved(folder / "treadle.npz"), saved(reference)) if reference.exists() else None
        right = is_right(model, error)
    return {"model": Path(model).stem, "bytes": Path(model).stat().st_size, "engines": found, "right": right}


def highest(found: list[Figures], field: str) -> float:
    return float(max(each[field] for each in found))


def lowest(found: list[Figures], *fields: str) -> float:
    """The lowest sum of `fields` of the rounds."""
    return float(min(sum(each[field] for field in fields) for each in found))


def leanest(engines: dict[str, list[Figures]], rival: str, figure: Any) -> float:
    """The lowest `figure` of the settings of `rival`; NaN if it is not installed."""
    own = [found for name, found in engines.items() if name.split(",")[0] == rival and "missing" not in found[0]]
    return min(map(figure, own), default=float("nan"))


def row(result: Figures) -> str:
    """One line of the table of peaks and loads."""
    engines = result["engines"]
    mine, first = engines["treadle"], engines["treadle, first"]

    def cells(figure: Any, digits: int) -> str:
        own = figure(mine)
        rivals = [leanest(engines, rival, figure) for rival in RIVALS]
        return " | ".join(f"{value:.{digits}f}" for value in (own, *rivals))

    peaks = cells(lambda found: highest(found, "peak"), 0)
    loads = cells(lambda found: 1e3 * lowest(found, "load_seconds"), 0)
    totals = cells(lambda found: 1e3 * lowest(found, "import_seconds", "load_seconds"), 0)
    busy = cells(lambda found: 1e3 * lowest(found, "import_cpu_seconds", "load_cpu_seconds"), 0)
    together = max(max(each["peak"], each["imports"] + each["helper"]) for each in first)
    seconds = (lowest(first, "import_seconds", "load_seconds"), lowest(first, "import_cpu_seconds", "load_cpu_seconds"))
    cold = f"{highest(first, 'peak'):.0f} | {together:.0f} | {seconds[0]:.2f} | {seconds[1]:.2f}"
    return f"| {result['model']} | {result['bytes'] * 1e-6:.0f} | {peaks} | {loads} | {totals} | {busy} | {cold} |"


def share_row(result: Figures) -> str:
    """One line of the table that says what treadle's memory consists of."""
    found = result["engines"]["treadle"][0]
    steps = (found["interpreter"], found["numpy"] - found["interpreter"], found["imports"] - found["numpy"])
    parts = found["shares"]
    rest = found["after"] - found["imports"] - parts["constants"] - parts["arena"] - parts["code"]
    intermediates = result["engines"]["treadle, first"][0]["shares"]["intermediates"]
    numbers = (*steps, parts["constants"], parts["arena"], parts["code"], rest, found["after"], intermediates)
    return f"| {result['model']} | {' | '.join(f'{number:.1f}' for number in numbers)} |"


def table(titles: str) -> None:
    print(f"| {titles} |")
    print(f"|{' --- |' * (titles.count('|') + 1)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = []
    print(f"{cpu_name()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; MB (10^6 bytes) and ms")
    table(
        "model | file | peak: treadle | ONNX Runtime | OpenVINO | load: treadle | ONNX Runtime | OpenVINO "
        "| import + load: treadle | ONNX Runtime | OpenVINO | CPU time of both: treadle | ONNX Runtime | OpenVINO "
        "| first load of treadle with import: peak | with the process that compiles | s | s of CPU time"
    )
    for model in arguments.models or build.all_models():
        results.append(compare(str(model), arguments.rounds))
        print(row(results[-1]), flush=True)
    print()
    table(
        "treadle's memory: model | interpreter | numpy | imports | constants | arena | code | rest | all | arena without reuse"
    )
    for result in results:
        print(share_row(result))
    versions = {name.split(",")[0]: found[0].get("version") for name, found in results[0]["engines"].items()}
    print("\n" + ", ".join(f"{name} {version or 'is not installed'}" for name, version in versions.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpu": cpu_name(), "versions": versions, "results": results}, indent=1))
    return 0 if all(result["right"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
