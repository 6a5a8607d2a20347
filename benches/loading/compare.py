"""First and later loads of models with open dimensions beside those of the same models with fixed sizes.

    python -m benches.loading.compare [MODEL.onnx ...] [--sizes batch=2,length=64] [--threads 1] [--rounds 5]
        [--without-imports] [--baseline SECONDS.json] [--json FILE]

Without models, those of `benches.models` with open dimensions are built first. A copy of each model gets numbers for
its open dimensions: those of --sizes by name, else usual ones, else 64. Each load is a process of its own. In a round
each form of the model is loaded with an empty cache folder, then again; rounds are interleaved. Times are medians, in
ms, of the import and the load, and of CPU time, which the process that compiles is part of. `open / fixed` is the ratio
of the medians. With --baseline, the figures that an older version wrote with --json, `open / fixed then` divides by its
fixed ones. With --without-imports the table has the least CPU times of loads in processes that have imported all
modules before and compile themselves, and a last line with the greatest ratios.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import onnx

from benches.harness.process import Engine, load
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import turn_orders
from benches.models import build

USUAL_SIZES = {
    **dict.fromkeys(("b", "batch"), 1),
    **dict.fromkeys(("h", "w", "height", "width"), 128),
    "t": 16000,
}
"""Sizes of dimensions that --sizes does not name: one image of 128 x 128, one second of sound."""

USUAL_SIZE = 64
"""The size of other dimensions."""

FORMS = ("open", "fixed")
LOADS = ("first", "later")

Figures = dict[str, Any]


def fix(source: str, target: Path, sizes: Mapping[str, int]) -> None:
    """Writes the model `source` to `target` with numbers for the open dimensions of its inputs."""
    model = onnx.load(source)
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.dim_value = sizes.get(dim.dim_param, USUAL_SIZES.get(dim.dim_param, USUAL_SIZE))
    for value in (*model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.Clear()
    onnx.save(model, target)


def compare(model: str, sizes: Mapping[str, int], threads: int, rounds: int, *, imports: bool = True) -> dict[str, Any]:
    """Loads both forms of a model by turns; returns the figures of every round, by form and load.

    Without `imports`, all modules are imported before a load, and the process compiles itself.
    """
    here = {} if imports else {"TREADLE_OUT_OF_PROCESS": "off"}
    found: dict[str, dict[str, list[Figures]]] = {form: {each: [] for each in LOADS} for form in FORMS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fix(model, folder / "fixed.onnx", sizes)
        engines = [
            Engine(
                form,
                "benches.loading.worker:session",
                {"model": path, "threads": threads, "imports": imports},
                required=True,
                environment={"TREADLE_CACHE": str(folder / form), **here},
            )
            for form, path in zip(FORMS, (model, str(folder / "fixed.onnx")), strict=True)
        ]
        for engine in engines:
            load(engine)  # compiles treadle's Python, and has the file in memory
        for order in turn_orders(engines, rounds):
            for engine in order:
                shutil.rmtree(folder / engine.name, ignore_errors=True)
                for each in LOADS:
                    figures = load(engine)
                    assert figures is not None, "a required engine loads"
                    found[engine.name][each].append(figures)
    return {"model": Path(model).stem, "threads": threads, "forms": found}


def milliseconds(result: Mapping[str, Any], form: str, each: str, cpu: str = "") -> float:
    """The median over rounds of import and load."""
    rounds = result["forms"][form][each]
    return float(1e3 * statistics.median(one[f"import_{cpu}seconds"] + one[f"load_{cpu}seconds"] for one in rounds))


def row(result: Mapping[str, Any], then: Mapping[str, Any] | None) -> list[str]:
    """A row of the table; `then` are the figures of an older version."""
    cells = [result["model"], str(result["threads"])]
    for each, cpu in product(LOADS, ("", "cpu_")):
        opened, fixed = (milliseconds(result, form, each, cpu) for form in FORMS)
        cells += [f"{opened:.0f}", f"{fixed:.0f}", f"{opened / fixed:.2f}"]
        if then is not None:
            cells.append(f"{opened / milliseconds(then, 'fixed', each, cpu):.2f}")
    return cells


def without_imports(result: Mapping[str, Any], form: str, each: str) -> float:
    """The least CPU time over rounds of a load, in ms."""
    return float(1e3 * min(one["load_cpu_seconds"] for one in result["forms"][form][each]))


def ratios(result: Mapping[str, Any]) -> list[float]:
    """CPU times of first and later loads without imports, each of the open model over that of the fixed one."""
    times = [[without_imports(result, form, each) for form in FORMS] for each in LOADS]
    return [opened / fixed for opened, fixed in times]


def compare_without_imports(models: Sequence[str], arguments: Namespace) -> list[dict[str, Any]]:
    """Prints the table of --without-imports; returns the figures of all models."""
    print(f"{machine()}; ms of CPU time of the load, without imports")
    print_header("model", "threads", *(f"{each} load: {what}" for each in LOADS for what in (*FORMS, "open / fixed")))
    results = []
    for model, threads in product(models, arguments.threads):
        result = compare(model, arguments.sizes, threads, arguments.rounds, imports=False)
        cells = [result["model"], str(threads)]
        for each, ratio in zip(LOADS, ratios(result), strict=True):
            cells += [f"{without_imports(result, form, each):.0f}" for form in FORMS] + [f"{ratio:.2f}"]
        print_row(cells)
        results.append(result)
    greatest = [max(column) for column in zip(*map(ratios, results), strict=True)]
    print_row(["greatest", "", "", "", f"{greatest[0]:.2f}", "", "", f"{greatest[1]:.2f}"])
    return results


def sizes_of(text: str) -> dict[str, int]:
    """Parses `name=number` pairs separated by commas."""
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split(",") if pair)}


def main() -> int:
    options = parser(__doc__, rounds=5, threads="1")
    options.add_argument("models", nargs="*")
    options.add_argument("--sizes", type=sizes_of, default={}, help="sizes of open dimensions, by name")
    options.add_argument("--baseline", type=Path, help="what an older version wrote with --json")
    options.add_argument("--without-imports", action="store_true", help="CPU time of loads after all imports")
    arguments = options.parse_args()
    models = [str(model) for model in arguments.models or build.all_models("open")]
    if arguments.without_imports:
        write_json(arguments.json, results=compare_without_imports(models, arguments))
        return 0
    old = json.loads(arguments.baseline.read_text())["results"] if arguments.baseline else []
    baseline = {(one["model"], one["threads"]): one for one in old}
    print(f"{machine()}; ms of import and load")
    columns = ["model", "threads"]
    for each, what in product(LOADS, ("", "CPU time of the ")):
        columns += [f"{what}{each} load: open", "fixed", "open / fixed", *(["open / fixed then"] if old else [])]
    print_header(*columns)
    results = []
    for model, threads in product(models, arguments.threads):
        results.append(compare(model, arguments.sizes, threads, arguments.rounds))
        print_row(row(results[-1], baseline.get((results[-1]["model"], threads)) if old else None))
    write_json(arguments.json, results=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
