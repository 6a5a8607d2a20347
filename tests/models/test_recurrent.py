"""Recurrent ONNX nodes in sessions: layouts, lengths, refused attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle.errors import ModelError, RunError

TIME, BATCH, INPUTS, HIDDEN = 6, 3, 5, 9
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

random = np.random.default_rng(1)


def model(op: str, x: tuple[int, int, int], more: dict[int, np.ndarray] | None = None, **attrs: Any) -> onnx.ModelProto:
    """One node of both directions over x; `more` are further operands by number, all constants but the lengths (4)."""
    rng = np.random.default_rng(7)
    wide = GATES[op] * HIDDEN
    constants = {1: (2, wide, INPUTS), 2: (2, wide, HIDDEN), 3: (2, 2 * wide)}
    arrays = {number: rng.standard_normal(shape).astype(np.float32) / 3 for number, shape in constants.items()}
    arrays |= {number: array for number, array in (more or {}).items() if number != 4}
    names = [
        "x" if number == 0 else f"w{number}" if number in arrays or number in (more or {}) else ""
        for number in range(8)
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    if more and 4 in more:
        inputs.append(helper.make_tensor_value_info("w4", TensorProto.INT32, [None]))
    while not names[-1]:
        names.pop()
    node = helper.make_node(
        op, names, ["y", "last"], name="layer", hidden_size=HIDDEN, direction="bidirectional", **attrs
    )
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "last")]
    held = [numpy_helper.from_array(array, f"w{number}") for number, array in arrays.items()]
    graph = helper.make_graph([node], "recurrent", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("op", GATES)
def test_a_recurrent_node_runs_by_kernels(op):
    """No step runs by its NumPy reference."""
    session = treadle.Session(model(op, (TIME, BATCH, INPUTS)))
    (plan,) = session.plans()
    assert all(call.spec is not None for call in plan.calls)


@pytest.mark.parametrize("op", GATES)
def test_batch_first_gives_the_same_states(op):
    """`layout` = 1 is the same computation with the first two axes of everything exchanged."""
    x = random.standard_normal((TIME, BATCH, INPUTS)).astype(np.float32)
    one = treadle.Session(model(op, x.shape)).run({"x": x})
    turned = np.ascontiguousarray(x.transpose(1, 0, 2))
    other = treadle.Session(model(op, turned.shape, layout=1)).run({"x": turned})
    np.testing.assert_array_equal(one["y"], other["y"].transpose(1, 2, 0, 3))
    np.testing.assert_array_equal(one["last"], other["last"].transpose(1, 0, 2))


@pytest.mark.parametrize("op", GATES)
def test_a_row_with_a_length_gives_the_result_of_a_batch_of_its_own(op):
    """Each row of a batch with lengths has the same result as in a batch of its own, and zeros after its end."""
    x = random.standard_normal((TIME, BATCH, INPUTS)).astype(np.float32)
    lengths = np.array([6, 2, 4], np.int32)
    found = treadle.Session(model(op, x.shape, {4: lengths})).run({"x": x, "w4": lengths})
    for row, length in enumerate(lengths):
        alone = treadle.Session(model(op, (int(length), 1, INPUTS))).run({"x": x[:length, row : row + 1]})
        np.testing.assert_allclose(found["y"][:length, :, row], alone["y"][:, :, 0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["y"][length:, :, row], 0)
        np.testing.assert_allclose(found["last"][:, row], alone["last"][:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [TIME + 1, -1])
def test_a_length_beyond_the_input_is_an_error_and_the_session_goes_on(length):
    """The kernel refuses a negative length and one beyond the input; valid lengths work afterwards."""
    x = random.standard_normal((TIME, BATCH, INPUTS)).astype(np.float32)
    session = treadle.Session(model("LSTM", x.shape, {4: np.zeros(BATCH, np.int32)}))
    with pytest.raises(RunError, match="layer"):
        session.run({"x": x, "w4": np.array([1, length, 2], np.int32)})
    assert session.run({"x": x, "w4": np.array([1, 6, 2], np.int32)})["y"].shape == (TIME, 2, BATCH, HIDDEN)


@pytest.mark.parametrize("op", GATES)
def test_a_hidden_size_other_than_the_weights_is_refused(op: str) -> None:
    """
    The importer raises an error.
    """
    proto = model(op, (TIME, BATCH, INPUTS))
    (stated,) = (attribute for attribute in proto.graph.node[0].attribute if attribute.name == "hidden_size")
    stated.i = HIDDEN + 1

    with pytest.raises(ModelError, match="'hidden_size' is 10, but its recurrent weight is for 9"):
        treadle.Session(proto)
