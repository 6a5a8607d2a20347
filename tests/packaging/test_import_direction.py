"""Imports go one way: from the command line down to the errors."""

from __future__ import annotations

import sys
from graphlib import TopologicalSorter

import pytest

from tests.packaging.sources import ROOT, dependencies, imports, modules

LAYERS: list[set[str]] = [
    {"cli", "ort"},
    {"tune", "compare", "convert", "compile_more"},
    {"compat"},
    {"compile"},
    {"state_forms", "model_forms", "written_forms"},
    {"model_compiler"},
    {"compile_settings", "padded_plans", "tuned_limits"},
    {"form_plans"},
    {"open_plans"},
    {"plan_store"},
    {"driver"},
    {"compiled_plans"},
    {"frontends", "passes", "codegen"},
    {"ops"},
    {"plan", "runtime"},
    {"graph", "tracing"},
    {"lru", "garbage"},
    {"knobs", "forking", "provider"},
    {"dtypes", "optimisations", "scarce_memory"},
    {"records"},
    {"errors", "immutable"},
]
"""From top to bottom. A module imports its own part and parts of lower layers, nothing beside or above."""

RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}

CONFINED = {
    "re2": ("treadle.frontends.onnx",),
    "onnx": ("treadle.frontends.onnx", "treadle.compat.onnx_backend"),
    "google": ("treadle.frontends.onnx", "treadle.frontends.tensorflow"),
    "cloudpickle": ("treadle.runtime.python_ops",),
    "llvmlite": ("treadle.codegen",),
    "click": ("treadle.cli",),
    "rich": ("treadle.cli",),
    "torch": ("treadle.frontends.torch", "treadle.compat.dynamo"),
    "treadle._native": (
        "treadle.codegen.artifact",
        "treadle.compiled_plans",
        "treadle.driver",
        "treadle.graph.mapping",
        "treadle.padded_plans",
        "treadle.passes.lower.searches",
        "treadle.plan_store",
        "treadle.runtime",
        "treadle.tracing",
    ),
}
"""Libraries, and the native core, that only the named parts of treadle may import."""

WITHOUT_NUMPY = ("treadle.codegen.emit", "treadle.codegen.kernels")


def inside(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_parts_import_only_lower_layers() -> None:
    """
    No module imports a part of its own layer or of a higher one.
    """
    wrong = []
    for module, statements in modules().items():
        part = module.split(".")[1] if "." in module else ""
        if part in ("", "__main__"):
            continue
        for imported in imports(statements):
            names = imported.split(".")
            other = names[1] if names[0] == "treadle" and len(names) > 1 else ""
            if other in RANK and other != part and RANK[other] <= RANK[part]:
                wrong.append(f"{module} imports {imported}")

    assert not wrong


@pytest.mark.parametrize("folder", ["src/treadle", "benches"])
def test_no_imports_close_a_circle(folder: str) -> None:
    """
    No module imports itself through others, neither when it is imported nor inside of its functions.
    """
    found = modules(ROOT / folder)
    order = TopologicalSorter({module: dependencies(each, found) - {module} for module, each in found.items()})

    assert len(found) > 20
    order.prepare()  # raises CycleError, which names a circle


def test_every_part_has_a_layer() -> None:
    """
    A new folder or module of the package must be given its place in the order.
    """
    parts = {module.split(".")[1] for module in modules() if "." in module}

    assert parts - set(RANK) <= {"__main__", "_native"}


def test_libraries_are_imported_only_where_they_belong() -> None:
    """
    Protobuf stays in the front ends whose files it reads, LLVM in the code generator, the terminal in the command line.
    Passes call the native core's searches and nothing else of it.
    """
    wrong = [
        f"{module} imports {imported}"
        for module, statements in modules().items()
        for imported in imports(statements)
        for library, homes in CONFINED.items()
        if inside(imported, (library,)) and not inside(module, homes)
    ]

    assert not wrong


def test_kernels_are_generated_without_numpy() -> None:
    """
    Generators see specs and targets, never arrays.
    """
    wrong = [
        module
        for module, statements in modules().items()
        if inside(module, WITHOUT_NUMPY) and any(inside(imported, ("numpy",)) for imported in imports(statements))
    ]

    assert not wrong


def test_only_declared_libraries_are_imported() -> None:
    """
    Everything the package imports is in the standard library or among its dependencies.
    """
    declared = {
        "treadle",
        "numpy",
        "llvmlite",
        "onnx",
        "google",
        "rich",
        "click",
        "ml_dtypes",
        "safetensors",
        "cloudpickle",
        "re2",
        "torch",
    }
    foreign = {imported.split(".")[0] for statements in modules().values() for imported in imports(statements)}

    assert foreign - declared <= set(sys.stdlib_module_names)
