"""GroupQueryAttention (com.microsoft): heads share keys and values, texts of different lengths share a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import treadle
from tests.models.contrib import Array, OneNode, some
from tests.models.contrib_formulas import rms_norm, rotate

HEADS, GROUPS, SIZE = 4, 2, 16
OPTIONAL = (
    "cosines", "sines", "ids", "bias", "sinks", "k_scale", "v_scale", "q_norm", "k_norm", "valid",
)  # fmt: skip
"""The operands behind those that every step has."""
ANGLES = some(40, SIZE // 2)
COSINES, SINES = np.cos(ANGLES), np.sin(ANGLES)


def case(
    lengths: list[int],
    tokens: int,
    past: int | None,
    *,
    seed: int = 0,
    is_packed: bool = False,
    optional: Mapping[str, Array] | None = None,
    **attributes: object,
) -> OneNode:
    """A step after which texts have `lengths`, of `tokens` new ones each, with a cache of size `past`; `optional`
    operands are those of OPTIONAL."""
    batch, widths = len(lengths), (HEADS * SIZE, GROUPS * SIZE, GROUPS * SIZE)
    q, k, v = (some(batch, tokens, width, seed=seed + at) for at, width in enumerate(widths))
    caches = [None if past is None else some(batch, GROUPS, past, SIZE, seed=seed + at) for at in (3, 4)]
    operands: dict[str, Array | None] = {
        "q": np.concatenate([q, k, v], axis=-1) if is_packed else q,
        "k": None if is_packed else k,
        "v": None if is_packed else v,
        "past_k": caches[0],
        "past_v": caches[1],
        "lengths": np.array(lengths, np.int32) - 1,
        "total": np.array(max(lengths), np.int32),
    }
    held = frozenset({"cosines", "sines"}) if attributes.get("do_rotary") else frozenset()
    if held:
        operands |= {"cosines": COSINES, "sines": SINES}
    for name in OPTIONAL if optional else ():
        operands.setdefault(name, None)
    operands |= optional or {}
    whole = {"num_heads": HEADS, "kv_num_heads": GROUPS, **attributes}
    return OneNode("GroupQueryAttention", operands, held, ("y", "all_k", "all_v"), whole)


def parted(node: OneNode) -> list[Array]:
    """q, k and v as heads [N, heads, tokens, size]."""
    parts = [array for array in (node.operands[name] for name in "qkv") if array is not None]
    if len(parts) == 1:
        parts = np.split(parts[0], np.cumsum([HEADS * SIZE, GROUPS * SIZE]), axis=-1)
    return [part.reshape(*part.shape[:2], -1, SIZE).transpose(0, 2, 1, 3) for part in parts]


def normalised(x: Array, weights: Array | None) -> Array:
    """Heads scaled to a root mean square of `weights`."""
    return x if weights is None else rms_norm(x, weights, 1e-6).astype(x.dtype)


def check(node: OneNode, found: dict[str, Array], window: int = -1) -> None:
    """Compares the rows that texts have with the formula, text by text."""
    q, k, v = parted(node)
    lengths, tokens = np.asarray(node.operands["lengths"]) + 1, q.shape[2]
    cap = float(str(node.attributes.get("softcap", 0.0)))
    q, k = (normalised(each, node.operands.get(f"{name}_norm")) for name, each in (("q", q), ("k", k)))
    valid = node.operands.get("valid")
    sinks = node.operands.get("sinks")
    if node.attributes.get("smooth_softmax"):
        sinks = np.zeros(HEADS)
    for text, length in enumerate(lengths.tolist()):
        new = min(length, tokens) if valid is None else int(valid[text])
        before = length - new
        mine = [each[text : text + 1, :, :new] for each in (q, k, v)]
        if node.attributes.get("do_rotary"):
            at = np.arange(before, length)[None]
            turned = bool(node.attributes.get("rotary_interleaved"))
            mine[:2] = [rotate(each, COSINES[at], SINES[at], interleaved=turned) for each in mine[:2]]
        for place, name in ((1, "past_k"), (2, "past_v")):
            cache = node.operands[name]
            if cache is not None:
                mine[place] = np.concatenate([cache[text : text + 1, :, :before], mine[place]], axis=2)
        for name, wanted in (("all_k", mine[1]), ("all_v", mine[2])):
            np.testing.assert_allclose(found[name][text, :, :length], wanted[0], rtol=1e-5, atol=1e-5)
        keys, values = (np.repeat(each, HEADS // GROUPS, axis=1) for each in mine[1:])
        distance = np.arange(before, length)[:, None] - np.arange(length)
        allowed = (distance >= 0) & ((distance < window) | (window < 0)) | (not node.attributes.get("causal", 1))
        scores = mine[0].astype(np.float64) @ keys.swapaxes(-1, -2) / np.sqrt(SIZE)
        scores = cap * np.tanh(scores / cap) if cap else scores
        bias = node.operands.get("bias")
        scores = scores if bias is None else scores + bias[text : text + 1, :, :new, :length]
        powers = np.exp(np.where(allowed, scores, -np.inf))
        rest = 0.0 if sinks is None else np.exp(sinks.astype(np.float64))[:, None, None]
        weights = powers / (powers.sum(-1, keepdims=True) + rest)
        mixed = (weights @ values).transpose(0, 2, 1, 3).reshape(1, new, -1)
        np.testing.assert_allclose(found["y"][text, :new], mixed[0], rtol=1e-4, atol=1e-5)


ROTARY = {"do_rotary": 1}
CASES = {
    "prompt": case([5, 5], 5, 0),
    "padded_prompt": case([5, 3], 5, 0, **ROTARY),
    "next_token": case([6, 6], 1, 5, **ROTARY),
    "next_token_of_texts_of_different_lengths": case([6, 3], 1, 5, **ROTARY),
    "more_tokens_of_one_text": case([9], 4, 5, **ROTARY),
    "room_for_more": case([6, 3], 1, 12, **ROTARY),
    "prompt_with_room": case([4, 4], 4, 12),
    "interleaved": case([6, 4], 1, 5, do_rotary=1, rotary_interleaved=1),
    "packed": case([6, 4], 1, 5, is_packed=True, **ROTARY),
    "capped": case([6, 6], 1, 5, softcap=2.0),
    "window": case([9], 4, 5, local_window_size=3),
    "every_key": case([5, 3], 5, 0, causal=0),
    "smooth": case([6, 3], 1, 12, smooth_softmax=1),
    "sinks": case([9], 4, 12, local_window_size=3, softcap=2.0, optional={"sinks": some(HEADS)}),
    "bias_without_room": case([6, 3], 1, 12, optional={"bias": some(2, 1, 1, 6)}),
    "padded_chunk": case([9, 7], 4, 12, optional={"valid": np.array([4, 2], np.int32)}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_open", [False, True])
def test_texts_attend_to_their_own_tokens(name: str, is_open: bool) -> None:
    node = CASES[name]
    window = int(str(node.attributes.get("local_window_size", -1)))

    check(node, node.run(is_open=is_open), window)


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_does_the_same(name: str) -> None:
    node = CASES[name]
    window = int(str(node.attributes.get("local_window_size", -1)))

    check(node, node.run_by_onnxruntime(), window)


def test_heads_of_queries_and_keys_are_normalised() -> None:
    node = case([6, 3], 1, 12, optional={"q_norm": some(SIZE), "k_norm": some(SIZE, seed=1)})

    check(node, node.run())


def test_windows_end_with_the_last_key() -> None:
    """Also of heads in f16, whose keys and values are kept so."""
    node = case([6, 3], 1, 12, local_window_size=2, smooth_softmax=1)
    wide = ("q", "k", "v", "past_k", "past_v")
    half = {n: a.astype(np.float16) if a is not None and n in wide else a for n, a in node.operands.items()}
    found = replace(node, operands=half).run()

    assert {name: array.dtype for name, array in found.items()} == dict.fromkeys(found, np.float16)
    for name, array in node.run().items():
        np.testing.assert_allclose(found[name], array, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"kv_num_heads": 3}, "'kv_num_heads' must divide 'num_heads', got 3 and 4"),
        ({"sliding_window_cache": 1}, "'sliding_window_cache' must be 0"),
        ({"k_quant_type": "PER_TENSOR"}, "'k_quant_type' must be NONE"),
    ],
)
def test_what_it_cannot_compute_is_refused_with_the_reason(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(treadle.errors.TreadleError, match=message):
        treadle.Session(case([5], 5, 0, **attributes).model(is_open=False))
