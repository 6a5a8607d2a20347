"""Inputs of models, the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


NO_DIMS: Mapping[str, int] = {}


def random_inputs(model: str, dims: Mapping[str, int] = NO_DIMS) -> dict[str, Array]:
    """Seeded inputs of the shapes that the ONNX file declares; symbolic dimensions are those of `dims`, or 1.

    Integers are below 100; an attention mask hides nothing. A model of a package has inputs of its own.
    """
    import onnx

    from benches.models.packaged import PACKAGED

    known = PACKAGED.get(Path(model).stem)
    if known is not None:
        return known.inputs(model)
    rng = np.random.default_rng(0)
    graph = onnx.load(model, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = {}
    for value in graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value or dims.get(dim.dim_param, 1) for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if value.name == "attention_mask":
            inputs[value.name] = np.ones(shape, dtype)
        elif np.issubdtype(dtype, np.floating):
            inputs[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            inputs[value.name] = rng.integers(0, 100, shape).astype(dtype)
    return inputs


def write_inputs(path: Path, inputs: dict[str, Array]) -> None:
    """Writes inputs by name to a .npz file, from which workers read them."""
    arrays: dict[str, Any] = dict(inputs)
    np.savez(path, **arrays)


def read_inputs(path: str) -> dict[str, Array]:
    """Reads what write_inputs wrote."""
    with np.load(path) as stored:
        return dict(stored)
