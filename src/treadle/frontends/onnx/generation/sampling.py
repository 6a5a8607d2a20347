"""Sampling of com.microsoft: a token of each step drawn from the most probable ones.

A seed gives the tokens that ONNX Runtime draws with it: the numbers are those of the generator minstd_rand0 of C++, two
for each text and step, and fractions of 1 as uniform_real_distribution makes them of two.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.generation.nodes import Nodes
from treadle.frontends.onnx.generation.scores import LOWEST
from treadle.frontends.onnx.generation.search import Search, search_of
from treadle.frontends.onnx.generation.single_beam import Choice, single_beam

_INPUTS = (
    "input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask",
    "presence_mask", "seed",
)  # fmt: skip
_FACTOR, _MODULUS = 16807, 2147483647
"""Each number of the generator is the one before it times the factor, modulo the modulus."""


class _Drawn(Choice):
    """`powers` are those of the factor, from the first on, two for each text, i64 [2 texts]."""

    def __init__(self, search: Search, powers: str) -> None:
        self._number = search.number
        self._powers = powers

    def formals(self, w: Nodes) -> list[onnx.ValueInfoProto]:
        """The last number of the generator."""
        return [helper.make_tensor_value_info(w.name("random"), TensorProto.INT64, [1])]

    def token(self, w: Nodes, scores: str, carried: list[str]) -> tuple[str, list[str]]:
        temperature = self._number.get("temperature", 1.0)
        if temperature > 0:  # ONNX Runtime takes others as 1
            scores = w.add("Div", scores, w.constant(temperature, np.float32))
        fractions, last = self._fractions(w, carried[0])
        filtered = self._filtered(w, scores)
        parts = w.cast(w.add("Softmax", filtered, axis=1), TensorProto.DOUBLE)
        sums = w.add("CumSum", parts, w.constant(1))
        total = w.add("Slice", sums, w.constant([-1]), w.constant([1 << 62]), w.constant([1]))
        reached = w.cast(w.add("Greater", sums, w.add("Mul", fractions, total)), TensorProto.INT32)
        return w.cast(w.add("ArgMax", reached, axis=1, keepdims=1), TensorProto.INT32), [last]

    def _fractions(self, w: Nodes, last: str) -> tuple[str, str]:
        """A number between 0 and 1 for each text, f64 [texts, 1], and the last number of the generator, i64 [1]."""
        numbers = w.add("Mod", w.add("Mul", last, self._powers), w.constant(_MODULUS))
        pairs = w.add("Reshape", w.add("Sub", numbers, w.constant(1)), w.constant([-1, 2]))
        low, high = w.add_many("Split", (w.cast(pairs, TensorProto.DOUBLE), w.constant([1, 1])), 2, axis=1)
        count = w.constant(_MODULUS - 1, np.float64)
        drawn = w.add("Add", low, w.add("Mul", high, count))
        fractions = w.add("Div", drawn, w.constant(float(_MODULUS - 1) ** 2, np.float64))
        return fractions, w.add("Slice", numbers, w.constant([-1]), w.constant([1 << 62]))

    def _filtered(self, w: Nodes, scores: str) -> str:
        """`scores` with those of less probable tokens lowered, whose sum of probabilities is beyond `top_p`."""
        number = self._number
        is_custom, limit = number.get("custom", 0) != 0, np.float32(number.get("top_p", 0.0))
        count = w.size(scores, 1)
        ordered, places = w.add_many("TopK", (scores, count), 2, axis=1, largest=int(is_custom), sorted=1)
        parts = w.add("Softmax", ordered, axis=1)
        position = w.numbers(count)
        if is_custom:
            before = w.add("CumSum", parts, w.constant(1), exclusive=1)
            beyond = w.add("Greater", before, w.constant(limit, np.float32))
            kept = w.add("Equal", position, w.constant(0))
        else:
            sums = w.add("CumSum", parts, w.constant(1))
            beyond = w.add("LessOrEqual", sums, w.constant(np.float32(1) - limit, np.float32))
            least = max(int(number.get("min_tokens_to_keep", 1)), 1)
            kept = w.add("GreaterOrEqual", position, w.add("Sub", count, w.constant(least)))
        left_out = w.add("And", beyond, w.add("Not", kept))
        lowered = w.add("Where", left_out, w.constant(number.get("filter_value", LOWEST), np.float32), ordered)
        return w.add("ScatterElements", scores, places, lowered, axis=1)


def sampling(proto: onnx.NodeProto, name: str, version: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return nodes that compute what the Sampling `proto` gives, and the names of its results.

    They are of operator set `version` of ai.onnx. Raises Fault for a decoder of another form, Unsupported for another
    kind of model, and for what ONNX Runtime computes otherwise than its schema says.
    """
    w = Nodes(name)
    search = search_of(w, proto, _INPUTS, version)
    if search.given["presence_mask"]:
        raise Unsupported(
            "its input 'presence_mask' is not supported: ONNX Runtime 1.32 lowers one token by it, whichever it names"
        )
    if len(proto.output) > 1 and proto.output[1]:
        raise Unsupported("its output 'filtered_logits' is not supported: ONNX Runtime 1.32 leaves it empty on CPUs")
    if search.number.get("custom", 0) == 0 and search.number.get("top_p", 0.0) <= 0:
        raise Unsupported("attribute 'top_p' must be positive: no token is left otherwise")
    powers = _powers(w, name, w.add("Mul", w.size(search.given["input_ids"], 0), w.constant([2])))
    return single_beam(w, name, search, _Drawn(search, powers), [_first_number(w, search)])


def _first_number(w: Nodes, search: Search) -> str:
    """What the generator starts with, i64 [1]: the seed, or 1 if that is a multiple of the modulus or not given."""
    one = w.constant([1])
    if not search.given["seed"]:
        return one
    seed = w.cast(search.given["seed"], TensorProto.INT64)
    zero = w.constant([0])
    seed = w.required(seed, w.add("GreaterOrEqual", seed, zero), "seed must not be negative")
    state = w.add("Mod", seed, w.constant(_MODULUS))
    return w.add("Where", w.add("Equal", state, zero), one, state)


def _powers(w: Nodes, name: str, count: str) -> str:
    """The first `count` powers of the generator's factor, modulo its modulus, i64 [count]."""
    inner = Nodes(f"{name}.powers")
    step, going, power = (inner.name(each) for each in ("iteration", "going", "power"))
    following = inner.add("Mod", inner.add("Mul", power, inner.constant(_FACTOR)), inner.constant(_MODULUS))
    on = inner.add("Identity", going)
    body = helper.make_graph(
        inner.nodes,
        "powers",
        [
            helper.make_tensor_value_info(step, TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
            helper.make_tensor_value_info(power, TensorProto.INT64, []),
        ],
        [helper.make_empty_tensor_value_info(each) for each in (on, following, following)],
    )
    limit = w.add("Squeeze", count, w.constant([0]))
    return w.add_many("Loop", (limit, "", w.constant(1)), 2, body=body)[1]
