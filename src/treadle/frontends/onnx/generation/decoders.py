"""The decoders of searches: what feeds them, and what they give for the next run.

A decoder like GPT-2's reads ids, their positions, a mask and pasts, and may have another graph for its first run. That
of an encoder-decoder model like T5 reads ids, the encoder's mask and maybe states, and pasts of its own and of the
encoder's texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.generation.nodes import Nodes

_GPT_INPUTS = 3
"""The ids, positions and mask of a decoder like GPT-2's, before its pasts."""
_PAST_RANK = 5
_ENCODER_OUTPUTS = 2
"""The logits and hidden states of an encoder that also makes the first run of the decoder, before its pasts."""


class Start(NamedTuple):
    """What a search starts with, each for one text: the ids, what all runs read besides ids and pasts, and the pasts.

    `logits` are those of a first run, which has made the pasts; "" if there was none, and the pasts are empty.
    """

    ids: str
    context: list[str]
    pasts: list[str]
    logits: str


class Decoder(ABC):
    """The graph that a search runs for each token."""

    axis: int
    """The axis of pasts for texts."""
    reads_all_ids = False
    """Whether each run reads the ids of whole texts, not only the new ones."""

    def __init__(self, graph: onnx.GraphProto, pasts: Sequence[onnx.ValueInfoProto]) -> None:
        self.graph = graph
        self._pasts = pasts

    @property
    def presents(self) -> list[str]:
        """The names of the results that are the pasts of the next run."""
        return [value.name for value in self.graph.output[1:]]

    @abstractmethod
    def start(self, w: Nodes, ids: str, mask: str) -> Start:
        """Write the nodes in front of the loop, for the search's `ids` and its `mask`, which is "" if it has none."""

    @abstractmethod
    def feed(self, w: Nodes, ids: str, context: Sequence[str], pasts: Sequence[str]) -> None:
        """Write nodes that make the graph's inputs, of ids [texts, n] i32, the `context` and pasts."""

    def formals(self, w: Nodes, axes: int = 1) -> list[onnx.ValueInfoProto]:
        """The pasts as inputs of the loop's body, with as many axes for texts."""
        made = []
        for past in self._pasts:
            formal = onnx.ValueInfoProto()
            formal.CopyFrom(past)
            formal.name = w.name(past.name)
            for _ in range(axes - 1):
                formal.type.tensor_type.shape.dim.insert(self.axis, onnx.TensorShapeProto.Dimension())
            made.append(formal)
        return made


class GptDecoder(Decoder):
    """A decoder like GPT-2's. Its graph `first`, if any, computes the first run."""

    axis = 1

    def __init__(self, graph: onnx.GraphProto, first: onnx.GraphProto | None, pad: int) -> None:
        for each in (graph, first):
            if each is not None and (
                len(each.input) <= _GPT_INPUTS or len(each.output) != 1 + len(each.input[_GPT_INPUTS:])
            ):
                raise Fault(
                    "its decoder must have input_ids, position_ids, attention_mask and pasts, and give logits and"
                    " presents"
                )
        if first is not None and len(first.input) != len(graph.input):
            raise Fault("its init_decoder must have as many pasts as its decoder")
        super().__init__(graph, graph.input[_GPT_INPUTS:])
        self._first = first
        self._pad = pad

    def start(self, w: Nodes, ids: str, mask: str) -> Start:
        context = [mask or w.cast(_is_token(w, ids, self._pad), TensorProto.INT32)]
        pasts = self._empty_pasts(w, w.size(ids, 0))
        if self._first is None:
            return Start(ids, context, pasts, "")
        inner = Nodes(w.name("first"))
        self._feed(inner, self._first, ids, context, pasts)
        logits, *presents = _in_place(w, inner, self._first)
        return Start(ids, context, presents, logits)

    def feed(self, w: Nodes, ids: str, context: Sequence[str], pasts: Sequence[str]) -> None:
        self._feed(w, self.graph, ids, context, pasts)

    @staticmethod
    def _feed(w: Nodes, graph: onnx.GraphProto, new: str, context: Sequence[str], pasts: Sequence[str]) -> None:
        """Write nodes that make the inputs of `graph`.

        All tokens behind those of the first mask [texts, length] count. So sizes are sums of two, of the new ids and of
        a past: a mask that the loop carried would have one of its own.
        """
        (first,) = context
        one = w.constant([1])
        before = w.size(pasts[0], _PAST_RANK - 2)
        total = w.add("Add", before, w.size(new, 1))
        ones = w.filled(w.add("Concat", w.size(first, 0), one, axis=0), 1, np.int32)
        columns = w.add("Min", w.numbers(total), w.size(first, 1))
        seen = w.add("Gather", w.add("Concat", first, ones, axis=1), columns, axis=1)
        no = w.constant(0, np.int32)
        places = w.add("Sub", w.add("CumSum", seen, w.constant(1)), w.constant(1, np.int32))
        places = w.add("Where", w.add("Equal", seen, no), no, places)
        _call(w, [new, w.add("Slice", places, before, total, one), seen, *pasts], graph)

    def _empty_pasts(self, w: Nodes, texts: str) -> list[str]:
        """The pasts of the first run: [2, texts, heads, 0, depth]. `texts` is a size, i64 [1]."""
        pasts = []
        for past in self._pasts:
            sizes = [dim.dim_value for dim in past.type.tensor_type.shape.dim]
            if len(sizes) != _PAST_RANK or sizes[2] <= 0 or sizes[4] <= 0:
                raise Fault(
                    f"past {past.name!r} must be declared as [2, batch, heads, past, depth], heads and depth as numbers"
                )
            shape = w.add("Concat", w.constant([2]), texts, w.constant([sizes[2], 0, sizes[4]]), axis=0)
            pasts.append(w.filled(shape, 0, _dtype(past)))
        return pasts


class EncodedDecoder(Decoder):
    """The decoder of an encoder-decoder model, behind an encoder, which may make its first run, too.

    Its pasts are those of its own tokens, which grow, and those of the encoder's, which all runs share.
    """

    axis = 0

    def __init__(self, graph: onnx.GraphProto, encoder: onnx.GraphProto, first_id: int, pad: int) -> None:
        count = len(graph.output) - 1
        others = len(graph.input) - 2 * count
        if count <= 0 or count % 2 or others not in (2, 3):
            raise Fault(
                "its decoder must have input_ids, encoder_attention_mask, maybe encoder_hidden_states, and keys and"
                " values of its own and of the encoder's tokens, and give logits and its own keys and values"
            )
        self._runs_first = len(encoder.input) == 3
        wanted = _ENCODER_OUTPUTS + 2 * count if self._runs_first else count
        if len(encoder.input) not in (2, 3) or len(encoder.output) != wanted:
            raise Fault(
                "its encoder must have encoder_input_ids, encoder_attention_mask and maybe decoder_input_ids, and give"
                " the keys and values of its tokens; if it has all three, logits, hidden states and the decoder's"
                " before them"
            )
        self._reads_states = others == 3
        if self._reads_states and not self._runs_first:
            raise Unsupported("its decoder reads encoder_hidden_states, which an encoder of two inputs does not give")
        if first_id < 0:
            raise Unsupported("attribute 'decoder_start_token_id' must be given for an encoder-decoder model")
        super().__init__(graph, graph.input[others : others + count])
        length = graph.input[0].type.tensor_type.shape.dim[-1:]
        self.reads_all_ids = bool(length) and length[0].dim_value != 1
        self._encoder = encoder
        self._first_id, self._pad = first_id, pad

    def start(self, w: Nodes, ids: str, mask: str) -> Start:
        # only padding in front of a text is none of it, unlike in GptDecoder
        mask = mask or w.cast(_behind_first(w, _is_token(w, ids, self._pad)), TensorProto.INT32)
        first = w.filled(w.add("Concat", w.size(ids, 0), w.constant([1]), axis=0), self._first_id, np.int32)
        inner = Nodes(w.name("encoder"))
        _call(inner, [ids, mask, *([first] if self._runs_first else [])], self._encoder)
        made = _in_place(w, inner, self._encoder)
        if not self._runs_first:
            pasts = [self._empty(w, *each) for each in zip(self._pasts, made, strict=True)]
            return Start(first, [mask, *made], pasts, "")
        logits, states = made[:_ENCODER_OUTPUTS]
        end = _ENCODER_OUTPUTS + len(self._pasts)
        context = [mask, *([states] if self._reads_states else []), *made[end:]]
        return Start(first, context, made[_ENCODER_OUTPUTS:end], logits)

    def feed(self, w: Nodes, ids: str, context: Sequence[str], pasts: Sequence[str]) -> None:
        others = 1 + int(self._reads_states)
        _call(w, [ids, *context[:others], *pasts, *context[others:]], self.graph)

    @staticmethod
    def _empty(w: Nodes, past: onnx.ValueInfoProto, like: str) -> str:
        """A past [texts, heads, 0, depth], with the texts, heads and depth of the encoder's."""
        shape = w.add("Concat", w.add("Shape", like, start=0, end=2), w.constant([0]), w.size(like, 3), axis=0)
        return w.filled(shape, 0, _dtype(past))


def _dtype(value: onnx.ValueInfoProto) -> type[np.generic]:
    return helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).type


def _is_token(w: Nodes, ids: str, pad: int) -> str:
    """Which of `ids` are no padding."""
    return w.add("Not", w.add("Equal", ids, w.constant(pad, np.int32)))


def _behind_first(w: Nodes, found: str) -> str:
    """Which elements of `found` [texts, length] are true, or behind one that is."""
    return w.cast(w.add("CumSum", w.cast(found, TensorProto.INT32), w.constant(1)), TensorProto.BOOL)


def _call(w: Nodes, values: Sequence[str], graph: onnx.GraphProto) -> None:
    """Give `values` the names of the inputs of `graph`."""
    for formal, value in zip(graph.input, values, strict=True):
        w.called(value, formal.name)


def _in_place(w: Nodes, feeding: Nodes, graph: onnx.GraphProto) -> list[str]:
    """The results of `graph` behind the nodes that feed it: a side of an If, whose names hide no others."""
    side = helper.make_graph(
        [*feeding.nodes, *graph.node],
        graph.name,
        [],
        graph.output,
        graph.initializer,
        sparse_initializer=graph.sparse_initializer,
    )
    always = w.constant(value=True, dtype=np.bool_)
    return w.add_many("If", (always,), len(graph.output), then_branch=side, else_branch=side)
