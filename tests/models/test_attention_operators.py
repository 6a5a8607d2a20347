"""Attention operators of ONNX Runtime (com.microsoft): kernels only, and what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from tests.models.contrib import Array, OneNode, close, some
from tests.models.contrib_formulas import attention, causal, excluded, heads, rotate

Q, K, V = some(2, 3, 24), some(2, 5, 24, seed=1), some(2, 5, 16, seed=2)
QKV_BIAS = some(64, seed=3)
KEPT = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], np.int32)
PAIRS = (some(2, 3, 5, seed=4) > 0).astype(np.int32)
PAIRS[..., 0] = 1
SCORES = some(1, 4, 3, 5, seed=5)
PAST_K, PAST_V = some(2, 4, 2, 6, seed=6), some(2, 4, 2, 6, seed=7)


def multi(wanted: list[Array], *outputs: str, attributes: dict[str, object] | None = None, **operands: Array | None):  # type: ignore[no-untyped-def]
    names = ("q", "k", "v", "bias", "mask", "scores", "past_k", "past_v")
    last = max(place for place, name in enumerate(names) if operands.get(name) is not None)
    arrays = {name: operands.get(name) for name in names[: last + 1]}
    name = "_".join([*(attributes or {}), *(name for name, array in arrays.items() if array is not None)])
    held = frozenset({"bias"} if operands.get("bias") is not None else ())
    attributes = {"num_heads": 4, **(attributes or {})}
    return pytest.param(OneNode("MultiHeadAttention", arrays, held, outputs or ("y",), attributes), wanted, id=name)


def attended(mask: Array | float = 0.0, scale: float | None = None) -> Array:
    return attention(heads(Q, 4), heads(K, 4), heads(V, 4), mask, scale)


PACKED = some(2, 5, 4, 3, 6, seed=8)
PACKED_KV = some(2, 5, 4, 2, 6, seed=9)
ALL_K, ALL_V = (np.concatenate([past, heads(K, 4)], axis=2) for past in (PAST_K, PAST_V))
MULTI = [
    multi([attended()], q=Q, k=K, v=V),
    multi([attended(scale=0.7)], q=Q, k=K, v=V, attributes={"scale": 0.7}),
    multi(
        [attention(heads(Q + QKV_BIAS[:24], 4), heads(K + QKV_BIAS[24:48], 4), heads(V + QKV_BIAS[48:], 4))],
        q=Q,
        k=K,
        v=V,
        bias=QKV_BIAS,
    ),
    multi([attended(excluded(KEPT[:, None, None]))], q=Q, k=K, v=V, mask=KEPT),
    multi([attended(excluded(PAIRS[:, None]))], q=Q, k=K, v=V, mask=PAIRS),
    multi(
        [attended(excluded(KEPT[:, None, None], -2.0) + SCORES)],
        q=Q,
        k=K,
        v=V,
        mask=KEPT,
        scores=SCORES,
        attributes={"mask_filter_value": -2.0},
    ),
    multi(
        [attended(excluded(np.arange(5) < np.array([3, 4])[:, None, None, None]))],
        q=Q,
        k=K,
        v=V,
        mask=np.array([3, 4], np.int32),
    ),
    multi(
        [attention(heads(Q, 4), heads(Q, 4), heads(Q, 4), causal(3, 3))],
        q=Q,
        k=Q,
        v=Q,
        attributes={"unidirectional": 1},
    ),
    multi(
        [attention(heads(Q, 4), ALL_K, ALL_V), ALL_K, ALL_V],
        *("y", "all_k", "all_v"),
        q=Q,
        k=K,
        v=K,
        past_k=PAST_K,
        past_v=PAST_V,
    ),
    multi([attention(heads(Q, 4), PAST_K, PAST_V)], q=Q, k=PAST_K, v=PAST_V),
]

PACKED_ALIKE = [
    multi([attention(*(PACKED[:, :, :, n].transpose(0, 2, 1, 3) for n in range(3)))], q=PACKED),
    multi([attention(heads(Q, 4), *(PACKED_KV[:, :, :, n].transpose(0, 2, 1, 3) for n in range(2)))], q=Q, k=PACKED_KV),
]
"""Forms that ONNX Runtime has for other devices."""

TOKENS, WEIGHTS = some(2, 5, 12), some(12, 64, seed=1)
PROJECTED = [
    TOKENS.astype(np.float64) @ part + bias
    for part, bias in zip(np.split(WEIGHTS, [24, 48], axis=1), np.split(QKV_BIAS, [24, 48]), strict=True)
]
EVEN = some(12, 72, seed=2)
THREE = [heads(TOKENS.astype(np.float64) @ part, 4) for part in np.split(EVEN, 3, axis=1)]
PAST = some(2, 2, 4, 3, 6, seed=3)
GROWN = np.concatenate([PAST, np.stack(THREE[1:])], axis=3)


def single(wanted: list[Array], name: str, *outputs: str, attributes: dict[str, object], **operands: Array | None):  # type: ignore[no-untyped-def]
    held = frozenset({"weights", "bias"} & operands.keys())
    return pytest.param(
        OneNode("Attention", operands, held, outputs or ("y",), {"num_heads": 4, **attributes}), wanted, id=name
    )


HALVES = {"qkv_hidden_sizes": [24, 24, 16]}
SINGLE = [
    single(
        [attention(*(heads(each, 4) for each in PROJECTED))],
        "sizes",
        x=TOKENS,
        weights=WEIGHTS,
        bias=QKV_BIAS,
        attributes=HALVES,
    ),
    single(
        [attention(*(heads(each, 4) for each in PROJECTED), excluded(KEPT[:, None, None]) + causal(5, 5))],
        "causal_mask",
        x=TOKENS,
        weights=WEIGHTS,
        bias=QKV_BIAS,
        mask=KEPT,
        attributes={**HALVES, "unidirectional": 1},
    ),
    single(
        [attention(THREE[0], *GROWN, causal(5, 8)), GROWN],
        *("past", "y", "present"),
        x=TOKENS,
        weights=EVEN,
        bias=some(72) * 0,
        mask=None,
        past=PAST,
        attributes={"unidirectional": 1},
    ),
]

ENDS_AND_STARTS = [
    single(
        [attention(*THREE, excluded((np.arange(5) < [[[[4]]], [[[5]]]]) & (np.arange(5) >= [[[[0]]], [[[2]]]])))],
        "ends_and_starts",
        x=TOKENS,
        w=EVEN,
        b=some(72) * 0,
        mask=np.array([4, 5, 0, 2], np.int32),
        attributes={},
    ),
]
"""A mask whose meaning its size tells."""


@pytest.mark.parametrize(("node", "wanted"), [*MULTI, *PACKED_ALIKE, *SINGLE])
@pytest.mark.parametrize("is_open", [False, True])
def test_heads_attend_by_kernels(node: OneNode, wanted: list[Array], is_open: bool) -> None:
    close(node.run(is_open=is_open), wanted, rtol=1e-4)


@pytest.mark.parametrize(("node", "wanted"), ENDS_AND_STARTS)
def test_keys_count_between_the_start_and_the_end_of_their_text(node: OneNode, wanted: list[Array]) -> None:
    close(node.run(), wanted, rtol=1e-4)


@pytest.mark.parametrize(("node", "wanted"), [*MULTI, *SINGLE, *ENDS_AND_STARTS])
def test_heads_of_onnxruntime_attend_alike(node: OneNode, wanted: list[Array]) -> None:
    close(node.run_by_onnxruntime(), wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "message"),
    [
        ("MultiHeadAttention", {"q": Q, "k": K, "v": V}, {"num_heads": 0}, "'num_heads' must be 1 or more, got 0"),
        (
            "MultiHeadAttention",
            {"q": Q, "k": K, "v": K, "bias": None, "mask": None, "added": None, "past_k": PAST_K},
            {"num_heads": 4},
            r"'past_key' and 'past_value' \(numbers 6 and 7\) must come together",
        ),
        ("Attention", {"x": TOKENS, "w": EVEN}, {"num_heads": 4, "do_rotary": 1}, "attribute 'do_rotary' must be 0"),
        (
            "Attention",
            {"x": TOKENS, "w": EVEN},
            {"num_heads": 4, "qkv_hidden_sizes": [24, 24]},
            r"'qkv_hidden_sizes' \[24, 24\] must be 3 numbers whose sum is 72",
        ),
    ],
)
def test_what_it_cannot_compute_is_refused_with_the_reason(
    op: str, operands: dict[str, Array | None], attributes: dict[str, object], message: str
) -> None:
    node = OneNode(op, operands, attributes=attributes)

    with pytest.raises(treadle.errors.TreadleError, match=message):
        treadle.Session(node.model(is_open=False))


ANGLES = some(9, 4)
COSINES, SINES = np.cos(ANGLES), np.sin(ANGLES)
AT = np.array([[0, 2, 4, 1, 8], [3, 3, 5, 0, 1]])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("layout", ["tokens", "heads", "first", "part"])
def test_rotary_embeddings_turn_pairs(layout: str, interleaved: int) -> None:
    x, at, width = some(2, 5, 24), AT, 8
    if layout == "first":
        at = np.array([3])
    wanted_at = at if at.ndim == 2 else np.arange(3, 8)[None]
    attributes: dict[str, object] = {"interleaved": interleaved}
    if layout == "part":
        attributes |= {"num_heads": 2, "rotary_embedding_dim": 8}
        width = 12
    cut = x.reshape(2, 5, -1, width).transpose(0, 2, 1, 3)
    turned = rotate(cut[..., :8], COSINES[wanted_at], SINES[wanted_at], interleaved=bool(interleaved))
    wanted = np.concatenate([turned, cut[..., 8:]], axis=-1)
    if layout != "heads":
        wanted = wanted.transpose(0, 2, 1, 3).reshape(x.shape)
    operands = {"x": cut if layout == "heads" else x, "at": at, "cosines": COSINES, "sines": SINES}
    held = frozenset({"cosines", "sines"})
    node = OneNode("RotaryEmbedding", operands, held, attributes=attributes)

    close(node.run(), [wanted])
    close(node.run(is_open=True), [wanted])
    close(node.run_by_onnxruntime(), [wanted])
