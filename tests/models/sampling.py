"""A decoder of GPT-2's kind whose logits follow from the last id alone, in a Sampling of com.microsoft."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.models.greedy_search import INT32
from tests.models.small import FLOAT, Array, ModelWriter

VOCABULARY, PAD, END = 60, 0, 59
_FORMS = {
    "input_ids": (INT32, ["batch", "length"]),
    "max_length": (INT32, [1]),
    "min_length": (INT32, [1]),
    "repetition_penalty": (FLOAT, [1]),
    "vocab_mask": (INT32, [VOCABULARY]),
    "prefix_vocab_mask": (INT32, ["batch", VOCABULARY]),
    "attention_mask": (INT32, ["batch", "length"]),
    "presence_mask": (INT32, ["batch", VOCABULARY]),
    "seed": (INT32, [1]),
}


def _decoder() -> onnx.GraphProto:
    w = ModelWriter()
    table = 2 * np.random.default_rng(0).standard_normal((VOCABULARY, VOCABULARY)).astype(np.float32)
    table[:, END] -= 4
    w.op("Gather", w.constant(table), "input_ids")
    w.nodes[-1].output[0] = "logits"
    places = w.op("Unsqueeze", w.op("Cast", "position_ids", to=FLOAT), w.constant(np.array([0, 2, 4])))
    w.op("Concat", "past_0", w.op("Expand", places, w.constant(np.array([2, 1, 1, 1, 1]))), axis=3)
    w.nodes[-1].output[0] = "present_0"
    inputs = [
        helper.make_tensor_value_info(name, INT32, ["batch", length])
        for name, length in (("input_ids", "new"), ("position_ids", "new"), ("attention_mask", "total"))
    ]
    past, present = (
        helper.make_tensor_value_info(f"{name}_0", FLOAT, [2, "batch", 1, name, 1]) for name in ("past", "present")
    )
    logits = helper.make_tensor_value_info("logits", FLOAT, ["batch", "new", VOCABULARY])
    return helper.make_graph(w.nodes, "decoder", [*inputs, past], [logits, present], w.weights)


def sampling(options: tuple[str, ...] = ("seed",), *, filtered: bool = False, **attributes: float) -> onnx.ModelProto:
    """Return a model of sequences, with these optional inputs; if `filtered`, of logits, too."""
    names = [name if name in ("input_ids", "max_length", *options) else "" for name in _FORMS]
    outputs = {"sequences": (INT32, ["batch", "max_length"]), "filtered_logits": (FLOAT, ["batch", VOCABULARY])}
    made = list(outputs)[: 1 + filtered]
    node = helper.make_node(
        "Sampling", names, made, name="search", domain="com.microsoft", decoder=_decoder(),
        eos_token_id=END, pad_token_id=PAD, model_type=0, **attributes,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "sampling",
        [helper.make_tensor_value_info(name, *_FORMS[name]) for name in names if name],
        [helper.make_tensor_value_info(name, *outputs[name]) for name in made],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def sampling_feeds(model: onnx.ModelProto, seed: int, texts: int = 3) -> dict[str, Array]:
    """Return some texts, and all other inputs of `model`."""
    rng = np.random.default_rng(5)
    given: dict[str, Array] = {
        "input_ids": rng.integers(1, END, (texts, 3)).astype(np.int32),
        "max_length": np.array([60], np.int32),
        "min_length": np.array([20], np.int32),
        "repetition_penalty": np.array([1.3], np.float32),
        "vocab_mask": (rng.random(VOCABULARY) < 0.8).astype(np.int32),
        "prefix_vocab_mask": (rng.random((texts, VOCABULARY)) < 0.5).astype(np.int32),
        "presence_mask": np.zeros((texts, VOCABULARY), np.int32),
        "seed": np.array([seed], np.int32),
    }
    return {value.name: given[value.name] for value in model.graph.input}
