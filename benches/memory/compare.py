"""Memory and load time of treadle beside other engines: peak and resident memory, first and later loads.

    python -m benches.memory.compare [MODEL.onnx ...] [--group GROUP] [--rounds 5] [--json FILE]

Without models, a group of `benches.models` is built first. Each engine loads a model and runs it three times in a
process of its own, at two threads; rounds are interleaved. Of each rival the leanest of several settings counts for
memory, the quickest for time. treadle's first load compiles into an empty cache folder, later ones read the artifact
from there. Memory is the highest of the rounds, time the lowest. Engines that are not installed are skipped and named.
Fails if treadle's outputs are far from ONNX Runtime's.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.harness.inputs import random_inputs, write_inputs
from benches.harness.outputs import REFERENCE, is_right, relative_error, saved
from benches.harness.process import Engine, load
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import turn_orders
from benches.memory.engines import ENGINES
from benches.models import build

RIVALS = ("onnxruntime", "openvino")

Figures = dict[str, Any]


def engine(name: str, model: str, folder: Path) -> Engine:
    """Declares the process that measures an engine; treadle's cache and compiled Python lie in `folder`."""
    return Engine(
        name,
        "benches.memory.worker:engine",
        {"name": name, "model": model, "inputs": str(folder / "inputs.npz"), "outputs": str(folder / f"{name}.npz")},
        required=name == "treadle",
        environment={
            "TREADLE_CACHE": str(folder / "cache"),
            "PYTHONPYCACHEPREFIX": str(folder / "python"),
            "PYTHONDONTWRITEBYTECODE": "",
        },
    )


def compare(model: str, rounds: int) -> Figures:
    """Measures all engines on one model and returns the figures of every round; `treadle, first` is the first load."""
    found: dict[str, list[Figures]] = {}

    def measure(label: str, declared: Engine) -> None:
        figures = load(declared)
        if figures is not None:
            found.setdefault(label, []).append(figures)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder / "inputs.npz", random_inputs(model))
        declared = [engine(name, model, folder) for name in ENGINES]
        installed = [each for each in declared if load(each) is not None]  # this load also compiles the engine's Python
        mine = next(each for each in installed if each.name == "treadle")
        for order in turn_orders(installed, rounds):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            measure("treadle, first", mine)
            for each in order:
                measure(each.name, each)
        reference = folder / f"{REFERENCE}.npz"
        error = relative_error(saved(folder / "treadle.npz"), saved(reference)) if reference.exists() else None
        right = is_right(model, error, "quantized" if build.is_quantized(model) else "f32")
    return {"model": Path(model).stem, "bytes": Path(model).stat().st_size, "engines": found, "right": right}


def highest(found: list[Figures], field: str) -> float:
    return float(max(each[field] for each in found))


def lowest(found: list[Figures], *fields: str) -> float:
    """The lowest sum of `fields` of the rounds."""
    return float(min(sum(each[field] for field in fields) for each in found))


def leanest(engines: dict[str, list[Figures]], rival: str, figure: Any) -> float:
    """The lowest `figure` of the settings of `rival`; NaN if it is not installed."""
    own = [found for name, found in engines.items() if name.split(",")[0] == rival]
    return min(map(figure, own), default=float("nan"))


def row(result: Figures) -> list[str]:
    """A row of the table of peaks and loads."""
    engines = result["engines"]
    mine, first = engines["treadle"], engines["treadle, first"]

    def cells(figure: Any) -> list[str]:
        return [f"{value:.0f}" for value in (figure(mine), *(leanest(engines, rival, figure) for rival in RIVALS))]

    together = max(max(each["peak"], each["imports"] + each["helper"]) for each in first)
    seconds = (lowest(first, "import_seconds", "load_seconds"), lowest(first, "import_cpu_seconds", "load_cpu_seconds"))
    return [
        result["model"],
        f"{result['bytes'] * 1e-6:.0f}",
        *cells(lambda found: highest(found, "peak")),
        *cells(lambda found: 1e3 * lowest(found, "load_seconds")),
        *cells(lambda found: 1e3 * lowest(found, "import_seconds", "load_seconds")),
        *cells(lambda found: 1e3 * lowest(found, "import_cpu_seconds", "load_cpu_seconds")),
        *(f"{highest(first, 'peak'):.0f}", f"{together:.0f}", f"{seconds[0]:.2f}", f"{seconds[1]:.2f}"),
    ]


def share_row(result: Figures) -> list[str]:
    """A row of the table of the parts of treadle's memory."""
    found = result["engines"]["treadle"][0]
    steps = (found["interpreter"], found["numpy"] - found["interpreter"], found["imports"] - found["numpy"])
    parts = found["shares"]
    rest = found["after"] - found["imports"] - parts["constants"] - parts["arena"] - parts["code"]
    intermediates = result["engines"]["treadle, first"][0]["shares"]["intermediates"]
    numbers = (*steps, parts["constants"], parts["arena"], parts["code"], rest, found["after"], intermediates)
    return [result["model"], *(f"{number:.1f}" for number in numbers)]


def main() -> int:
    options = parser(__doc__, rounds=5)
    options.add_argument("models", nargs="*")
    options.add_argument("--group", default="models", choices=build.GROUPS)
    arguments = options.parse_args()
    results = []
    print(f"{machine()}, Python {platform.python_version()}; MB (10^6 bytes) and ms")
    others = ("ONNX Runtime", "OpenVINO")
    print_header(
        *("model", "file", "peak: treadle", *others, "load: treadle", *others, "import + load: treadle", *others),
        *("CPU time of both: treadle", *others, "first load of treadle with import: peak"),
        *("with the process that compiles", "s", "s of CPU time"),
    )
    for model in arguments.models or build.all_models(arguments.group):
        results.append(compare(str(model), arguments.rounds))
        print_row(row(results[-1]))
    print()
    print_header(
        *("treadle's memory: model", "interpreter", "numpy", "imports", "constants", "arena", "code", "rest", "all"),
        "arena without reuse",
    )
    for result in results:
        if "shares" in result["engines"]["treadle"][0]:
            print_row(share_row(result))
    versions = {name: found[0]["version"] for name, found in results[0]["engines"].items() if "," not in name}
    print("\n" + ", ".join(f"{name} {version}" for name, version in versions.items()))
    write_json(arguments.json, versions=versions, results=results)
    return 0 if all(result["right"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
