"""Attention and RotaryEmbedding of ONNX (opset 23) by kernels. The cases of the onnx package cover their forms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.contrib import Array, OneNode, close, some
from tests.models.contrib_formulas import attention, heads, rotate

Q, K, V = some(2, 3, 24), some(2, 5, 12, seed=1), some(2, 5, 12, seed=2)
PAST_K, PAST_V = some(2, 2, 4, 6, seed=3), some(2, 2, 4, 6, seed=4)
MASK = np.random.default_rng(5).random((2, 1, 3, 5)) > 0.4
MASK[..., 0] = True
MASK[1, 0, 2] = False
GROUPED = {"q_num_heads": 4, "kv_num_heads": 2}


def node(attributes: dict[str, object], outputs: tuple[str, ...] = ("y",), **operands: Array | None) -> OneNode:
    return OneNode("Attention", operands, outputs=outputs, attributes=attributes, domain="", opset=24)


def wanted(k: Array, v: Array, mask: Array | float = 0.0) -> Array:
    q, k, v = heads(Q, 4), np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1)
    return attention(q, k, v, mask)


KEYS, VALUES = heads(K, 2), heads(V, 2)
ALL_K, ALL_V = np.concatenate([PAST_K, KEYS], axis=2), np.concatenate([PAST_V, VALUES], axis=2)
EARLIER = np.where(np.arange(9) <= np.arange(4, 7)[:, None], 0, -np.inf)
SEEN = wanted(KEYS, VALUES, np.where(MASK, 0, -1e30))
SEEN[1, 2] = 0
SIX = heads(some(2, 3, 72, seed=6), 6)
CASES = [
    pytest.param(node(GROUPED, q=Q, k=K, v=V), [wanted(KEYS, VALUES)], id="grouped"),
    pytest.param(node(GROUPED, q=Q, k=K, v=V, mask=MASK), [SEEN], id="a_query_that_sees_nothing"),
    pytest.param(
        node({**GROUPED, "is_causal": 1}, ("y", "k_all", "v_all"), q=Q, k=K, v=V, m=None, pk=PAST_K, pv=PAST_V),
        [wanted(ALL_K, ALL_V, EARLIER), ALL_K, ALL_V],
        id="causal_behind_the_past",
    ),
    pytest.param(
        node({}, q=SIX, k=K[:, None], v=V[:, None]),
        [heads(attention(SIX, *(np.repeat(each[:, None], 6, axis=1) for each in (K, V))), 6)],
        id="heads_given",
    ),
]


@pytest.mark.parametrize(("one", "expected"), CASES)
@pytest.mark.parametrize("is_open", [False, True])
def test_heads_attend_by_kernels(one: OneNode, expected: list[Array], is_open: bool) -> None:
    close(one.run(is_open=is_open), expected, rtol=1e-4)


@pytest.mark.parametrize("has_places", [False, True])
def test_pairs_turn_by_the_angles_of_their_tokens(has_places: bool) -> None:
    angles, at = some(9, 4), np.array([[0, 2, 8], [3, 3, 1]])
    cosines, sines = np.cos(angles), np.sin(angles)
    x = some(2, 3, 24)
    turned = rotate(heads(x, 3), cosines[at], sines[at], interleaved=False)
    operands = (
        {"x": x, "c": cosines, "s": sines, "at": at} if has_places else {"x": x, "c": cosines[at], "s": sines[at]}
    )
    one = OneNode("RotaryEmbedding", operands, domain="", opset=23, attributes={"num_heads": 3})

    close(one.run(), [turned.transpose(0, 2, 1, 3).reshape(x.shape)])
    close(one.run(is_open=True), [turned.transpose(0, 2, 1, 3).reshape(x.shape)])
