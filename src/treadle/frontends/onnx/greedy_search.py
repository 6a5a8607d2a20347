"""GreedySearch of com.microsoft as a Loop of ai.onnx, whose body is the decoder and the choice of the next token."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.frontends.onnx.search_nodes import (
    Nodes,
    Search,
    empty_pasts,
    feed,
    first_mask,
    formal_pasts,
    loop,
    newest_logits,
    padded,
    processed,
    search_of,
    step,
)

_INPUTS = (
    "input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask",
)  # fmt: skip


def greedy_search(proto: onnx.NodeProto, name: str, version: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return nodes that compute what the GreedySearch `proto` gives, and the names of its results.

    They are of operator set `version` of ai.onnx. Raises Fault for a decoder of another form, Unsupported for another
    kind of model.
    """
    w = Nodes(name)
    search = search_of(w, proto, _INPUTS, version)
    ids = search.given["input_ids"]
    batch = w.add("Shape", ids, start=0, end=1)
    ended = w.filled(w.add("Concat", batch, w.constant([1]), axis=0), False, np.bool_)
    start = [ids, ended, ids, *empty_pasts(w, search, [batch])]
    made = loop(w, name, search, start, _body(name, search, first_mask(w, search)))
    return w.nodes, [padded(w, made[0], search.given["max_length"], search.number["pad_token_id"], 2)]


def _body(name: str, search: Search, mask: str) -> onnx.GraphProto:
    """The body of the loop: it carries the texts, whether each has ended, the new ids, and pasts."""
    w = Nodes(f"{name}.step")
    iteration, going, ids, ended, new = (w.name(each) for each in ("iteration", "going", "ids", "ended", "new"))
    pasts = formal_pasts(w, search)
    feed(w, search, mask, new, [past.name for past in pasts])
    w.nodes.extend(search.decoder.node)
    scores = processed(w, search, newest_logits(w, search), ids, iteration)
    best = w.cast(w.add("ArgMax", scores, axis=1, keepdims=1), TensorProto.INT32)
    ends = w.add("Or", ended, w.add("Equal", best, w.constant(search.number["eos_token_id"], np.int32)))
    token = w.add("Where", ends, w.constant(search.number["pad_token_id"], np.int32), best)
    going_on = w.cast(w.add("Not", ends), TensorProto.INT32)
    results = [
        w.cast(w.add("ReduceMax", going_on, keepdims=0), TensorProto.BOOL),
        w.add("Concat", ids, token, axis=1),
        ends,
        token,
        *(value.name for value in search.decoder.output[1:]),
    ]
    formals = [
        helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(ids, TensorProto.INT32, [None, None]),
        helper.make_tensor_value_info(ended, TensorProto.BOOL, [None, 1]),
        helper.make_tensor_value_info(new, TensorProto.INT32, [None, None]),
        *pasts,
    ]
    return step(w, search, formals, results)
