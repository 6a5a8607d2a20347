"""First and later loads of models with open dimensions beside those of the same models with fixed sizes.

    python -m benches.loading.compare [MODEL.onnx ...] [--sizes batch=2,length=64] [--threads 1] [--rounds 5]
        [--without-imports] [--old CHECKOUT] [--json FILE]

Without models, those of `benches.models` with open dimensions are built first. A copy of each model gets numbers for
its open dimensions: those of --sizes by name, else usual ones, else 64. Each load is a process of its own. In a round
each form of the model is loaded with an empty cache folder, then again; rounds are interleaved. Times are medians, in
ms, of the import and the load, and of CPU time, which the process that compiles is part of. `open / fixed` is the ratio
of the medians. With --old, a checkout of an older version with an installation of its own in .venv, it loads the copy
too, as the form `fixed then`. With --without-imports the table has the least CPU times of loads in processes that have
imported all modules before and compile themselves, and a last line with the greatest ratios.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
OLD = "fixed then"
"""The form that an older version loads."""

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


def compare(
    model: str,
    sizes: Mapping[str, int],
    threads: int,
    rounds: int,
    *,
    imports: bool = True,
    old: Path | None = None,
) -> dict[str, Any]:
    """Loads the forms of a model by turns; returns the figures of every round, by form and load.

    Without `imports`, all modules are imported before a load, and the process compiles itself. `old` is the checkout of
    an older version.
    """
    here = {} if imports else {"TREADLE_OUT_OF_PROCESS": "off"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fixed = str(folder / "fixed.onnx")
        fix(model, Path(fixed), sizes)
        forms = [("open", model, sys.executable), ("fixed", fixed, sys.executable)]
        if old is not None:
            forms.append((OLD, fixed, str(old.resolve() / ".venv" / "bin" / "python")))
        engines = [
            Engine(
                form,
                "benches.loading.worker:session",
                {"model": path, "threads": threads, "imports": imports},
                required=True,
                environment={"TREADLE_CACHE": str(folder / form), **here},
                python=python,
            )
            for form, path, python in forms
        ]
        for engine in engines:
            load(engine)  # compiles treadle's Python, and has the file in memory
        found: dict[str, dict[str, list[Figures]]] = {form: {each: [] for each in LOADS} for form, _, _ in forms}
        for order in turn_orders(engines, rounds):
            for engine in order:
                shutil.rmtree(folder / engine.name, ignore_errors=True)
                for each in LOADS:
                    figures = load(engine)
                    assert figures is not None, "a required engine loads"
                    found[engine.name][each].append(figures)
    return {"model": Path(model).stem, "threads": threads, "forms": found}


def columns(forms: Sequence[str], prefix: str) -> list[str]:
    """The title of each column that `cells` fills."""
    return [f"{prefix}{forms[0]}", *forms[1:], *(f"{forms[0]} / {form}" for form in forms[1:])]


def cells(times: Sequence[float]) -> list[str]:
    """The times of all forms in ms, then the ratios of the first to each other one."""
    return [f"{each:.0f}" for each in times] + [f"{times[0] / each:.2f}" for each in times[1:]]


def milliseconds(result: Mapping[str, Any], form: str, each: str, cpu: str = "") -> float:
    """The median over rounds of import and load."""
    rounds = result["forms"][form][each]
    return float(1e3 * statistics.median(one[f"import_{cpu}seconds"] + one[f"load_{cpu}seconds"] for one in rounds))


def without_imports(result: Mapping[str, Any], form: str, each: str) -> float:
    """The least CPU time over rounds of a load, in ms."""
    return float(1e3 * min(one["load_cpu_seconds"] for one in result["forms"][form][each]))


def row(result: Mapping[str, Any], *, imports: bool) -> list[str]:
    """A row of the table; without `imports`, of that of --without-imports."""
    found = [result["model"], str(result["threads"])]
    figures: list[Callable[[str, str], float]] = [partial(without_imports, result)]
    if imports:
        figures = [partial(milliseconds, result, cpu=cpu) for cpu in ("", "cpu_")]
    for each, figure in product(LOADS, figures):
        found += cells([figure(form, each) for form in result["forms"]])
    return found


def ratios(result: Mapping[str, Any], each: str) -> list[float]:
    """CPU times of loads without imports: that of the open model over that of each other form."""
    times = [without_imports(result, form, each) for form in result["forms"]]
    return [times[0] / other for other in times[1:]]


def greatest(results: Sequence[Mapping[str, Any]], forms: Sequence[str]) -> list[str]:
    """The last row of the table of --without-imports: the greatest ratios."""
    found = ["greatest", ""]
    for each in LOADS:
        found += [""] * len(forms)
        found += [f"{max(column):.2f}" for column in zip(*(ratios(one, each) for one in results), strict=True)]
    return found


def sizes_of(text: str) -> dict[str, int]:
    """Parses `name=number` pairs separated by commas."""
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split(",") if pair)}


def main() -> int:
    options = parser(__doc__, rounds=5, threads="1")
    options.add_argument("models", nargs="*")
    options.add_argument("--sizes", type=sizes_of, default={}, help="sizes of open dimensions, by name")
    options.add_argument("--old", type=Path, help="a checkout of an older version, with its .venv")
    options.add_argument("--without-imports", action="store_true", help="CPU time of loads after all imports")
    arguments = options.parse_args()
    models = [str(model) for model in arguments.models or build.all_models("open")]
    imports = not arguments.without_imports
    forms = [*FORMS, OLD] if arguments.old else FORMS
    what = "ms of import and load" if imports else "ms of CPU time of the load, without imports"
    print(f"{machine()}; {what}")
    titles = ["model", "threads"]
    for each, cpu in product(LOADS, ("", "CPU time of the ") if imports else ("",)):
        titles += columns(forms, f"{cpu}{each} load: ")
    print_header(*titles)
    results = []
    for model, threads in product(models, arguments.threads):
        result = compare(model, arguments.sizes, threads, arguments.rounds, imports=imports, old=arguments.old)
        print_row(row(result, imports=imports))
        results.append(result)
    if not imports:
        print_row(greatest(results, forms))
    write_json(arguments.json, results=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
