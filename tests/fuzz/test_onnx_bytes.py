"""Damaged and hostile ONNX models: loading either works or raises a treadle error, and always ends."""

import random

import onnx
import pytest

from tests.unit.frontends.onnx.sample_models import all_models
from treadle.errors import TreadleError
from treadle.frontends.onnx import load

EXTREMES = (-(2**63), -(2**31), -2, -1, 0, 1, 3, 64, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)


@pytest.fixture(scope="module")
def seeds():
    return [model.SerializeToString() for model in all_models()]


def outcome(content):
    """`loaded`, or the name of the treadle error; any other exception passes through and fails the test."""
    try:
        load(content)
    except TreadleError as error:
        return type(error).__name__
    return "loaded"


def damaged(content, seeds, rng):
    """`content` with a few bytes flipped, overwritten, cut, removed, repeated or taken from another model."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            data = data[: max(1, at)]
        elif kind == 3 and len(data) > 32:
            del data[at : at + rng.randrange(1, 16)]
        elif kind == 4:
            data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(1, 24)]
        else:
            other = rng.choice(seeds)
            start = rng.randrange(len(other))
            data[at:at] = other[start : start + rng.randrange(1, 32)]
    return bytes(data or b"x")


def test_damaged_bytes_load_or_raise_a_treadle_error(seeds):
    """2,000 random damages of ten good models: no other exception, no crash, no hang."""
    rng = random.Random(20240601)
    outcomes = [outcome(damaged(rng.choice(seeds), seeds, rng)) for _ in range(2000)]
    assert {"loaded", "ModelError", "ModelFormatError", "UnsupportedModelError"} <= set(outcomes)


def nodes_of(model):
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in waiting:
        waiting.extend(inner for attribute in node.attribute for inner in attribute.g.node)
    return waiting


def alter(model, operators, rng):
    """Change one thing that protobuf does not mind: an operator, an attribute, an edge, a dimension, a type."""
    nodes = nodes_of(model)
    node = rng.choice(nodes)
    kind = rng.randrange(8)
    if kind == 0:
        node.op_type = rng.choice(operators)
    elif kind in (1, 2) and node.attribute:
        attribute = rng.choice(node.attribute)
        attribute.i = rng.choice(EXTREMES)
        attribute.f = rng.choice((0.0, float("inf"), float("nan"), 1e38))
        attribute.ints[:] = [rng.choice(EXTREMES) for _ in range(rng.randrange(5))]
        if attribute.type == onnx.AttributeProto.TENSOR:
            attribute.t.dims[:] = [rng.choice(EXTREMES)]
    elif kind == 3 and node.input:
        names = [name for other in nodes for name in (*other.input, *other.output)]
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, ""])
    elif kind == 4 and node.input:
        del node.input[-1]
    elif kind == 5:
        node.output.append("extra")
    elif kind == 6 and model.graph.input:
        kind_of_input = rng.choice(model.graph.input).type.tensor_type
        kind_of_input.elem_type = rng.randrange(27)
        for dim in kind_of_input.shape.dim:
            dim.dim_value = rng.choice(EXTREMES)
    elif kind == 7 and model.graph.initializer:
        tensor = rng.choice(model.graph.initializer)
        tensor.data_type = rng.randrange(27)
        tensor.dims[:] = [rng.choice(EXTREMES) for _ in tensor.dims]


def test_altered_models_load_or_raise_a_treadle_error(seeds):
    """2,000 models with odd operators, attributes, edges, shapes and types: no other exception, no crash, no hang."""
    rng = random.Random(20240602)
    operators = sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""})
    outcomes = []
    for _ in range(2000):
        model = onnx.ModelProto.FromString(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 3))):
            alter(model, operators, rng)
        outcomes.append(outcome(model.SerializeToString()))
    assert {"loaded", "ModelError", "UnsupportedModelError"} <= set(outcomes)
