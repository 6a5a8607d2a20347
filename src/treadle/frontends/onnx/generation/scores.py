"""What the searches of com.microsoft do to the scores of the next token before they choose it."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from treadle.frontends.onnx.generation.nodes import Nodes
from treadle.frontends.onnx.generation.search import Search

LOWEST = np.float32(np.finfo(np.float32).min)


def processed(w: Nodes, search: Search, scores: str, ids: str, *, is_first: str) -> str:
    """The `scores` of the next token, with those of tokens that must not follow `ids` lowered.

    `is_first` is a bool, whether this is the search's first step; "" in other steps.
    """
    given, number = search.given, search.number
    lowest = w.constant(LOWEST, np.float32)
    penalty = given["repetition_penalty"]
    if penalty:
        of_ids = w.add("GatherElements", scores, ids, axis=1)
        negative = w.add("Less", of_ids, w.constant(0, np.float32))
        changed = w.add("Where", negative, w.add("Mul", of_ids, penalty), w.add("Div", of_ids, penalty))
        scores = w.add("ScatterElements", scores, ids, changed, axis=1)
    longest = int(number.get("no_repeat_ngram_size", 0))
    if longest > 0:
        wide = w.cast(ids, TensorProto.INT64)
        blocked = w.add("NGramRepeatBlock", wide, scores, domain="com.microsoft", ngram_size=longest)
        scores = w.add("Max", blocked, lowest)
    if given["vocab_mask"]:
        scores = w.add("Where", w.cast(given["vocab_mask"], TensorProto.BOOL), scores, lowest)
    if given["prefix_vocab_mask"] and is_first:
        prefix = w.cast(given["prefix_vocab_mask"], TensorProto.BOOL)
        scores = w.add("Where", w.add("Or", prefix, w.add("Not", is_first)), scores, lowest)
    if given["min_length"]:
        short = w.add("Less", w.size(ids, 1), w.cast(given["min_length"], TensorProto.INT64))
        tokens = w.numbers(w.size(scores, 1))
        is_end = w.add("Equal", tokens, w.constant(search.token("eos_token_id")))
        scores = w.add("Where", w.add("And", is_end, short), lowest, scores)
    return scores
