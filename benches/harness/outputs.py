"""Outputs gate speed: a figure counts only if treadle's outputs are right, and the same in each run."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

REFERENCE = "onnxruntime"
"""The engine from whose outputs errors are measured."""

LARGEST_ERROR = {"f32": 1e-4, "bf16": 5e-2, "quantized": 8e-2}
"""The accepted relative L2 distance from ONNX Runtime's outputs, by precision, and of quantized models.

One number that is rounded to 8 bits differently changes many that follow: ONNX Runtime without its optimisations
differs from itself by up to 0.04, and quantized models differ by 0.02 to 0.08 from the models that they were made of.
"""


def arrays(result: Any) -> list[Array]:
    """Returns an engine's result as arrays, in the order of the model's outputs."""
    outputs: Iterable[Any] = result.values() if isinstance(result, Mapping) else result
    return [np.asarray(output) for output in outputs]


def saved(path: Path) -> list[Array]:
    """Reads the outputs that an engine's process wrote to a .npz file."""
    with np.load(path) as outputs:
        return list(outputs.values())


def digest(outputs: Iterable[Array]) -> str:
    """Returns a hash of the dtypes, shapes and bits of outputs."""
    total = hashlib.sha256()
    for output in outputs:
        total.update(f"{output.dtype.str} {output.shape}\n".encode())
        total.update(output.tobytes())
    return total.hexdigest()


def relative_error(got: Iterable[Array], wanted: Iterable[Array]) -> float:
    """The largest relative L2 distance of an output; NaN if one is NaN."""
    errors = []
    for mine, other in zip(got, wanted, strict=True):
        wide = other.astype(np.float64)
        errors.append(np.linalg.norm(mine.astype(np.float64) - wide) / max(float(np.linalg.norm(wide)), 1e-30))
    return float(np.max(errors))


def is_right(model: str, error: float | None, kind: str = "f32", *, same: bool = True) -> bool:
    """True if the error is at most LARGEST_ERROR[kind] (None: ONNX Runtime is missing) and all outputs were the `same`.

    Prints what is wrong to stderr.
    """
    name, most = Path(model).stem, LARGEST_ERROR[kind]
    close = error is None or error <= most
    if not close:
        print(f"{name}: error {error:.1e}, wanted {most:.0e} at most", file=sys.stderr)
    if not same:
        print(f"{name}: outputs differ from run to run or from setting to setting", file=sys.stderr)
    return close and same
