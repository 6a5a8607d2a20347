"""treadle never needs PyTorch: without it everything but PyTorch models works, and those say what is missing."""

from __future__ import annotations

import subprocess
import sys

from tests.packaging.sources import modules

NEEDS_TORCH = ("treadle.frontends.torch.", "treadle.compat.dynamo.", "treadle.compat.torch.jit.loaded")

PROGRAM = """
import importlib, sys
sys.modules["torch"] = None  # importing it raises ModuleNotFoundError
import numpy as np
import treadle
from treadle.graph.graph import Graph
from treadle import dtypes
for name in {names!r}:
    importlib.import_module(name)
graph = Graph()
x = graph.input("x", dtypes.f32, (2,))
graph.outputs = [graph.add("add", [x, x], outputs=[graph.value("y")]).output]
assert treadle.Session(graph).run({{"x": np.ones(2, np.float32)}})["y"].tolist() == [2, 2]
try:
    treadle.Session("model.pt")
except treadle.errors.ModelFormatError as error:
    print(error)
"""


def test_everything_else_works_without_it() -> None:
    """
    Every module but those that serve PyTorch is imported, a graph runs, and a .pt file is refused with the
    reason.
    """
    names = [name for name in modules() if not name.startswith(NEEDS_TORCH) and not name.endswith("__main__")]
    assert "treadle.frontends.torch" in names
    program = PROGRAM.format(names=names)
    said = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout

    assert "PyTorch, which is not installed; install torch" in said
