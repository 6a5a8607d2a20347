"""Texts without padding in operators of ONNX Runtime (com.microsoft), which has no CPU kernels of them: by formulas."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.models.contrib import Array, OneNode, close, some
from tests.models.contrib_formulas import attention, heads

COUNTS = np.array([1, 2, 4], np.int32)
PLACES = np.array([[0, 4, 5, 8], [9, 10, 11, 1], [2, 3, 6, 7]], np.int32)
ENDS = np.array([0, 1, 3, 7], np.int32)
TOKENS, WIDTH, HEADS = 7, 12, 3


def within_texts(q: Array, k: Array, v: Array, added: Array | None = None, scale: float | None = None) -> Array:
    """Attention of each text's rows by themselves."""
    found = []
    for start, end in pairwise(ENDS):
        own = (heads(each[None, start:end], HEADS) for each in (q, k, v))
        count = end - start
        mask = 0.0 if added is None else added[..., :count, :count]
        found.append(attention(*own, mask=mask, scale=scale)[0])
    return np.concatenate(found)


def test_padding_is_removed_and_restored() -> None:
    x = some(3, 4, WIDTH)
    node = OneNode("RemovePadding", {"x": x, "counts": COUNTS}, outputs=("y", "places", "ends", "most"))
    tokens = np.concatenate([x[text, :count] for text, count in enumerate(COUNTS)])

    found = node.run()
    close(found, [tokens, PLACES, ENDS, np.array([4])])
    assert {name: array.dtype for name, array in found.items()} == {
        "y": np.float32, "places": np.int32, "ends": np.int32, "most": np.int32,
    }  # fmt: skip
    back = OneNode("RestorePadding", {"x": tokens, "places": PLACES}).run()
    close(back, [np.where(np.arange(4)[:, None] < COUNTS[:, None, None], x, 0)])


@pytest.mark.parametrize("form", ["apart", "packed", "added"])
def test_tokens_attend_to_their_own_text(form: str) -> None:
    """PackedMultiHeadAttention."""
    parts, bias = [some(TOKENS, WIDTH, seed=at) for at in range(3)], some(3 * WIDTH)
    added = some(1, HEADS, 4, 4) if form == "added" else None
    operands: dict[str, Array | None] = dict(zip("qkv", parts, strict=True))
    operands |= {"bias": bias, "places": PLACES, "ends": ENDS, "added": added}
    if form == "packed":
        together = np.stack([each.reshape(TOKENS, HEADS, -1) for each in parts], axis=2)
        operands |= {"q": together, "k": None, "v": None, "bias": None}
    else:
        parts = [each + bias[at * WIDTH :][:WIDTH] for at, each in enumerate(parts)]
    node = OneNode("PackedMultiHeadAttention", operands, attributes={"num_heads": HEADS, "scale": 0.4})

    close(node.run(), [within_texts(*parts, added=added, scale=0.4)], rtol=1e-4, atol=1e-5)


def test_tokens_are_projected_first() -> None:
    """PackedAttention."""
    x, weights, bias = some(TOKENS, 5), some(5, 3 * WIDTH), some(3 * WIDTH)
    operands = {"x": x, "w": weights, "b": bias, "places": PLACES, "ends": ENDS}
    node = OneNode("PackedAttention", operands, frozenset("wb"), attributes={"num_heads": HEADS})

    close(node.run(), [within_texts(*np.split(x @ weights + bias, 3, axis=1))], rtol=1e-4, atol=1e-5)
