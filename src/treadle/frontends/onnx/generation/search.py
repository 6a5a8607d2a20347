"""What the searches of com.microsoft (BeamSearch, GreedySearch, Sampling) share: their operands, and their loops."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.generation.decoders import Decoder, EncodedDecoder, GptDecoder
from treadle.frontends.onnx.generation.nodes import Nodes
from treadle.frontends.onnx.names import graph_of

FIRST_OPSET = 13
"""The operator set in which Squeeze and ReduceSum take their axes as inputs, as the nodes here write them."""

GPT, ENCODER_DECODER = 0, 1
"""The kinds of models that a search's attribute 'model_type' names."""


class Search(NamedTuple):
    """A search: its decoder, its attributes that are numbers, and the names of its inputs, "" where absent."""

    decoder: Decoder
    number: dict[str, float]
    given: dict[str, str]

    def token(self, of: str) -> int:
        """The id in an attribute such as 'eos_token_id'."""
        return int(self.number[of])


def search_of(
    w: Nodes, proto: onnx.NodeProto, inputs: tuple[str, ...], version: int, kinds: tuple[int, ...] = (GPT,)
) -> Search:
    """Return what the node `proto` searches; `inputs` are the names of its operands in order.

    The operands get names of their own: the decoder's nodes, between which the loop reads them, may use the same ones.

    `version` is the operator set of ai.onnx. Raises Fault for a decoder of another form than its model's, Unsupported
    for a model of none of these `kinds`.
    """
    if version < FIRST_OPSET:
        raise Unsupported(f"it needs operator set {FIRST_OPSET} of ai.onnx or later, got {version}")
    attributes = {each.name: each for each in proto.attribute}
    number = {key: each.f if each.type == onnx.AttributeProto.FLOAT else each.i for key, each in attributes.items()}
    kind = number.get("model_type", GPT)
    if kind not in kinds:
        known = {GPT: "decoders like GPT-2's (model_type 0)", ENCODER_DECODER: "encoder-decoder models (model_type 1)"}
        raise Unsupported(f"only {' and '.join(known[each] for each in kinds)} can be searched, got model_type {kind}")
    names = [*proto.input, *[""] * (len(inputs) - len(proto.input))]
    given = {formal: name and w.add("Identity", name) for formal, name in zip(inputs, names, strict=True)}
    graph, pad = graph_of(proto, "decoder"), int(number["pad_token_id"])
    decoder: Decoder
    if kind == ENCODER_DECODER:
        if "encoder" not in attributes:
            raise Unsupported("an encoder-decoder model (model_type 1) must have a graph 'encoder'")
        first = int(number.get("decoder_start_token_id", -1))
        decoder = EncodedDecoder(graph, graph_of(proto, "encoder"), first, pad)
    elif "encoder" in attributes:
        raise Unsupported("a decoder like GPT-2's (model_type 0) must have no 'encoder'")
    else:
        decoder = GptDecoder(graph, graph_of(proto, "init_decoder") if "init_decoder" in attributes else None, pad)
    size, width = number.get("vocab_size", 0), _last_size(graph.output[0])
    if size > 0 and width not in (0, size):
        raise Unsupported(f"attribute 'vocab_size' is {size}, but its decoder gives {width} logits")
    return Search(decoder, number, given)


def _last_size(value: onnx.ValueInfoProto) -> int:
    """The declared size of the last axis; 0 where there is none."""
    dims = value.type.tensor_type.shape.dim
    return int(dims[-1].dim_value) if dims else 0


def newest_logits(w: Nodes, logits: str) -> str:
    """The logits of the next token, f32 [texts, vocabulary]."""
    return w.cast(w.add("Gather", logits, w.constant(-1), axis=1), TensorProto.FLOAT)


def steps_of(w: Nodes, search: Search, ids: str, needed: Mapping[str, str] = MappingProxyType({})) -> str:
    """How many tokens are missing until `ids` [texts, length] have `max_length`, i64 [1].

    Runs fail where there is none, where the penalty of repeated tokens is not positive, or where one of the `needed`
    conditions, bool [1] each, does not hold; the node that fails is named by their sentence.
    """
    zero, penalty = w.constant([0]), search.given["repetition_penalty"]
    missing = w.add("Sub", w.cast(search.given["max_length"], TensorProto.INT64), w.size(ids, 1))
    conditions = {"max_length must be greater than the length of texts": w.add("Greater", missing, zero), **needed}
    if penalty:
        positive = w.add("Greater", penalty, w.constant([0], np.float32))
        conditions["repetition_penalty must be positive"] = positive
    for that, condition in conditions.items():
        missing = w.required(missing, condition, that)
    return missing


class Loop(NamedTuple):
    """A loop of at most `steps` (i64 [1]) that starts if `going`, a bool; "" if it always does."""

    steps: str
    going: str


def add_loop(w: Nodes, name: str, loop: Loop, start: list[str], body: onnx.GraphProto, scanned: int = 0) -> list[str]:
    """The results of a loop of `body` for the values `start`, and `scanned` stacked ones."""
    limit = w.add("Squeeze", loop.steps, w.constant([0]))
    made = [w.name(f"made{at}") for at in range(len(start) + scanned)]
    w.nodes.append(helper.make_node("Loop", [limit, loop.going, *start], made, name=name, body=body))
    return made


def body_of(w: Nodes, search: Search, formals: list[onnx.ValueInfoProto], results: list[str]) -> onnx.GraphProto:
    """The body of the loop: the nodes that `w` wrote, the decoder's among them."""
    graph = search.decoder.graph
    return helper.make_graph(
        w.nodes,
        "step",
        formals,
        [helper.make_empty_tensor_value_info(each) for each in results],
        graph.initializer,
        sparse_initializer=graph.sparse_initializer,
    )


def padded(w: Nodes, ids: str, search: Search, rank: int) -> str:
    """`ids` with padding behind their last axis until that has `max_length` elements."""
    missing = w.add("Sub", w.cast(search.given["max_length"], TensorProto.INT64), w.size(ids, rank - 1))
    ends = w.add("Concat", w.constant([0] * (2 * rank - 1)), missing, axis=0)
    return w.add("Pad", ids, ends, w.constant(search.token("pad_token_id"), np.int32))
