"""Outputs gate speed: a figure counts if what treadle computed is right, and the same each time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LARGEST_ERROR = {"f32": 1e-4, "bf16": 5e-2, "quantized": 8e-2}
"""The relative L2 distance from ONNX Runtime's outputs that is accepted, at a precision or of quantized models. Where one
number is rounded to 8 bits the other way, many that follow are too: ONNX Runtime without its optimisations comes as far as
0.04 from itself, and the quantized models 0.02 to 0.08 from those that they were made of."""


def arrays(result: Any) -> list[Array]:
    """What an engine's run gave, as arrays in the order of the model's outputs."""
    outputs: Iterable[Any] = result.values() if isinstance(result, Mapping) else result
    return [np.asarray(output) for output in outputs]


def saved(path: Path) -> list[Array]:
    """The outputs that an engine's process wrote to a .npz file."""
    with np.load(path) as outputs:
        return list(outputs.values())


def relative_error(got: Iterable[Array], wanted: Iterable[Array]) -> float:
    """The largest relative L2 distance of an output; NaN if one is NaN."""
    errors = []
    for mine, other in zip(got, wanted, strict=True):
        wide = other.astype(np.float64)
        errors.append(np.linalg.norm(mine.astype(np.float64) - wide) / max(float(np.linalg.norm(wide)), 1e-30))
    return float(np.max(errors))


def is_right(model: str, error: float | None, kind: str = "f32", *, same: bool = True) -> bool:
    """Whether treadle's outputs are within LARGEST_ERROR[kind] (None: ONNX Runtime is missing) and were always the same.

    What is wrong is told on stderr.
    """
    name, most = Path(model).stem, LARGEST_ERROR[kind]
    close = error is None or error <= most
    if not close:
        print(f"{name}: error {error:.1e}, wanted {most:.0e} at most", file=sys.stderr)
    if not same:
        print(f"{name}: outputs differ from run to run or from setting to setting", file=sys.stderr)
    return close and same
