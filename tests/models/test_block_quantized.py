"""Weights of 2, 4 and 8 bits with a scale for each block (com.microsoft)."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle
from tests.models.contrib import Array, OneNode, close, some

ROWS, DEPTH, BLOCK = 6, 40, 16
BLOCKS = 3


def packed(numbers: Array, bits: int) -> Array:
    """Numbers [rows, n] in bytes, the first in the lowest bits; what is missing of a byte is 0."""
    each = 8 // bits
    full = np.pad(numbers, ((0, 0), (0, -numbers.shape[1] % each))).reshape(len(numbers), -1, each)
    return np.asarray((full << (np.arange(each) * bits)).sum(-1)).astype(np.uint8)


def drawn(bits: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, bits]).integers(0, 1 << bits, shape)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
def test_products_are_those_of_dequantized_weights(bits: int, zeros: str) -> None:
    """K does not fill the last block; zero points of an odd number of blocks do not fill the last byte."""
    x, bias = some(2, 5, DEPTH), some(ROWS, seed=1)
    weights = drawn(bits, ROWS, BLOCKS * BLOCK)
    scales = (some(ROWS, BLOCKS, seed=2) ** 2 + 0.1).astype(np.float32)
    starts = drawn(bits, ROWS, BLOCKS, seed=3)
    given = {"none": None, "packed": packed(starts, bits), "floats": starts.astype(np.float32)}[zeros]
    begin = np.full_like(starts, 1 << (bits - 1)) if zeros == "none" else starts
    real = (weights - np.repeat(begin, BLOCK, axis=1)) * np.repeat(scales.astype(np.float64), BLOCK, axis=1)
    held = {"w": packed(weights, bits).reshape(ROWS, BLOCKS, -1), "scales": scales, "zeros": given}
    operands = {"x": x, **held, "groups": None, "bias": bias}
    names = frozenset(name for name, array in operands.items() if name != "x" and array is not None)
    attributes = {"K": DEPTH, "N": ROWS, "bits": bits, "block_size": BLOCK}
    node = OneNode("MatMulNBits", operands, names, attributes=attributes)
    wanted = x.astype(np.float64) @ real[:, :DEPTH].T + bias

    close(node.run(), [wanted], rtol=1e-4, atol=1e-4)
    close(node.run(is_open=True), [wanted], rtol=1e-4, atol=1e-4)
    if zeros != "floats" or bits == 4:
        close(node.run_by_onnxruntime(), [wanted], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("depth", [96, 1056])
def test_products_of_any_number_of_rows_have_one_plan(rows: int, depth: int) -> None:
    """From some rows on, panels of weights are unpacked before they are multiplied, deep ones in parts."""
    columns, blocks = 37, depth // 32
    weights, scales = drawn(4, columns, depth), (some(columns, blocks, seed=2) ** 2 + 0.1).astype(np.float32)
    real = (weights - 8) * np.repeat(scales.astype(np.float64), 32, axis=1)
    operands = {"x": some(5, depth), "w": packed(weights, 4).reshape(columns, blocks, -1), "scales": scales}
    attributes = {"K": depth, "N": columns, "bits": 4, "block_size": 32}
    node = OneNode("MatMulNBits", operands, frozenset({"w", "scales"}), attributes=attributes)
    session = treadle.Session(node.model(is_open=True))
    x = some(rows, depth, seed=rows)

    close(dict(session.run({"x": x})), [x.astype(np.float64) @ real.T], rtol=1e-4, atol=2e-3)
    assert len(session.plans()) == 1


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 30])
def test_accuracy_level_4_rounds_as_onnxruntime_does(bits: int, rows: int) -> None:
    columns, depth = 37, 96
    weights, scales = drawn(bits, columns, depth), (some(columns, 3, seed=2) ** 2 + 0.1).astype(np.float32)
    x = some(rows, depth)
    operands = {"x": x, "w": packed(weights, bits).reshape(columns, 3, -1), "scales": scales}
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": 32, "accuracy_level": 4}
    node = OneNode("MatMulNBits", operands, frozenset({"w", "scales"}), attributes=attributes)
    found = node.run()["y"]
    real = (weights - (1 << (bits - 1))) * np.repeat(scales.astype(np.float64), 32, axis=1)
    wanted = x.astype(np.float64) @ real.T

    assert 0 < np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)
    if bits > 2:
        (theirs,) = node.run_by_onnxruntime().values()
        assert np.linalg.norm(found - theirs) < 1e-3 * np.linalg.norm(wanted)


def test_weights_stay_packed_in_memory() -> None:
    columns, depth = 512, 1024
    operands = {
        "x": some(1, depth),
        "w": packed(drawn(4, columns, depth), 4).reshape(columns, depth // 32, -1),
        "scales": np.ones((columns, depth // 32), np.float32),
    }
    attributes = {"K": depth, "N": columns, "bits": 4, "block_size": 32}
    node = OneNode("MatMulNBits", operands, frozenset({"w", "scales"}), attributes=attributes)
    session = treadle.Session(node.model(is_open=False))
    held = {id(v): v.data.nbytes for p in session.plans() for c in p.calls for v in c.reads if v.data is not None}

    assert sum(held.values()) <= columns * depth // 2 + 4 * columns * depth // 32


def test_batch_invariant_sessions_give_a_row_the_same_bits_in_every_batch() -> None:
    columns, depth = 37, 96
    operands = {
        "x": some(5, depth),
        "w": packed(drawn(4, columns, depth), 4).reshape(columns, 3, -1),
        "scales": (some(columns, 3, seed=2) ** 2 + 0.1).astype(np.float32),
    }
    attributes = {"K": depth, "N": columns, "bits": 4, "block_size": 32}
    node = OneNode("MatMulNBits", operands, frozenset({"w", "scales"}), attributes=attributes)
    session = treadle.Session(node.model(is_open=True), batch_invariant=True)
    x = some(40, depth)
    whole = session.run({"x": x})["y"]

    for row in (0, 17, 39):
        assert session.run({"x": x[row : row + 1]})["y"].tobytes() == whole[row].tobytes()


def test_products_of_halves_have_their_digits() -> None:
    x = some(3, 32, dtype=np.float16)
    weights = drawn(4, ROWS, 32)
    scales = np.full((ROWS, 2), 0.125, np.float16)
    operands = {"x": x, "w": packed(weights, 4).reshape(ROWS, 2, -1), "scales": scales}
    attributes = {"K": 32, "N": ROWS, "bits": 4, "block_size": 16}
    node = OneNode("MatMulNBits", operands, frozenset({"w", "scales"}), attributes=attributes)

    close(node.run(), [x.astype(np.float64) @ ((weights - 8) * 0.125).T], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_rows_are_gathered_as_they_are_stored(bits: int, has_zeros: bool) -> None:
    table = drawn(bits, 7, 32)
    scales = (some(7, 2) ** 2 + 0.1).astype(np.float32)
    starts = drawn(bits, 7, 2, seed=1)
    ids = np.array([[3, 0, 6], [1, 1, 2]])
    begin = starts if has_zeros else np.full_like(starts, 1 << (bits - 1))
    wanted = ((table - np.repeat(begin, 16, axis=1)) * np.repeat(scales.astype(np.float64), 16, axis=1))[ids]
    operands = {"table": packed(table, bits), "ids": ids, "scales": scales}
    if has_zeros:
        operands["zeros"] = packed(starts, bits)
    attributes = {"bits": bits, "block_size": 16, "quantize_axis": 1, "gather_axis": 0}
    held = frozenset(operands) - {"ids"}
    node = OneNode("GatherBlockQuantized", operands, held, attributes=attributes)

    close(node.run(), [wanted])
    close(node.run(is_open=True), [wanted])
    close(node.run_by_onnxruntime(), [wanted])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"bits": 3}, "'bits' must be one of 2, 4, 8, got 3"),
        ({"weight_prepacked": 1}, "'weight_prepacked' must be 0"),
        ({"K": 64}, "input number 1 must have 192 elements, got 96"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(attributes: dict[str, object], message: str) -> None:
    operands = {
        "x": some(2, 32),
        "w": packed(drawn(4, ROWS, 32), 4).reshape(ROWS, 2, -1),
        "scales": np.ones((ROWS, 2), np.float32),
    }
    whole = {"K": 32, "N": ROWS, "bits": 4, "block_size": 16, **attributes}
    node = OneNode("MatMulNBits", operands, frozenset({"w", "scales"}), attributes=whole)

    with pytest.raises(treadle.errors.TreadleError, match=message):
        treadle.Session(node.model(is_open=False))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("form", ["blocks", "columns", "tensor", "gemm", "shared"])
def test_dequantized_weights_of_4_bits_are_multiplied_as_they_are_stored(form: str, signed: bool) -> None:
    """DequantizeLinear -> MatMul or Gemm: blocks along the depth, one scale for each column, one in all; and weights
    that something else reads too."""
    depth, columns, block = 64, 21, 16
    rng = np.random.default_rng(7)
    kind = onnx.TensorProto.INT4 if signed else onnx.TensorProto.UINT4
    low = -8 if signed else 0
    turned = form == "gemm"
    shape = (columns, depth) if turned else (depth, columns)
    along = 1 if turned else 0
    scaled = {
        "blocks": (depth // block, columns),
        "shared": (depth // block, columns),
        "columns": (columns,),
        "tensor": (),
        "gemm": (columns, depth // block),
    }[form]
    numbers = rng.integers(low, low + 16, shape)
    starts = rng.integers(low, low + 16, scaled)
    scales = np.asarray(rng.random(scaled) + 0.1, np.float32)
    blocked = len(scaled) == 2
    spread = [np.repeat(t, block, axis=along) if blocked else t for t in (starts, scales.astype(np.float64))]
    real = (numbers - spread[0]) * spread[1]
    attributes = {"axis": along if blocked else 1, "block_size": block if blocked else 0}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wide"], **attributes),
        helper.make_node("Gemm", ["x", "wide"], ["y"], transB=1)
        if turned
        else helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    outputs = ["y"]
    if form == "shared":
        nodes.append(helper.make_node("Neg", ["wide"], ["other"]))
        outputs.append("other")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", depth])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [
            helper.make_tensor("w", kind, shape, numbers.reshape(-1).tolist()),
            numpy_helper.from_array(scales, "s"),
            helper.make_tensor("z", kind, scaled, starts.reshape(-1).tolist()),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = treadle.Session(model)
    x = some(3, depth)
    found = dict(session.run({"x": x}))
    wanted = x.astype(np.float64) @ (real.T if turned else real)

    close(found, [wanted, -real][: len(outputs)], rtol=1e-4, atol=1e-4)
    assert "block_matmul" in [call.op for plan in session.plans() for call in plan.calls]
