"""Products with 4-bit weights in QDQ form that round their other factor to 8 bits, beside ONNX Runtime."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
import treadle.compat.onnxruntime as own
from tests.models.small import Array
from treadle.errors import InputError

DEPTH, COLUMNS = 96, 40
X = np.random.default_rng(1).standard_normal((5, DEPTH)).astype(np.float32)
LEVEL = "session.qdq_matmulnbits_accuracy_level"


def product(form: str, kind: int, block: int, op: str) -> onnx.ModelProto:
    """Return x times weights with scales for blocks along the depth, for columns, or one for all."""
    rng = np.random.default_rng(0)
    lowest = -8 if kind == TensorProto.INT4 else 0
    shape = {"blocks": (DEPTH // block, COLUMNS), "columns": (COLUMNS,), "tensor": ()}[form]
    attributes = {"blocks": {"axis": 0, "block_size": block}, "columns": {"axis": 1}, "tensor": {}}[form]
    numbers = rng.integers(lowest, lowest + 16, (DEPTH, COLUMNS))
    starts = rng.integers(lowest + 6, lowest + 9, shape)
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["w", "scale", "start"], ["wide"], **attributes),
            helper.make_node(op, ["x", "wide"], ["y"]),
        ],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", COLUMNS])],
        [
            helper.make_tensor("w", kind, numbers.shape, numbers.reshape(-1).tolist()),
            numpy_helper.from_array(np.asarray(rng.random(shape) * 0.1 + 0.05, np.float32), "scale"),
            helper.make_tensor("start", kind, shape, np.reshape(starts, -1).tolist()),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def by_facade(ort: ModuleType, model: onnx.ModelProto, level: str) -> Array:
    options = ort.SessionOptions()
    options.add_session_config_entry(LEVEL, level)
    found: Array = ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": X})[0]
    return found


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
@pytest.mark.parametrize(("form", "block"), [("blocks", 16), ("blocks", 32), ("columns", 32), ("tensor", 32)])
def test_products_round_as_those_of_onnx_runtime(form: str, block: int, op: str, kind: int) -> None:
    """At accuracy level 4; at level 1 none rounds, nor does a session that does not ask for it."""
    model = product(form, kind, block, op)
    rounded, exact = by_facade(own, model, "4"), by_facade(own, model, "1")
    assert 1e-3 < np.linalg.norm(rounded - exact) / np.linalg.norm(exact) < 2e-2
    np.testing.assert_array_equal(exact, treadle.Session(model).run({"x": X})["y"])
    np.testing.assert_array_equal(rounded, treadle.Session(model, round_low_bits=True).run({"x": X})["y"])
    real = pytest.importorskip("onnxruntime")
    np.testing.assert_allclose(rounded, by_facade(real, model, "4"), rtol=1e-4, atol=1e-4)


def test_other_blocks_are_not_rounded() -> None:
    """As in ONNX Runtime, whose blocks are powers of 2."""
    model = product("blocks", TensorProto.INT4, 48, "MatMul")
    np.testing.assert_array_equal(by_facade(own, model, "4"), by_facade(own, model, "1"))


def test_exact_sessions_do_not_round() -> None:
    model = product("blocks", TensorProto.INT4, 32, "MatMul")
    found = treadle.Session(model, math="exact", round_low_bits=True).run({"x": X})["y"]
    assert np.linalg.norm(found - treadle.Session(model).run({"x": X})["y"]) < 1e-5 * np.linalg.norm(found)
    with pytest.raises(InputError, match="round_low_bits: wanted True or False"):
        treadle.Session(model, round_low_bits=4)
