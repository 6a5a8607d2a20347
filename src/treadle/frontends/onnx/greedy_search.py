"""GreedySearch of com.microsoft as a Loop of ai.onnx, whose body is the decoder and the choice of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.names import graph_of

FIRST_OPSET = 13
"""The operator set in which Squeeze and ReduceSum take their axes as inputs, as the nodes here write them."""

_LOWEST = np.float32(np.finfo(np.float32).min)
_PAST_RANK = 5


class _Nodes:
    """Writes nodes whose results have names of their own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.nodes: list[onnx.NodeProto] = []

    def name(self, of: str) -> str:
        return f"{self._prefix}/{of}"

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = self.name(f"{kind.lower()}{len(self.nodes)}")
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, value: object, dtype: type[np.generic] = np.int64) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def cast(self, value: str, to: int) -> str:
        return self.add("Cast", value, to=to)


def greedy_search(proto: onnx.NodeProto, name: str, version: int) -> tuple[list[onnx.NodeProto], str]:
    """Return nodes that compute what the GreedySearch `proto` gives, and the name of their result.

    They are of operator set `version` of ai.onnx. Raises Fault for a decoder of another form, Unsupported for another
    kind of model.
    """
    if version < FIRST_OPSET:
        raise Unsupported(f"it needs operator set {FIRST_OPSET} of ai.onnx or later, got {version}")
    attributes = {each.name: each for each in proto.attribute}
    number = {key: int(each.i) for key, each in attributes.items()}
    if number.get("model_type", 0) != 0 or "encoder" in attributes or "init_decoder" in attributes:
        raise Unsupported("only decoders like GPT-2's (model_type 0), without init_decoder, can be searched")
    decoder = graph_of(proto, "decoder")
    pasts = decoder.input[3:]
    if len(decoder.input) < 4 or len(decoder.output) != 1 + len(pasts):
        raise Fault(
            "its decoder must have input_ids, position_ids, attention_mask and pasts, and give logits and presents"
        )
    given = [*proto.input, *[""] * (7 - len(proto.input))]
    ids, max_length, min_length, penalty, vocabulary, prefix, mask = given
    w = _Nodes(name)
    pad, zero, one = number["pad_token_id"], w.constant([0]), w.constant([1])
    batch, length = w.add("Shape", ids, start=0, end=1), w.add("Shape", ids, start=1, end=2)
    if not mask:
        mask = w.cast(w.add("Not", w.add("Equal", ids, w.constant(pad, np.int32))), TensorProto.INT32)
    counted = w.add("CumSum", mask, w.constant(1))
    no = w.constant(0, np.int32)
    before = w.add("Sub", counted, w.constant(1, np.int32))
    positions = w.add("Where", w.add("Equal", mask, no), no, before)
    empty = []
    for past in pasts:
        sizes = [dim.dim_value for dim in past.type.tensor_type.shape.dim]
        if len(sizes) != _PAST_RANK or sizes[2] <= 0 or sizes[4] <= 0:
            raise Fault(
                f"past {past.name!r} must be declared as [2, batch, heads, past, depth], heads and depth as numbers"
            )
        shape = w.add("Concat", w.constant([2]), batch, w.constant([sizes[2], 0, sizes[4]]), axis=0)
        dtype = helper.tensor_dtype_to_np_dtype(past.type.tensor_type.elem_type)
        value = numpy_helper.from_array(np.zeros(1, dtype))
        empty.append(w.add("ConstantOfShape", shape, value=value))
    ended = w.add("ConstantOfShape", w.add("Concat", batch, one, axis=0), value=_array([False]))
    last = w.add("Sub", w.cast(max_length, TensorProto.INT64), length)
    limit = w.add("Squeeze", last, zero)
    body = _body(name, decoder, number, (min_length, penalty, vocabulary, prefix))
    start = [ids, ended, ids, positions, mask, *empty]
    made = [w.name(f"made{at}") for at in range(len(start))]
    w.nodes.append(helper.make_node("Loop", [limit, "", *start], made, name=name, body=body))
    missing = w.add("Sub", w.cast(max_length, TensorProto.INT64), w.add("Shape", made[0], start=1, end=2))
    ends = w.add("Concat", w.constant([0, 0, 0]), missing, axis=0)
    return w.nodes, w.add("Pad", made[0], ends, w.constant(pad, np.int32))


def _array(elements: Sequence[object]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(elements))


def _body(
    name: str, decoder: onnx.GraphProto, number: dict[str, int], options: tuple[str, str, str, str]
) -> onnx.GraphProto:
    """The body of the loop: it carries the texts, whether each has ended, and the inputs of the decoder."""
    w = _Nodes(f"{name}.step")
    iteration, going, ids, ended = (w.name(each) for each in ("iteration", "going", "ids", "ended"))
    newest = w.add("Gather", decoder.output[0].name, w.constant(-1), axis=1)
    scores = _processed(w, w.cast(newest, TensorProto.FLOAT), ids, iteration, number, options)
    best = w.cast(w.add("ArgMax", scores, axis=1, keepdims=1), TensorProto.INT32)
    ends = w.add("Or", ended, w.add("Equal", best, w.constant(number["eos_token_id"], np.int32)))
    token = w.add("Where", ends, w.constant(number["pad_token_id"], np.int32), best)
    past_mask = decoder.input[2].name
    next_position = w.add("ReduceSum", past_mask, w.constant([1]), keepdims=1)
    ones = w.add("Or", ends, w.add("Not", ends))
    going_on = w.cast(w.add("Not", ends), TensorProto.INT32)
    results = [
        w.cast(w.add("ReduceMax", going_on, keepdims=0), TensorProto.BOOL),
        w.add("Concat", ids, token, axis=1),
        ends,
        token,
        next_position,
        w.add("Concat", past_mask, w.cast(ones, TensorProto.INT32), axis=1),
        *(value.name for value in decoder.output[1:]),
    ]
    formals = [
        helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(ids, TensorProto.INT32, [None, None]),
        helper.make_tensor_value_info(ended, TensorProto.BOOL, [None, 1]),
        *decoder.input,
    ]
    return helper.make_graph(
        [*decoder.node, *w.nodes],
        "step",
        formals,
        [helper.make_empty_tensor_value_info(each) for each in results],
        decoder.initializer,
        sparse_initializer=decoder.sparse_initializer,
    )


def _processed(
    w: _Nodes, scores: str, ids: str, iteration: str, number: dict[str, int], options: tuple[str, str, str, str]
) -> str:
    """The `scores` of the next token, with those of tokens that must not follow lowered."""
    min_length, penalty, vocabulary, prefix = options
    lowest = w.constant(_LOWEST, np.float32)
    if penalty:
        of_ids = w.add("GatherElements", scores, ids, axis=1)
        negative = w.add("Less", of_ids, w.constant(0, np.float32))
        changed = w.add("Where", negative, w.add("Mul", of_ids, penalty), w.add("Div", of_ids, penalty))
        scores = w.add("ScatterElements", scores, ids, changed, axis=1)
    if number.get("no_repeat_ngram_size", 0) > 0:
        wide = w.cast(ids, TensorProto.INT64)
        longest = number["no_repeat_ngram_size"]
        scores = w.add("NGramRepeatBlock", wide, scores, domain="com.microsoft", ngram_size=longest)
    if vocabulary:
        scores = w.add("Where", w.cast(vocabulary, TensorProto.BOOL), scores, lowest)
    if prefix:
        allowed = w.add("Or", w.cast(prefix, TensorProto.BOOL), w.cast(iteration, TensorProto.BOOL))
        scores = w.add("Where", allowed, scores, lowest)
    if min_length:
        length = w.add("Shape", ids, start=1, end=2)
        short = w.add("Less", length, w.cast(min_length, TensorProto.INT64))
        size = w.add("Shape", scores, start=1, end=2)
        tokens = w.add("Range", w.constant(0), w.add("Squeeze", size, w.constant([0])), w.constant(1))
        is_end = w.add("Equal", tokens, w.constant(number["eos_token_id"]))
        scores = w.add("Where", w.add("And", is_end, short), lowest, scores)
    return scores
