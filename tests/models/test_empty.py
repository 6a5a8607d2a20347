"""Tensors without elements, as inputs and outputs of a model and between its nodes."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models import small
from tests.unit.frontends.onnx.node_cases import array, cases, not_run
from treadle import dtypes
from treadle.errors import TreadleError
from treadle.graph.graph import Graph
from treadle.ops.op import Info

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
GROUPS = 4


def test_an_empty_batch_gives_empty_results() -> None:
    """
    Convolutions, branches, concatenation, pooling and softmax take a batch of 0; the next batch is right.
    """
    session = treadle.Session(DIGITS)

    assert session.run({"images": np.empty((0, 1, 8, 8), np.float32)})["probabilities"].shape == (0, 10)
    assert session.run({"images": np.ones((3, 1, 8, 8), np.float32)})["probabilities"].sum() == pytest.approx(3)


def test_a_function_that_returns_no_elements_is_called() -> None:
    """
    Ops without elements to compute have no step; a Python function is called, because it may have side effects.
    """
    called = []

    def note(arrays: list[np.ndarray]) -> list[np.ndarray]:
        called.append(arrays[0].shape)
        return arrays

    graph = Graph("test")
    x = graph.input("x", dtypes.f32, (0, 2))
    attrs = {"function": note, "infer": lambda infos: [Info(dtypes.f32, (0, 2))], "label": "note"}
    noted = graph.add("call", [x], attrs).output
    graph.outputs = [graph.add("exp", [noted], {}).output]

    (found,) = treadle.Session(graph).run({"x": np.empty((0, 2), np.float32)}).values()

    assert found.shape == (0, 2)
    assert called == [(0, 2)]


@pytest.mark.parametrize("name", ["branches", "convolutional"])
def test_small_models_take_empty_inputs(name: str) -> None:
    """
    With each dimension 0 in turn, a session returns the reference's shapes or raises a treadle error.
    """
    model = small.MODELS[name]()
    (declared,) = model.graph.input
    for axis in range(len(declared.type.tensor_type.shape.dim)):
        emptied = onnx.ModelProto()
        emptied.CopyFrom(model)
        emptied.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = 0
        complaint = disagreement(emptied, small.inputs_for(emptied))
        assert complaint is None, (axis, complaint)


@pytest.mark.parametrize("group", range(GROUPS))
def test_graphs_of_several_nodes_take_empty_inputs(group: int) -> None:
    """
    ONNX's cases for ops that are functions run with the first axis of their first input emptied.

    These are graphs whose intermediate values are empty too.
    """
    chosen = [name for name in sorted(cases()) if name not in not_run() and "_expanded" in name][group::GROUPS]
    complaints, compared = {}, 0
    for name in chosen:
        model, inputs = emptied_case(cases()[name])
        if model is not None:
            compared += 1
            found = disagreement(model, inputs)
            if found is not None:
                complaints[name] = found

    assert complaints == {}
    assert compared > 30


def emptied_case(case) -> tuple[onnx.ModelProto | None, dict[str, np.ndarray]]:
    """Returns the case with 0 for every dimension that equals the first one; None if no input has such a dimension."""
    given = case.data_sets[0][0] if case.data_sets else []
    if not given or any(item is None or isinstance(item, list) for item in given):
        return None, {}
    arrays = [array(item) for item in given]
    if arrays[0].ndim == 0:
        return None, {}
    size = arrays[0].shape[0]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = {}
    for position, (value, item) in enumerate(zip(model.graph.input, arrays, strict=False)):
        data = position == 0 or item.dtype.kind in "fVb"  # others are sizes and indices
        shape = [0 if data and dim == size else dim for dim in item.shape]
        inputs[value.name] = np.empty(shape, item.dtype) if 0 in shape else item
        value.type.tensor_type.ClearField("shape")
        for dim in shape:
            value.type.tensor_type.shape.dim.add().dim_value = dim
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model, inputs


def disagreement(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> str | None:
    """Returns a description of the difference; None if a session gives the reference's results or raises a treadle
    error."""
    try:
        found = treadle.Session(model.SerializeToString()).run(inputs)
    except TreadleError as error:
        return f"internal: {error}" if isinstance(error, treadle.errors.InternalError) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = ReferenceEvaluator(model).run(None, inputs)
        except Exception:  # noqa: BLE001 - the reference cannot run it, so there is nothing to compare with
            return None
    for want, (name, got) in zip(wanted, found.items(), strict=True):
        if np.shape(want) != got.shape:
            return f"{name}: wanted shape {np.shape(want)}, got {got.shape}"
        if got.dtype.kind == "f" and not np.allclose(got, want, rtol=1e-2, atol=1e-2, equal_nan=True):
            return f"{name}: wanted {want}, got {got}"
    return None
