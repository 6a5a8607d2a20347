"""A small decoder of GPT-2's kind with random weights, in a GreedySearch of com.microsoft."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.models.small import FLOAT, Array, ModelWriter

VOCABULARY, HIDDEN, HEADS = 19, 8, 2
DEPTH = HIDDEN // HEADS
PAD, END = 0, 3
INT32 = TensorProto.INT32
OPTIONS = ("min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask")


def decoder(seed: int) -> onnx.GraphProto:
    """Return a layer of attention: ids, positions, mask, past -> logits, present."""
    w = ModelWriter(seed)
    heads = w.constant(np.array([0, 0, HEADS, DEPTH]))
    x = w.op("Add", w.op("Gather", w.random(VOCABULARY, HIDDEN), "input_ids"), "position")
    w.nodes.insert(0, helper.make_node("Gather", [w.random(32, HIDDEN), "position_ids"], ["position"], name="position"))
    q, k, v = (
        w.op("Transpose", w.op("Reshape", w.op("MatMul", x, w.random(HIDDEN, HIDDEN)), heads), perm=[0, 2, 1, 3])
        for _ in range(3)
    )
    first, second, axis = (w.constant(np.array([number])) for number in (0, 1, 0))
    w.op("Concat", w.op("Unsqueeze", k, axis), w.op("Unsqueeze", v, axis), axis=0)
    w.op("Concat", "past_0", w.nodes[-1].output[0], axis=3)
    w.nodes[-1].output[0] = "present_0"
    keys = w.op("Squeeze", w.op("Slice", "present_0", first, second, axis), axis)
    values = w.op("Squeeze", w.op("Slice", "present_0", second, w.constant(np.array([2])), axis), axis)
    scores = w.op("MatMul", q, w.op("Transpose", keys, perm=[0, 1, 3, 2]))
    seen = w.op("Unsqueeze", w.op("Cast", "attention_mask", to=FLOAT), w.constant(np.array([1, 2])))
    hidden = w.op("Mul", w.op("Sub", seen, w.constant(np.float32(1))), w.constant(np.float32(1e4)))
    mixed = w.op("MatMul", w.op("Softmax", w.op("Add", scores, hidden), axis=-1), values)
    mixed = w.op("Reshape", w.op("Transpose", mixed, perm=[0, 2, 1, 3]), w.constant(np.array([0, 0, HIDDEN])))
    head = w.constant(3 * w.rng.standard_normal((HIDDEN, VOCABULARY)).astype(np.float32))
    w.op("MatMul", w.op("Tanh", w.op("Add", x, mixed)), head)
    w.nodes[-1].output[0] = "logits"
    inputs = [
        helper.make_tensor_value_info(name, INT32, ["batch", length])
        for name, length in (("input_ids", "new"), ("position_ids", "new"), ("attention_mask", "total"))
    ]
    past = helper.make_tensor_value_info("past_0", FLOAT, [2, "batch", HEADS, "past", DEPTH])
    outputs = [
        helper.make_tensor_value_info("logits", FLOAT, ["batch", "new", VOCABULARY]),
        helper.make_tensor_value_info("present_0", FLOAT, [2, "batch", HEADS, "total", DEPTH]),
    ]
    return helper.make_graph(w.nodes, "decoder", [*inputs, past], outputs, w.weights)


def searching(seed: int, options: tuple[str, ...] = (), **attributes: int) -> onnx.ModelProto:
    """Return a model of sequences [batch, max_length] for input_ids [batch, length], with these optional inputs."""
    forms = {
        "input_ids": (INT32, ["batch", "length"]),
        "max_length": (INT32, [1]),
        "min_length": (INT32, [1]),
        "repetition_penalty": (FLOAT, [1]),
        "vocab_mask": (INT32, [VOCABULARY]),
        "prefix_vocab_mask": (INT32, ["batch", VOCABULARY]),
        "attention_mask": (INT32, ["batch", "length"]),
    }
    names = ["input_ids", "max_length", *(name if name in options else "" for name in OPTIONS)]
    node = helper.make_node(
        "GreedySearch", names, ["sequences"], name="search", domain="com.microsoft", decoder=decoder(seed),
        eos_token_id=END, pad_token_id=PAD, model_type=0, **attributes,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "searching",
        [helper.make_tensor_value_info(name, *forms[name]) for name in names if name],
        [helper.make_tensor_value_info("sequences", INT32, ["batch", "max_length"])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with a decoder of half precision."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    (graph,) = (each.g for each in made.graph.node[0].attribute if each.name == "decoder")
    for weight in graph.initializer:
        if weight.data_type == FLOAT:
            half = numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(numpy_helper.from_array(half, weight.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for attribute in (each for node in graph.node for each in node.attribute if each.name == "to"):
        attribute.i = TensorProto.FLOAT16
    return made


def feeds(model: onnx.ModelProto) -> dict[str, Array]:
    """Return two texts, the first of which is padded at its begin, and all other inputs of `model`."""
    rng = np.random.default_rng(4)
    ids = rng.integers(4, VOCABULARY, (2, 4)).astype(np.int32)
    ids[0, :2] = PAD
    given: dict[str, Array] = {
        "input_ids": ids,
        "max_length": np.array([14], np.int32),
        "min_length": np.array([12], np.int32),
        "repetition_penalty": np.array([1.4], np.float32),
        "vocab_mask": (rng.random(VOCABULARY) < 0.7).astype(np.int32),
        "prefix_vocab_mask": (rng.random((2, VOCABULARY)) < 0.5).astype(np.int32),
        "attention_mask": (ids != PAD).astype(np.int32),
    }
    return {value.name: given[value.name] for value in model.graph.input}
