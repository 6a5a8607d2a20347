"""What the searches of com.microsoft (GreedySearch, BeamSearch) share: nodes of ai.onnx that feed a decoder and process
the scores of its next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.names import graph_of

FIRST_OPSET = 13
"""The operator set in which Squeeze and ReduceSum take their axes as inputs, as the nodes here write them."""

LOWEST = np.float32(np.finfo(np.float32).min)
_PAST_RANK = 5


class Nodes:
    """Writes nodes whose results have names of their own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.nodes: list[onnx.NodeProto] = []

    def name(self, of: str) -> str:
        return f"{self._prefix}/{of}"

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.add_many(kind, inputs, 1, domain=domain, **attributes)[0]

    def add_many(
        self, kind: str, inputs: tuple[str, ...], count: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        name = self.name(f"{kind.lower()}{len(self.nodes)}")
        names = [name, *(f"{name}.{number}" for number in range(1, count))]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, domain=domain, **attributes))
        return names

    def constant(self, value: object, dtype: type[np.generic] = np.int64) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def cast(self, value: str, to: int) -> str:
        return self.add("Cast", value, to=to)

    def filled(self, shape: str, value: object, dtype: type[np.generic]) -> str:
        """A tensor of this shape, each element `value`."""
        return self.add("ConstantOfShape", shape, value=numpy_helper.from_array(np.asarray([value], dtype)))

    def numbers(self, count: str) -> str:
        """0 to `count` - 1, i64 [1], as i64 [count]."""
        end = self.add("Squeeze", count, self.constant([0]))
        return self.add("Range", self.constant(0), end, self.constant(1))


class Search(NamedTuple):
    """A search: its graph `decoder`, its attributes that are numbers, and the names of its inputs, "" where absent."""

    decoder: onnx.GraphProto
    number: dict[str, int]
    given: dict[str, str]


def search_of(w: Nodes, proto: onnx.NodeProto, inputs: tuple[str, ...], version: int) -> Search:
    """Return what the node `proto` searches; `inputs` are the names of its operands in order.

    The operands get names of their own: the decoder's nodes, between which the loop reads them, may use the same ones.

    `version` is the operator set of ai.onnx. Raises Fault for a decoder of another form than GPT-2's, Unsupported for
    another kind of model.
    """
    if version < FIRST_OPSET:
        raise Unsupported(f"it needs operator set {FIRST_OPSET} of ai.onnx or later, got {version}")
    attributes = {each.name: each for each in proto.attribute}
    number = {key: int(each.i) for key, each in attributes.items()}
    if number.get("model_type", 0) != 0 or "encoder" in attributes or "init_decoder" in attributes:
        raise Unsupported("only decoders like GPT-2's (model_type 0), without init_decoder, can be searched")
    decoder = graph_of(proto, "decoder")
    if len(decoder.input) < 4 or len(decoder.output) != 1 + len(decoder.input[3:]):
        raise Fault(
            "its decoder must have input_ids, position_ids, attention_mask and pasts, and give logits and presents"
        )
    size, width = number.get("vocab_size", 0), _last_size(decoder.output[0])
    if size > 0 and width not in (0, size):
        raise Unsupported(f"attribute 'vocab_size' is {size}, but its decoder gives {width} logits")
    names = [*proto.input, *[""] * (len(inputs) - len(proto.input))]
    given = {formal: name and w.add("Identity", name) for formal, name in zip(inputs, names, strict=True)}
    return Search(decoder, number, given)


def _last_size(value: onnx.ValueInfoProto) -> int:
    """The declared size of the last axis; 0 where there is none."""
    dims = value.type.tensor_type.shape.dim
    return int(dims[-1].dim_value) if dims else 0


def first_mask(w: Nodes, search: Search) -> str:
    """Which of `input_ids` [texts, length] are no padding, 1 or 0 each: an input or the padding token tells."""
    if search.given["attention_mask"]:
        return search.given["attention_mask"]
    pad = w.constant(search.number["pad_token_id"], np.int32)
    return w.cast(w.add("Not", w.add("Equal", search.given["input_ids"], pad)), TensorProto.INT32)


def empty_pasts(w: Nodes, search: Search, texts: Sequence[str]) -> list[str]:
    """The pasts of the decoder's first run: [2, *texts, heads, 0, depth]. `texts` are sizes, i64 [1] each."""
    pasts = []
    for past in search.decoder.input[3:]:
        sizes = [dim.dim_value for dim in past.type.tensor_type.shape.dim]
        if len(sizes) != _PAST_RANK or sizes[2] <= 0 or sizes[4] <= 0:
            raise Fault(
                f"past {past.name!r} must be declared as [2, batch, heads, past, depth], heads and depth as numbers"
            )
        shape = w.add("Concat", w.constant([2]), *texts, w.constant([sizes[2], 0, sizes[4]]), axis=0)
        pasts.append(w.filled(shape, 0, helper.tensor_dtype_to_np_dtype(past.type.tensor_type.elem_type).type))
    return pasts


def feed(w: Nodes, search: Search, first: str, new: str, pasts: Sequence[str]) -> None:
    """Write nodes that make the decoder's inputs: of `new` ids [texts, n] i32, and of pasts.

    All tokens behind those of the `first` mask [texts, length] count. So sizes are sums of two, of the new ids and of a
    past: a mask that the loop carried would have one of its own.
    """
    ids, positions, mask, *names = (value.name for value in search.decoder.input)
    one = w.constant([1])
    before = w.add("Shape", pasts[0], start=_PAST_RANK - 2, end=_PAST_RANK - 1)
    total = w.add("Add", before, w.add("Shape", new, start=1, end=2))
    ones = w.filled(w.add("Concat", w.add("Shape", first, start=0, end=1), one, axis=0), 1, np.int32)
    columns = w.add("Min", w.numbers(total), w.add("Shape", first, start=1, end=2))
    seen = w.add("Gather", w.add("Concat", first, ones, axis=1), columns, axis=1)
    no = w.constant(0, np.int32)
    places = w.add("Sub", w.add("CumSum", seen, w.constant(1)), w.constant(1, np.int32))
    places = w.add("Where", w.add("Equal", seen, no), no, places)
    made = [new, w.add("Slice", places, before, total, one), seen, *pasts]
    for name, value in zip((ids, positions, mask, *names), made, strict=True):
        w.nodes.append(helper.make_node("Identity", [value], [name], name=w.name(name)))


def newest_logits(w: Nodes, search: Search) -> str:
    """The logits of the next token, f32 [texts, vocabulary]."""
    newest = w.add("Gather", search.decoder.output[0].name, w.constant(-1), axis=1)
    return w.cast(newest, TensorProto.FLOAT)


def processed(w: Nodes, search: Search, scores: str, ids: str, iteration: str) -> str:
    """The `scores` of the next token, with those of tokens that must not follow lowered."""
    given, number = search.given, search.number
    lowest = w.constant(LOWEST, np.float32)
    penalty = given["repetition_penalty"]
    if penalty:
        of_ids = w.add("GatherElements", scores, ids, axis=1)
        negative = w.add("Less", of_ids, w.constant(0, np.float32))
        changed = w.add("Where", negative, w.add("Mul", of_ids, penalty), w.add("Div", of_ids, penalty))
        scores = w.add("ScatterElements", scores, ids, changed, axis=1)
    if number.get("no_repeat_ngram_size", 0) > 0:
        wide = w.cast(ids, TensorProto.INT64)
        longest = number["no_repeat_ngram_size"]
        blocked = w.add("NGramRepeatBlock", wide, scores, domain="com.microsoft", ngram_size=longest)
        scores = w.add("Max", blocked, lowest)
    if given["vocab_mask"]:
        scores = w.add("Where", w.cast(given["vocab_mask"], TensorProto.BOOL), scores, lowest)
    if given["prefix_vocab_mask"]:
        prefix = w.cast(given["prefix_vocab_mask"], TensorProto.BOOL)
        scores = w.add("Where", w.add("Or", prefix, w.cast(iteration, TensorProto.BOOL)), scores, lowest)
    if given["min_length"]:
        length = w.add("Shape", ids, start=1, end=2)
        short = w.add("Less", length, w.cast(given["min_length"], TensorProto.INT64))
        tokens = w.numbers(w.add("Shape", scores, start=1, end=2))
        is_end = w.add("Equal", tokens, w.constant(number["eos_token_id"]))
        scores = w.add("Where", w.add("And", is_end, short), lowest, scores)
    return scores


def loop(w: Nodes, name: str, search: Search, start: list[str], body: onnx.GraphProto, scanned: int = 0) -> list[str]:
    """The results of a Loop of `body` for the values `start`, which ends after `max_length` tokens, and `scanned`
    stacked ones."""
    last = w.add("Sub", w.cast(search.given["max_length"], TensorProto.INT64), length_of(w, search))
    limit = w.add("Squeeze", last, w.constant([0]))
    made = [w.name(f"made{at}") for at in range(len(start) + scanned)]
    w.nodes.append(helper.make_node("Loop", [limit, "", *start], made, name=name, body=body))
    return made


def length_of(w: Nodes, search: Search) -> str:
    return w.add("Shape", search.given["input_ids"], start=1, end=2)


def formal_pasts(w: Nodes, search: Search, axes: int = 1) -> list[onnx.ValueInfoProto]:
    """The pasts as inputs of the loop's body, with as many axes for texts."""
    made = []
    for past in search.decoder.input[3:]:
        formal = onnx.ValueInfoProto()
        formal.CopyFrom(past)
        formal.name = w.name(past.name)
        for _ in range(axes - 1):
            formal.type.tensor_type.shape.dim.insert(1, onnx.TensorShapeProto.Dimension())
        made.append(formal)
    return made


def step(w: Nodes, search: Search, formals: list[onnx.ValueInfoProto], results: list[str]) -> onnx.GraphProto:
    """The body of the loop: the nodes that `w` wrote, the decoder's among them."""
    return helper.make_graph(
        w.nodes,
        "step",
        formals,
        [helper.make_empty_tensor_value_info(each) for each in results],
        search.decoder.initializer,
        sparse_initializer=search.decoder.sparse_initializer,
    )


def padded(w: Nodes, ids: str, max_length: str, pad: int, rank: int) -> str:
    """`ids` with `pad` behind their last axis until that has `max_length` elements."""
    missing = w.add("Sub", w.cast(max_length, TensorProto.INT64), w.add("Shape", ids, start=rank - 1, end=rank))
    ends = w.add("Concat", w.constant([0] * (2 * rank - 1)), missing, axis=0)
    return w.add("Pad", ids, ends, w.constant(pad, np.int32))
