"""Searches that keep one text per row, as a Loop of ai.onnx whose body is the decoder and the choice of a token."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.frontends.onnx.generation.nodes import Nodes
from treadle.frontends.onnx.generation.scores import processed
from treadle.frontends.onnx.generation.search import (
    Loop,
    Search,
    add_loop,
    body_of,
    newest_logits,
    padded,
    steps_of,
)


class Choice(ABC):
    """How a search chooses the next token of each text, and the values that this needs from one step to the next."""

    @abstractmethod
    def formals(self, w: Nodes) -> list[onnx.ValueInfoProto]:
        """The values that the choice carries, as inputs of the loop's body."""

    @abstractmethod
    def token(self, w: Nodes, scores: str, carried: list[str]) -> tuple[str, list[str]]:
        """The next tokens, i32 [texts, 1], for `scores` f32 [texts, vocabulary], and the values carried on."""


def single_beam(
    w: Nodes, name: str, search: Search, choice: Choice, carried: list[str]
) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return the nodes and results of a `search` with a decoder like GPT-2's, which starts with `carried` values."""
    start = search.decoder.start(w, search.given["input_ids"], search.given["attention_mask"])
    ended = w.filled(w.add("Concat", w.size(start.ids, 0), w.constant([1]), axis=0), False, np.bool_)
    steps, going = steps_of(w, search, start.ids), ""
    state = [start.ids, ended, start.ids, *carried]
    if start.logits:
        going, *state = _chosen(w, search, choice, state, start.logits, is_first=w.constant(value=True, dtype=np.bool_))
        steps = w.add("Sub", steps, w.constant([1]))
    body = _body(name, search, choice, start.context, is_first=not start.logits)
    made = add_loop(w, name, Loop(steps, going), [*state, *start.pasts], body)
    return w.nodes, [padded(w, made[0], search, 2)]


def _body(name: str, search: Search, choice: Choice, context: list[str], *, is_first: bool) -> onnx.GraphProto:
    """The body of the loop, which carries the texts, whether each has ended, the new ids, what the choice needs, pasts.

    `is_first` says whether its first step is that of the search.
    """
    w = Nodes(f"{name}.step")
    iteration, going, ids, ended, new = (w.name(each) for each in ("iteration", "going", "ids", "ended", "new"))
    carried, pasts = choice.formals(w), search.decoder.formals(w)
    search.decoder.feed(w, new, context, [past.name for past in pasts])
    w.nodes.extend(search.decoder.graph.node)
    state = [ids, ended, new, *(value.name for value in carried)]
    now = w.add("Not", w.cast(iteration, TensorProto.BOOL)) if is_first else ""
    results = _chosen(w, search, choice, state, search.decoder.graph.output[0].name, is_first=now)
    formals = [
        helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(ids, TensorProto.INT32, [None, None]),
        helper.make_tensor_value_info(ended, TensorProto.BOOL, [None, 1]),
        helper.make_tensor_value_info(new, TensorProto.INT32, [None, None]),
        *carried,
        *pasts,
    ]
    return body_of(w, search, formals, [*results, *search.decoder.presents])


def _chosen(w: Nodes, search: Search, choice: Choice, state: list[str], logits: str, *, is_first: str) -> list[str]:
    """Whether a text goes on, and the next state: texts, whether each has ended, new ids, what the choice carries."""
    ids, ended, _, *carried = state
    scores = processed(w, search, newest_logits(w, logits), ids, is_first=is_first)
    best, carried = choice.token(w, scores, carried)
    ends = w.add("Or", ended, w.add("Equal", best, w.constant(search.token("eos_token_id"), np.int32)))
    token = w.add("Where", ends, w.constant(search.token("pad_token_id"), np.int32), best)
    going_on = w.cast(w.add("Not", ends), TensorProto.INT32)
    going = w.cast(w.add("ReduceMax", going_on, keepdims=0), TensorProto.BOOL)
    return [going, w.add("Concat", ids, token, axis=1), ends, token, *carried]
