"""The decoder of `greedy_search` in a BeamSearch of com.microsoft."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.models.greedy_search import END, INT32, OPTIONS, PAD, VOCABULARY, decoder, feeds
from tests.models.small import FLOAT, Array

BEAMS, RETURNED = 3, 3
FORMS = {
    "input_ids": (INT32, ["batch", "length"]),
    "max_length": (INT32, [1]),
    "min_length": (INT32, [1]),
    "num_beams": (INT32, [1]),
    "num_return_sequences": (INT32, [1]),
    "length_penalty": (FLOAT, [1]),
    "repetition_penalty": (FLOAT, [1]),
    "vocab_mask": (INT32, [VOCABULARY]),
    "prefix_vocab_mask": (INT32, ["batch", VOCABULARY]),
    "attention_mask": (INT32, ["batch", "length"]),
}


def searching(seed: int, options: tuple[str, ...] = (), *, model_type: int = 0, **attributes: int) -> onnx.ModelProto:
    """Return a model of sequences, their scores, and those of all steps, with these optional inputs."""
    names = [name if name not in OPTIONS or name in (*options, "min_length") else "" for name in FORMS]
    outputs = {
        "sequences": (INT32, ["batch", "returned", "max_length"]),
        "sequences_scores": (FLOAT, ["batch", "returned"]),
        "scores": (FLOAT, ["steps", "batch", "beams", VOCABULARY]),
    }
    node = helper.make_node(
        "BeamSearch", names, list(outputs), name="search", domain="com.microsoft", decoder=decoder(seed),
        eos_token_id=END, pad_token_id=PAD, model_type=model_type, **attributes,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "searching",
        [helper.make_tensor_value_info(name, *FORMS[name]) for name in names if name],
        [helper.make_tensor_value_info(name, *form) for name, form in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def beam_feeds(model: onnx.ModelProto, length_penalty: float, min_length: int) -> dict[str, Array]:
    """Return the feeds of `greedy_search`, and those that beams need."""
    numbers = {"num_beams": BEAMS, "num_return_sequences": RETURNED, "min_length": min_length}
    more = {name: np.array([number], np.int32) for name, number in numbers.items()}
    more["length_penalty"] = np.array([length_penalty], np.float32)
    known = feeds(onnx.ModelProto(graph=onnx.GraphProto(input=[v for v in model.graph.input if v.name not in more])))
    return {value.name: (known | more)[value.name] for value in model.graph.input}
