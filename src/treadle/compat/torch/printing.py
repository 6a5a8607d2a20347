"""Tensors as text, in PyTorch's format."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.ops.op import Array


def format_elements(array: Array) -> str:
    """Returns the elements as PyTorch prints them: with four decimals, or none where all are whole."""
    if not array.size:
        return "[]"
    options: dict[str, Any] = {"separator": ", ", "prefix": "tensor(", "threshold": 1000, "edgeitems": 3}
    if array.dtype.kind == "b":
        width = 4 if array.ndim == 0 or array.all() else 5
        return np.array2string(array, formatter={"bool": lambda each: str(bool(each)).rjust(width)}, **options)
    if array.dtype.kind not in "fV":
        return np.array2string(array, **options).replace(", ...", ",  ...")
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide) & (wide != 0)]
    size = np.abs(finite)
    whole = bool((finite == np.floor(finite)).all())
    spread = (size.max() / size.min() > 1000 or size.min() < 1e-4) and not whole if size.size else False
    far = bool(spread or (size.size and size.max() > 1e8))
    form = "{:.4e}" if far else "{:.0f}." if whole else "{:.4f}"
    width = max((len(form.format(each)) for each in finite.ravel()), default=2 if whole else 6)

    def one(each: Any) -> str:
        return (form.format(each) if np.isfinite(each) else str(each)).rjust(width if array.ndim else 0)

    return np.array2string(wide, formatter={"float_kind": one}, **options).replace(", ...", ",  ...")
