"""BeamSearch of com.microsoft as a Loop of ai.onnx, whose body is the decoder and the choice of the next beams.

Where another graph makes the first run, for one beam of each text, the first choice stands in front of the loop.

The loop carries texts and beams as two axes, which are one for the decoder: a plan then knows how their sizes are
related.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.generation.decoders import Start
from treadle.frontends.onnx.generation.nodes import Nodes
from treadle.frontends.onnx.generation.scores import LOWEST, processed
from treadle.frontends.onnx.generation.search import (
    ENCODER_DECODER,
    GPT,
    Loop,
    Search,
    add_loop,
    body_of,
    newest_logits,
    padded,
    search_of,
    steps_of,
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


class _State(NamedTuple):
    """What the loop carries besides pasts.

    `both` has the ids of beams and of the best finished texts. `sums` are those of the logarithms of beams' tokens,
    `done` says whether a text has all its results [texts, 1], `finished` has the scores of the best finished texts and
    `new` the ids of the last step [texts, beams, n].
    """

    both: str
    sums: str
    done: str
    finished: str
    new: str


class _Step(NamedTuple):
    """What a step gives: whether a text goes on, the next state and pasts, and the sums of all tokens of all beams."""

    going: str
    state: _State
    pasts: list[str]
    totals: str


def beam_search(proto: onnx.NodeProto, name: str, version: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return nodes that compute what the BeamSearch `proto` gives, and the names of its results.

    They are of operator set `version` of ai.onnx. Raises Fault for a decoder of another form, Unsupported for another
    kind of model.
    """
    w = Nodes(name)
    search = search_of(w, proto, _INPUTS, version, (GPT, ENCODER_DECODER))
    for each in ("decoder_input_ids", "logits_processor"):
        if search.given[each]:
            raise Unsupported(f"its input {each!r} is not supported")
    given, one, decoder = search.given, w.constant([1]), search.decoder
    beams, returned = (
        w.add("Reshape", w.cast(given[each], TensorProto.INT64), one) for each in ("num_beams", "num_return_sequences")
    )
    sizes = _Sizes(w.size(given["input_ids"], 0), beams)
    prefix = given["prefix_vocab_mask"] and _for_beams(w, given["prefix_vocab_mask"], sizes)
    search = search._replace(given={**given, "prefix_vocab_mask": prefix})
    start = decoder.start(w, given["input_ids"], given["attention_mask"])
    fits = w.add("And", w.add("Greater", returned, w.constant([0])), w.add("LessOrEqual", returned, beams))
    needed = {"num_return_sequences must be positive, and no more than num_beams": fits}
    steps, going, totals = steps_of(w, search, start.ids, needed), "", ""
    state, pasts = _started(w, start, sizes), [_for_beams(w, past, sizes, decoder.axis) for past in start.pasts]
    if start.logits:
        logits = _flat(w, _for_beams(w, newest_logits(w, start.logits), sizes))
        presents = [_flat(w, past, decoder.axis) for past in pasts]
        going, state, pasts, totals = _step(w, search, state, logits, presents, is_first=_yes(w))
        steps = w.add("Sub", steps, one)
    context = [_for_beams(w, each, sizes) for each in start.context]
    keeps_scores = len(proto.output) > 2 and bool(proto.output[2])
    body = _body(name, search, context, is_first=not start.logits, keeps_scores=keeps_scores)
    made = add_loop(w, name, Loop(steps, going), [*state, *pasts], body, scanned=int(keeps_scores))
    results = _results(w, search, _State(*made[: len(state)]), returned)
    if keeps_scores:
        results.append(_all_scores(w, search, start.ids, totals, made[-1]))
    return w.nodes, results


def _yes(w: Nodes) -> str:
    return w.constant(value=True, dtype=np.bool_)


def _started(w: Nodes, start: Start, sizes: _Sizes) -> _State:
    """The state in front of the first step."""
    ids, both = _for_beams(w, start.ids, sizes), w.add("Concat", *sizes, axis=0)
    is_first = w.add("Equal", w.numbers(sizes.beams), w.constant(0))
    first = w.add("Where", is_first, w.constant(0, np.float32), w.constant(_BEHIND, np.float32))
    return _State(
        w.add("Concat", *[w.add("Unsqueeze", ids, w.constant([0]))] * 2, axis=0),
        w.add("Expand", first, both),
        w.filled(w.add("Concat", sizes.texts, w.constant([1]), axis=0), False, np.bool_),
        w.filled(both, -np.inf, np.float32),
        ids,
    )


def _for_beams(w: Nodes, x: str, sizes: _Sizes, axis: int = 0) -> str:
    """`x`, whose `axis` is for texts, for each beam: with an axis for beams behind it."""
    before = [w.add("Shape", x, start=0, end=axis)] if axis else []
    shape = w.add("Concat", *before, *sizes, w.add("Shape", x, start=axis + 1), axis=0)
    return w.add("Expand", w.add("Unsqueeze", x, w.constant([axis + 1])), shape)


def _flat(w: Nodes, x: str, axis: int = 0) -> str:
    """`x` with one axis for all beams of all texts, in place of `axis` and the next one."""
    before = [w.add("Shape", x, start=0, end=axis)] if axis else []
    all_beams = w.add("Mul", w.size(x, axis), w.size(x, axis + 1))
    return w.add(
        "Reshape", x, w.add("Concat", *before, all_beams, w.add("Shape", x, start=axis + 2), axis=0), allowzero=1
    )


def _apart(w: Nodes, past: str, sizes: _Sizes, axis: int) -> str:
    """A past with texts and beams as two axes in place of `axis`."""
    before = [w.add("Shape", past, start=0, end=axis)] if axis else []
    return w.add("Reshape", past, w.add("Concat", *before, *sizes, w.add("Shape", past, start=axis + 1), axis=0))


def _results(w: Nodes, search: Search, last: _State, returned: str) -> list[str]:
    """The best texts [texts, returned, max_length] and their scores [texts, returned]."""
    ids, old_ids = (w.add("Gather", last.both, w.constant(at), axis=0) for at in (_GOING, _FINISHED))
    unfinished = w.add("Where", last.done, w.constant(-np.inf, np.float32), _by_length(w, search, last.sums, ids))
    merged = _merged(w, _sizes(w, last.sums), _Finished(last.finished, old_ids), _Finished(unfinished, ids))
    bounds = (w.constant([0]), returned, w.constant([1]))
    best, best_scores = (w.add("Slice", each, *bounds) for each in (merged.ids, merged.scores))
    return [padded(w, best, search, 3), best_scores]


def _all_scores(w: Nodes, search: Search, ids: str, first: str, others: str) -> str:
    """The sums of all steps [steps, texts, beams, vocabulary], 0 behind the last; `first` is "" if among `others`."""
    if first:
        # of a loop without steps only the rank is known
        shape = w.add("Concat", w.size(others, 0), w.add("Shape", first), axis=0)
        others = w.add("Reshape", others, shape, allowzero=1)
        others = w.add("Concat", w.add("Unsqueeze", first, w.constant([0])), others, axis=0)
    steps = w.add("Sub", w.cast(search.given["max_length"], TensorProto.INT64), w.size(ids, 1))
    ends = w.add("Concat", w.constant([0] * 4), w.add("Sub", steps, w.size(others, 0)), w.constant([0] * 3), axis=0)
    return w.add("Pad", others, ends)


def _sizes(w: Nodes, scores: str) -> _Sizes:
    """The sizes of a search with `scores` [texts, beams]."""
    return _Sizes(w.size(scores, 0), w.size(scores, 1))


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


def _body(name: str, search: Search, context: list[str], *, is_first: bool, keeps_scores: bool) -> onnx.GraphProto:
    """The body of the loop, which carries a state and pasts. `is_first` says whether its first step is the search's."""
    w = Nodes(f"{name}.step")
    iteration, going, *carried = (w.name(each) for each in ("iteration", "going", *_State._fields))
    state, decoder = _State(*carried), search.decoder
    pasts = decoder.formals(w, axes=2)
    flat = [_flat(w, past.name, decoder.axis) for past in pasts]
    new = w.add("Gather", state.both, w.constant(_GOING), axis=0) if decoder.reads_all_ids else state.new
    decoder.feed(w, _flat(w, new), [_flat(w, each) for each in context], flat)
    w.nodes.extend(decoder.graph.node)
    now = w.add("Not", w.cast(iteration, TensorProto.BOOL)) if is_first else ""
    logits = newest_logits(w, decoder.graph.output[0].name)
    made = _step(w, search, state, logits, decoder.presents, is_first=now)
    formals = [
        helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(state.both, TensorProto.INT32, [2, None, None, None]),
        helper.make_tensor_value_info(state.sums, TensorProto.FLOAT, [None, None]),
        helper.make_tensor_value_info(state.done, TensorProto.BOOL, [None, 1]),
        helper.make_tensor_value_info(state.finished, TensorProto.FLOAT, [None, None]),
        helper.make_tensor_value_info(state.new, TensorProto.INT32, [None, None, None]),
        *pasts,
    ]
    return body_of(w, search, formals, [made.going, *made.state, *made.pasts, *([made.totals] if keeps_scores else [])])


def _step(w: Nodes, search: Search, state: _State, logits: str, presents: list[str], *, is_first: str) -> _Step:
    """Write the choice of the next beams, from `logits` and `presents` whose axis for texts is for all their beams.

    `is_first` is a bool, whether this is the search's first step; "" in other steps.
    """
    one, sizes, done = w.constant([1]), _sizes(w, state.sums), state.done
    prefix = search.given["prefix_vocab_mask"]
    search = search._replace(given={**search.given, "prefix_vocab_mask": prefix and is_first and _flat(w, prefix)})
    ids, old_ids = (w.add("Gather", state.both, w.constant(at), axis=0) for at in (_GOING, _FINISHED))
    scores = processed(w, search, w.add("LogSoftmax", logits, axis=-1), _flat(w, ids), is_first=is_first)
    vocabulary = w.size(scores, 1)
    by_beams = w.add("Reshape", scores, w.add("Concat", *sizes, vocabulary, axis=0))
    totals = w.add("Add", by_beams, w.add("Unsqueeze", state.sums, w.constant([2])))
    flat = w.add("Reshape", totals, w.add("Concat", sizes.texts, w.add("Mul", sizes.beams, vocabulary), axis=0))
    twice = w.add("Mul", sizes.beams, w.constant(2))
    best, places = w.add_many("TopK", (flat, twice), 2, axis=1, largest=1, sorted=1)
    beam, token = w.add("Div", places, vocabulary), w.add("Mod", places, vocabulary)
    is_end = w.add("Equal", token, w.constant(search.token("eos_token_id")))

    first = (w.constant([0]), sizes.beams, one)
    ends, end_sums, end_beams = (w.add("Slice", each, *first) for each in (is_end, best, beam))
    counts = w.add("And", ends, w.add("Not", done))
    # a finished text counts also if its score is minus infinity
    reached = w.add("Max", _by_length(w, search, end_sums, ids), w.constant(LOWEST, np.float32))
    end_scores = w.add("Where", counts, reached, w.constant(-np.inf, np.float32))
    ended = _Finished(end_scores, _chosen(w, sizes, ids, end_beams))
    finished = _merged(w, sizes, _Finished(state.finished, old_ids), ended)
    worst = w.add("Slice", finished.scores, w.constant([-1]), w.constant([1 << 62]), one)
    is_full = w.add("Greater", worst, w.constant(-np.inf, np.float32))
    if not search.number.get("early_stopping", 0):
        highest = _highest(w, sizes, best)
        is_full = w.add("And", is_full, w.add("GreaterOrEqual", worst, _by_length(w, search, highest, ids)))
    all_done = w.add("Or", done, is_full)

    order = w.add("Where", is_end, w.add("Add", w.numbers(twice), twice), w.numbers(twice))
    _, kept = w.add_many("TopK", (order, sizes.beams), 2, axis=1, largest=0, sorted=1)
    new_sums, new_tokens, new_beams = (w.add("GatherElements", each, kept, axis=1) for each in (best, token, beam))
    pad = search.token("pad_token_id")
    tokens = w.add("Where", done, w.constant(pad), new_tokens)
    new_token = w.add("Unsqueeze", w.cast(tokens, TensorProto.INT32), w.constant([2]))
    gap = w.filled(w.add("Shape", new_token), pad, np.int32)
    own = w.add("Add", new_beams, _firsts(w, sizes))
    rows = _flat(w, w.add("Where", done, w.constant(0), own))
    all_new = (
        w.add("Concat", _taken(w, sizes, ids, rows), new_token, axis=2),
        w.add("Concat", finished.ids, gap, axis=2),
    )
    going_on = w.cast(w.add("Not", all_done), TensorProto.INT32)
    following = _State(
        w.add("Concat", *(w.add("Unsqueeze", each, w.constant([0])) for each in all_new), axis=0),
        w.add("Where", done, w.constant(0, np.float32), new_sums),
        all_done,
        finished.scores,
        new_token,
    )
    axis = search.decoder.axis
    pasts = [_apart(w, w.add("Gather", each, rows, axis=axis), sizes, axis) for each in presents]
    going = w.cast(w.add("ReduceMax", going_on, keepdims=0), TensorProto.BOOL)
    return _Step(going, following, pasts, totals)
