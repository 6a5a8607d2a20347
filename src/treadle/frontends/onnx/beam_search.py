"""BeamSearch of com.microsoft as a Loop of ai.onnx, whose body is the decoder and the choice of the next beams.

The loop carries texts and beams as two axes, which are one for the decoder: a plan then knows how their sizes are
related.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.search_nodes import (
    LOWEST,
    Nodes,
    Search,
    empty_pasts,
    feed,
    first_mask,
    formal_pasts,
    length_of,
    loop,
    newest_logits,
    padded,
    processed,
    search_of,
    step,
)

_INPUTS = (
    "input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty",
    "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask", "decoder_input_ids", "logits_processor",
)  # fmt: skip
_BEHIND = np.float32(-1e9)
"""The score of all beams but the first before the first step: beams are equal then, and one alone goes on."""
_GOING, _FINISHED = 0, 1
"""Which of the carried ids [2, texts, beams, length] are those of beams, and of the best finished texts."""


class _Sizes(NamedTuple):
    """The number of texts and of the beams of each, i64 [1] both."""

    texts: str
    beams: str


class _Finished(NamedTuple):
    """The best finished texts, best first: their scores [texts, beams], minus infinity where there is none, and their
    ids [texts, beams, length]."""

    scores: str
    ids: str


def beam_search(proto: onnx.NodeProto, name: str, version: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return nodes that compute what the BeamSearch `proto` gives, and the names of its results.

    They are of operator set `version` of ai.onnx. Raises Fault for a decoder of another form, Unsupported for another
    kind of model.
    """
    w = Nodes(name)
    search = search_of(w, proto, _INPUTS, version)
    for each in ("decoder_input_ids", "logits_processor"):
        if search.given[each]:
            raise Unsupported(f"its input {each!r} is not supported")
    given, one = search.given, w.constant([1])
    texts = w.add("Shape", given["input_ids"], start=0, end=1)
    sizes = _Sizes(texts, w.add("Reshape", w.cast(given["num_beams"], TensorProto.INT64), one))
    ids, mask = (_for_beams(w, each, sizes) for each in (given["input_ids"], first_mask(w, search)))
    prefix = given["prefix_vocab_mask"] and _for_beams(w, given["prefix_vocab_mask"], sizes)
    both = w.add("Concat", *sizes, axis=0)
    is_first = w.add("Equal", w.numbers(sizes.beams), w.constant(0))
    first = w.add("Where", is_first, w.constant(0, np.float32), w.constant(_BEHIND, np.float32))
    start = [
        w.add("Concat", *[w.add("Unsqueeze", ids, w.constant([0]))] * 2, axis=0),
        w.add("Expand", first, both),
        w.filled(w.add("Concat", texts, one, axis=0), False, np.bool_),
        w.filled(both, -np.inf, np.float32),
        ids,
        *empty_pasts(w, search, sizes),
    ]
    keeps_scores = len(proto.output) > 2 and bool(proto.output[2])
    inner = search._replace(given={**given, "prefix_vocab_mask": prefix, "attention_mask": mask})
    made = loop(w, name, search, start, _body(name, inner, keeps_scores=keeps_scores), scanned=int(keeps_scores))
    return w.nodes, _results(w, search, made, keeps_scores=keeps_scores)


def _for_beams(w: Nodes, x: str, sizes: _Sizes) -> str:
    """`x` [texts, n] for each beam: [texts, beams, n]."""
    shape = w.add("Concat", *sizes, w.add("Shape", x, start=1, end=2), axis=0)
    return w.add("Expand", w.add("Unsqueeze", x, w.constant([1])), shape)


def _flat(w: Nodes, x: str, axis: int = 0) -> str:
    """`x` with one axis for all beams of all texts, in place of `axis` and the next one."""
    before = [w.add("Shape", x, start=0, end=axis)] if axis else []
    all_beams = w.add("Mul", *(w.add("Shape", x, start=at, end=at + 1) for at in (axis, axis + 1)))
    return w.add(
        "Reshape", x, w.add("Concat", *before, all_beams, w.add("Shape", x, start=axis + 2), axis=0), allowzero=1
    )


def _apart(w: Nodes, past: str, sizes: _Sizes) -> str:
    """A past [2, texts beams, ...] with texts and beams as two axes."""
    before, after = w.add("Shape", past, start=0, end=1), w.add("Shape", past, start=2)
    return w.add("Reshape", past, w.add("Concat", before, *sizes, after, axis=0))


def _results(w: Nodes, search: Search, made: list[str], *, keeps_scores: bool) -> list[str]:
    """The best texts [texts, returned, max_length], their scores [texts, returned], and those of all steps."""
    both, scores, done, old_scores = made[:4]
    ids, old_ids = (w.add("Gather", both, w.constant(at), axis=0) for at in (_GOING, _FINISHED))
    unfinished = w.add("Where", done, w.constant(-np.inf, np.float32), _by_length(w, search, scores, ids))
    merged = _merged(w, _sizes(w, scores), _Finished(old_scores, old_ids), _Finished(unfinished, ids))
    returned = w.add("Reshape", search.given["num_return_sequences"], w.constant([1]))
    bounds = (w.constant([0]), w.cast(returned, TensorProto.INT64), w.constant([1]))
    best, best_scores = (w.add("Slice", each, *bounds) for each in (merged.ids, merged.scores))
    results = [padded(w, best, search.given["max_length"], search.number["pad_token_id"], 3), best_scores]
    if keeps_scores:
        steps = w.add("Sub", w.cast(search.given["max_length"], TensorProto.INT64), length_of(w, search))
        missing = w.add("Sub", steps, w.add("Shape", made[-1], start=0, end=1))
        ends = w.add("Concat", w.constant([0] * 4), missing, w.constant([0] * 3), axis=0)
        results.append(w.add("Pad", made[-1], ends))
    return results


def _sizes(w: Nodes, scores: str) -> _Sizes:
    """The sizes of a search with `scores` [texts, beams]."""
    return _Sizes(w.add("Shape", scores, start=0, end=1), w.add("Shape", scores, start=1, end=2))


def _by_length(w: Nodes, search: Search, sums: str, ids: str) -> str:
    """Sums of logarithms over the length of texts to the power of the penalty."""
    penalty = search.given["length_penalty"]
    length = w.cast(w.add("Shape", ids, start=2, end=3), TensorProto.FLOAT)
    return w.add("Div", sums, w.add("Pow", length, penalty) if penalty else length)


def _merged(w: Nodes, sizes: _Sizes, old: _Finished, new: _Finished) -> _Finished:
    """The best of both, as many as there are beams; of equal ones the old come first."""
    ids = w.add("Concat", old.ids, new.ids, axis=1)
    both = w.add("Concat", old.scores, new.scores, axis=1)
    scores, best = w.add_many("TopK", (both, sizes.beams), 2, axis=1, largest=1, sorted=1)
    return _Finished(scores, _chosen(w, sizes, ids, best))


def _chosen(w: Nodes, sizes: _Sizes, x: str, numbers: str) -> str:
    """Of `x` [texts, n, length] those of the `numbers` [texts, beams]."""
    firsts = _firsts(w, _Sizes(sizes.texts, w.add("Shape", x, start=1, end=2)))
    return _taken(w, sizes, x, _flat(w, w.add("Add", numbers, firsts)))


def _taken(w: Nodes, sizes: _Sizes, x: str, rows: str) -> str:
    """Of `x` [texts, n, length] the `rows` [texts beams], as [texts, beams, length]."""
    taken = w.add("Gather", _flat(w, x), rows, axis=0)
    return w.add("Reshape", taken, w.add("Concat", *sizes, w.add("Shape", x, start=2, end=3), axis=0))


def _firsts(w: Nodes, sizes: _Sizes) -> str:
    """The number of the first beam of each text among those of all texts, [texts, 1]."""
    return w.add("Unsqueeze", w.add("Mul", w.numbers(sizes.texts), sizes.beams), w.constant([1]))


def _highest(w: Nodes, sizes: _Sizes, best: str) -> str:
    """The score [texts, 1] that a text has to reach with its worst finished beam, of the `best` [texts, 2 beams].

    ONNX Runtime takes the highest of as many from the number `text beams` on, of those of all texts: they are those of
    the text for the first one alone.
    """
    window = w.add("Add", _firsts(w, sizes), w.numbers(w.add("Mul", sizes.beams, w.constant(2))))
    others = w.add("Gather", w.add("Reshape", best, w.constant([-1])), window, axis=0)
    return w.add_many("TopK", (others, w.constant([1])), 2, axis=1, largest=1, sorted=1)[0]


def _body(name: str, search: Search, *, keeps_scores: bool) -> onnx.GraphProto:
    """The body of the loop.

    It carries the ids of beams and of finished texts, the scores of beams, whether all of a text are done, the scores
    of finished texts, the new ids, and pasts.
    """
    w = Nodes(f"{name}.step")
    carried = ("iteration", "going", "both", "sums", "done", "finished", "new")
    iteration, going, both, sums, done, old_scores, new = (w.name(each) for each in carried)
    one, sizes = w.constant([1]), _sizes(w, sums)
    pasts = formal_pasts(w, search, axes=2)
    mask, prefix = search.given["attention_mask"], search.given["prefix_vocab_mask"]
    search = search._replace(given={**search.given, "prefix_vocab_mask": prefix and _flat(w, prefix)})
    feed(w, search, _flat(w, mask), _flat(w, new), [_flat(w, past.name, 1) for past in pasts])
    w.nodes.extend(search.decoder.node)
    ids, old_ids = (w.add("Gather", both, w.constant(at), axis=0) for at in (_GOING, _FINISHED))
    logarithms = w.add("LogSoftmax", newest_logits(w, search), axis=-1)
    scores = processed(w, search, logarithms, _flat(w, ids), iteration)
    vocabulary = w.add("Shape", scores, start=1, end=2)
    by_beams = w.add("Reshape", scores, w.add("Concat", *sizes, vocabulary, axis=0))
    totals = w.add("Add", by_beams, w.add("Unsqueeze", sums, w.constant([2])))
    flat = w.add("Reshape", totals, w.add("Concat", sizes.texts, w.add("Mul", sizes.beams, vocabulary), axis=0))
    twice = w.add("Mul", sizes.beams, w.constant(2))
    best, places = w.add_many("TopK", (flat, twice), 2, axis=1, largest=1, sorted=1)
    beam, token = w.add("Div", places, vocabulary), w.add("Mod", places, vocabulary)
    is_end = w.add("Equal", token, w.constant(search.number["eos_token_id"]))

    first = (w.constant([0]), sizes.beams, one)
    ends, end_sums, end_beams = (w.add("Slice", each, *first) for each in (is_end, best, beam))
    counts = w.add("And", ends, w.add("Not", done))
    # a finished text counts also if its score is minus infinity
    reached = w.add("Max", _by_length(w, search, end_sums, ids), w.constant(LOWEST, np.float32))
    end_scores = w.add("Where", counts, reached, w.constant(-np.inf, np.float32))
    ended = _Finished(end_scores, _chosen(w, sizes, ids, end_beams))
    finished = _merged(w, sizes, _Finished(old_scores, old_ids), ended)
    worst = w.add("Slice", finished.scores, w.constant([-1]), w.constant([1 << 62]), one)
    is_full = w.add("Greater", worst, w.constant(-np.inf, np.float32))
    if not search.number.get("early_stopping", 0):
        highest = _highest(w, sizes, best)
        is_full = w.add("And", is_full, w.add("GreaterOrEqual", worst, _by_length(w, search, highest, ids)))
    all_done = w.add("Or", done, is_full)

    order = w.add("Where", is_end, w.add("Add", w.numbers(twice), twice), w.numbers(twice))
    _, kept = w.add_many("TopK", (order, sizes.beams), 2, axis=1, largest=0, sorted=1)
    new_sums, new_tokens, new_beams = (w.add("GatherElements", each, kept, axis=1) for each in (best, token, beam))
    tokens = w.add("Where", done, w.constant(search.number["pad_token_id"]), new_tokens)
    new_token = w.add("Unsqueeze", w.cast(tokens, TensorProto.INT32), w.constant([2]))
    gap = w.filled(w.add("Shape", new_token), search.number["pad_token_id"], np.int32)
    own = w.add("Add", new_beams, _firsts(w, sizes))
    rows = _flat(w, w.add("Where", done, w.constant(0), own))
    all_new = (
        w.add("Concat", _taken(w, sizes, ids, rows), new_token, axis=2),
        w.add("Concat", finished.ids, gap, axis=2),
    )
    presents = (_apart(w, w.add("Gather", each.name, rows, axis=1), sizes) for each in search.decoder.output[1:])
    going_on = w.cast(w.add("Not", all_done), TensorProto.INT32)
    results = [
        w.cast(w.add("ReduceMax", going_on, keepdims=0), TensorProto.BOOL),
        w.add("Concat", *(w.add("Unsqueeze", each, w.constant([0])) for each in all_new), axis=0),
        w.add("Where", done, w.constant(0, np.float32), new_sums),
        all_done,
        finished.scores,
        new_token,
        *presents,
        *([totals] if keeps_scores else []),
    ]
    formals = [
        helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(both, TensorProto.INT32, [2, None, None, None]),
        helper.make_tensor_value_info(sums, TensorProto.FLOAT, [None, None]),
        helper.make_tensor_value_info(done, TensorProto.BOOL, [None, 1]),
        helper.make_tensor_value_info(old_scores, TensorProto.FLOAT, [None, None]),
        helper.make_tensor_value_info(new, TensorProto.INT32, [None, None, None]),
        *pasts,
    ]
    return step(w, search, formals, results)
