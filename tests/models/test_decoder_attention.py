"""DecoderMaskedMultiHeadAttention, and MultiHeadAttention with buffers (com.microsoft): one step of a decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import treadle
from tests.models.contrib import Array, OneNode, close, some
from tests.models.contrib_formulas import attention, excluded, heads

HEADS, SIZE, PAST, ROOM = 3, 8, 4, 9
WIDTH = HEADS * SIZE
MASK = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1]], np.int32)
QUERY, KEY, VALUE = (some(2, 1, WIDTH, seed=at) for at in range(3))
BUFFERS = [some(2, HEADS, ROOM, SIZE, seed=at) for at in (3, 4)]
BIAS, ADDED = some(3 * WIDTH), some(1, HEADS, 1, PAST + 1)


def step(
    *, shares: bool = True, packed: bool = False, bias: Array | None = None, mask: Array | None = None, **more: Any
) -> OneNode:
    """The token behind PAST ones, which are in buffers if it `shares` them."""
    past = BUFFERS if shares else [each[:, :, :PAST].copy() for each in BUFFERS]
    operands: dict[str, Array | None] = {
        "q": np.concatenate([QUERY, KEY, VALUE], axis=-1) if packed else QUERY,
        "k": None if packed else KEY,
        "v": None if packed else VALUE,
        "mask": mask,
        "added": more.get("added"),
        "past_k": past[0],
        "past_v": past[1],
        "before": np.array([PAST], np.int32) if shares else None,
        "beams": None,
        "cache": more.get("cache"),
        "bias": bias,
    }
    attributes = {"num_heads": HEADS, "past_present_share_buffer": int(shares)}
    return OneNode("DecoderMaskedMultiHeadAttention", operands, outputs=("y", "k_all", "v_all"), attributes=attributes)


def wanted(node: OneNode) -> list[Array]:
    """What attention over the first PAST + 1 rows gives."""
    bias, mask, added = (node.operands[name] for name in ("bias", "mask", "added"))
    q, k, v = (
        heads(each if bias is None else each + bias[at * WIDTH :][:WIDTH], HEADS)
        for at, each in enumerate((QUERY, KEY, VALUE))
    )
    caches = []
    for old, new in zip(BUFFERS, (k, v), strict=True):
        cache = old.copy()
        cache[:, :, PAST : PAST + 1] = new
        caches.append(cache)
    scores = 0.0 if mask is None else excluded(mask[:, None, None] > 0)
    scores = scores if added is None else scores + added
    y = attention(q, *(cache[:, :, : PAST + 1] for cache in caches), scores)
    shares = node.attributes["past_present_share_buffer"]
    return [y, *(cache[:, :, : ROOM if shares else PAST + 1] for cache in caches)]


CASES = {
    "shared": step(),
    "shared_biased_masked": step(bias=BIAS, mask=MASK),
    "shared_added": step(added=ADDED),
    "passed_on": step(shares=False, mask=MASK),
    "packed": step(packed=True),
}


@pytest.mark.parametrize("name", CASES)
def test_one_query_attends_to_the_tokens_before(name: str) -> None:
    node = CASES[name]

    close(node.run(), wanted(node), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["shared", "shared_biased_masked"])
def test_onnxruntime_does_the_same(name: str) -> None:
    node = CASES[name]

    close(node.run_by_onnxruntime(), wanted(node), rtol=1e-4, atol=1e-5)


def test_keys_of_an_encoder_are_read_as_they_are() -> None:
    """Cross attention: keys and values have their heads already."""
    k, v = (some(2, HEADS, 6, SIZE, seed=at) for at in (5, 6))
    operands = {"q": QUERY, "k": k, "v": v, "mask": np.array([[1, 1, 1, 1, 1, 0], [1] * 6], np.int32)}
    node = OneNode("DecoderMaskedMultiHeadAttention", operands, attributes={"num_heads": HEADS})
    y = attention(heads(QUERY, HEADS), k, v, excluded(operands["mask"][:, None, None] > 0))

    close(node.run(), [y], rtol=1e-4, atol=1e-5)
    close(node.run_by_onnxruntime(), [y], rtol=1e-4, atol=1e-5)


def test_several_tokens_go_into_the_buffers_of_multi_head_attention() -> None:
    """Queries see all new keys: a mask of texts says otherwise."""
    parts = [some(2, 3, WIDTH, seed=at) for at in range(3)]
    operands = dict(zip(("q", "k", "v"), parts, strict=True)) | {"bias": None, "mask": None, "added": None}
    operands |= {"past_k": BUFFERS[0], "past_v": BUFFERS[1], "before": np.array([PAST], np.int32)}
    node = OneNode("MultiHeadAttention", operands, outputs=("y", "k_all", "v_all"), attributes={"num_heads": HEADS})
    caches = [each.copy() for each in BUFFERS]
    for cache, new in zip(caches, parts[1:], strict=True):
        cache[:, :, PAST : PAST + 3] = heads(new, HEADS)
    y = attention(heads(parts[0], HEADS), *(cache[:, :, : PAST + 3] for cache in caches))

    close(node.run(), [y, *caches], rtol=1e-4, atol=1e-5)


def test_one_cache_alone_is_refused() -> None:
    node = step()
    lonely = replace(node, operands={**node.operands, "past_k": None})
    with pytest.raises(treadle.errors.ModelError, match="'past_value' \\(numbers 5 and 6\\) must come together"):
        treadle.Session(lonely.model(is_open=False))


def test_beams_are_refused() -> None:
    cache = np.zeros((2, 1, ROOM), np.int32)
    with pytest.raises(treadle.errors.TreadleError, match="'cache_indirection' \\(number 9\\) is for beam search"):
        treadle.Session(step(cache=cache).model(is_open=False))
