"""Runs a model in a fresh process and says what that process compiled and imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COMPILERS = (
    "google.protobuf", "llvmlite.binding", "onnx", "torch", "treadle.driver", "treadle.frontends.onnx.reader",
    "treadle.frontends.tensorflow.reader", "treadle.frontends.torch.reader", "treadle.passes.pipeline",
)  # fmt: skip
"""Modules that read or compile models."""

_SCRIPT = """
import sys, numpy, treadle
session = treadle.Session({path!r}, {arguments})
feeds = numpy.load({feeds!r})
runs = {{}}
for key in feeds: runs.setdefault(key.partition("/")[0], {{}})[key.partition("/")[2]] = feeds[key]
found = {{}}
for run, given in runs.items():
    for name, array in session.run(given, {outputs!r}).items(): found[f"{{run}}/{{name}}"] = array
numpy.savez({results!r}, **found)
print(session.compiles, *sorted(set({names!r}) & sys.modules.keys()))
"""


class Found(NamedTuple):
    """What a process did: how many plans it compiled, which of COMPILERS it imported, and the outputs of its runs."""

    compiles: int
    imported: list[str]
    outputs: list[dict[str, np.ndarray]]


def run_in_process(
    path: Path,
    runs: Sequence[dict[str, np.ndarray]],
    folder: Path,
    arguments: str = "",
    outputs: Sequence[str] | None = None,
) -> Found:
    """Runs the model at `path` for `runs` and `outputs` in a new process, with `arguments` of Session as text.

    The process is the second one: the first may have had to ask LLVM what CPU this is.
    """
    named: dict[str, Any] = {f"{at}/{name}": one for at, run in enumerate(runs) for name, one in run.items()}
    np.savez(folder / "feeds.npz", **named)
    script = _SCRIPT.format(
        path=str(path), arguments=arguments, feeds=str(folder / "feeds.npz"), results=str(folder / "results.npz"),
        names=COMPILERS, outputs=None if outputs is None else list(outputs),
    )  # fmt: skip
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    compiles, *imported = done.stdout.split()
    outputs: list[dict[str, np.ndarray]] = [{} for _ in runs]
    with np.load(folder / "results.npz") as results:
        for key in results:
            at, _, name = key.partition("/")
            outputs[int(at)][name] = results[key]
    return Found(int(compiles), imported, outputs)
