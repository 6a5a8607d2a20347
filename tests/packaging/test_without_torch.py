"""weft never needs PyTorch: without it everything but PyTorch models works, and those say what is missing."""

from __future__ import annotations

import subprocess
import sys

from tests.packaging.sources import modules

NEEDS_TORCH = ("weft.frontends.torch.", "weft.compat.dynamo.")

PROGRAM = """
import importlib, sys
sys.modules["torch"] = None  # importing it raises ModuleNotFoundError
import numpy as np
import weft
from weft.graph.graph import Graph
from weft import dtypes
for name in {names!r}:
    importlib.import_module(name)
graph = Graph()
x = graph.input("x", dtypes.f32, (2,))
graph.outputs = [graph.add("add", [x, x], outputs=[graph.value("y")]).output]
assert weft.Session(graph).run({{"x": np.ones(2, np.float32)}})["y"].tolist() == [2, 2]
try:
    weft.Session("model.pt")
except weft.errors.ModelFormatError as error:
    print(error)
"""


def test_everything_else_works_without_it() -> None:
    """
    Every module outside the two that serve PyTorch is imported, a graph runs, and a .pt file is refused with the reason.
    """
    names = [name for name, _ in modules() if not name.startswith(NEEDS_TORCH) and not name.endswith("__main__")]
    assert "weft.frontends.torch" in names
    program = PROGRAM.format(names=names)
    said = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout

    assert "PyTorch, which is not installed; install torch" in said
