"""Small encoders of padded texts, with the masks, projections and poolings that exporters write."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from tests.models.small import FLOAT, Array, ModelWriter

VOCABULARY, POSITIONS, WIDTH, HEADS, DEPTH = 50, 128, 32, 4, 8
LOWEST = float(np.finfo(np.float32).min)

Mask = Callable[[ModelWriter, str], str]
"""Hides padding from scores [batch, heads, length, length]."""

Attention = Callable[[ModelWriter, str, Mask], str]
"""What x [batch, length, WIDTH] gives."""

Pooling = Callable[[ModelWriter, str], str]
"""From rows [batch, length, WIDTH] to the output."""


def _ints(w: ModelWriter, *numbers: int) -> str:
    return w.constant(np.array(numbers, np.int64))


def _number(w: ModelWriter, number: float) -> str:
    return w.constant(np.float32(number))


def _wide_mask(w: ModelWriter) -> str:
    """The mask as [batch, 1, 1, length]."""
    return w.op("Unsqueeze", "mask", _ints(w, 1, 2))


def added(lowest: float) -> Mask:
    """(1 - mask) * lowest is added."""

    def mask(w: ModelWriter, scores: str) -> str:
        wide = w.op("Cast", _wide_mask(w), to=FLOAT)
        return w.op("Add", scores, w.op("Mul", w.op("Sub", _number(w, 1), wide), _number(w, lowest)))

    return mask


def chosen(w: ModelWriter, scores: str) -> str:
    """-inf stands where the mask is 0, spread over all scores."""
    hidden = w.op("Equal", _wide_mask(w), w.constant(np.int64(0)))
    hidden = w.op("Expand", hidden, w.op("Shape", scores))
    return w.op("Where", hidden, _number(w, -np.inf), scores)


def indexed(w: ModelWriter, scores: str) -> str:
    """The mask is picked by the numbers of all texts and tokens, as transformers does."""
    batch, length = (w.op("Gather", w.op("Shape", "mask"), w.constant(np.int64(axis)), axis=0) for axis in (0, 1))
    grids = []
    for size, axes in ((batch, (1, 2, 3)), (length, (0, 1, 2))):
        numbers = w.op("Range", w.constant(np.int64(0)), size, w.constant(np.int64(1)))
        grids.append(w.op("Unsqueeze", numbers, _ints(w, *axes)))
    sizes = w.op(
        "Concat", *(w.op("Unsqueeze", each, _ints(w, 0)) for each in (batch,)), _ints(w, 1, 1),
        w.op("Unsqueeze", length, _ints(w, 0)), axis=0,
    )  # fmt: skip
    indices = w.op("Concat", *(w.op("Unsqueeze", w.op("Expand", g, sizes), _ints(w, 4)) for g in grids), axis=4)
    real = w.op("GatherND", w.op("Cast", "mask", to=9), indices)
    queries = w.op("Range", w.constant(np.int64(0)), length, w.constant(np.int64(1)))
    always = w.op("GreaterOrEqual", w.op("Unsqueeze", queries, _ints(w, 0, 1, 3)), w.constant(np.int64(0)))
    bias = w.op("Where", w.op("And", always, real), _number(w, 0), _number(w, LOWEST))
    return w.op("Add", scores, bias)


def by_token_numbers(w: ModelWriter, scores: str) -> str:
    """Token number 0 is padding; the mask is not read."""
    padding = w.op("Equal", w.op("Unsqueeze", "ids", _ints(w, 1, 2)), w.constant(np.int64(0)))
    return w.op("Where", padding, _number(w, -np.inf), scores)


def unmasked(w: ModelWriter, scores: str) -> str:
    """No mask."""
    return scores


def inverted(w: ModelWriter, scores: str) -> str:
    """Tokens are hidden instead of padding."""
    return w.op("Add", scores, w.op("Mul", w.op("Cast", _wide_mask(w), to=FLOAT), _number(w, LOWEST)))


def weak(w: ModelWriter, scores: str) -> str:
    """Padding keeps some weight."""
    return added(-3.0)(w, scores)


def by_queries(w: ModelWriter, scores: str) -> str:
    """Queries that are padding are hidden, not keys."""
    wide = w.op("Cast", w.op("Unsqueeze", "mask", _ints(w, 1, 3)), to=FLOAT)
    return w.op("Add", scores, w.op("Mul", w.op("Sub", _number(w, 1), wide), _number(w, LOWEST)))


def _heads(w: ModelWriter, x: str, *perm: int) -> str:
    return w.op("Transpose", w.op("Reshape", x, _ints(w, 0, 0, HEADS, DEPTH)), perm=perm)


def _joined(w: ModelWriter, weights: str, v: str) -> str:
    mixed = w.op("Transpose", w.op("MatMul", weights, v), perm=(0, 2, 1, 3))
    return w.op("Reshape", mixed, _ints(w, 0, 0, WIDTH))


def _linear(w: ModelWriter, x: str, into: int, out: int) -> str:
    return w.op("Add", w.op("MatMul", x, w.random(into, out)), w.random(out))


def by_heads(w: ModelWriter, x: str, mask: Mask) -> str:
    """Three projections."""
    q, k, v = (_linear(w, x, WIDTH, WIDTH) for _ in range(3))
    q, k, v = _heads(w, q, 0, 2, 1, 3), _heads(w, k, 0, 2, 3, 1), _heads(w, v, 0, 2, 1, 3)
    scores = mask(w, w.op("Div", w.op("MatMul", q, k), _number(w, DEPTH**0.5)))
    return _joined(w, w.op("Softmax", scores, axis=-1), v)


def by_one_projection(w: ModelWriter, x: str, mask: Mask) -> str:
    """One projection that is split, keys transposed with batch and heads in one axis, and no NaN kept."""
    q = w.op("Split", _linear(w, x, WIDTH, 3 * WIDTH), _ints(w, WIDTH, WIDTH, WIDTH), outputs=3, axis=2)
    k, v = _heads(w, f"{q}_1", 0, 2, 1, 3), _heads(w, f"{q}_2", 0, 2, 1, 3)
    shape = w.op("Shape", k)
    flat = w.op("Reshape", k, w.op("Concat", _ints(w, -1), w.op("Slice", shape, _ints(w, 2), _ints(w, 4)), axis=0))
    turned = w.op("Transpose", flat, perm=(0, 2, 1))
    length = w.op("Slice", shape, _ints(w, 2), _ints(w, 3))
    k = w.op("Reshape", turned, w.op("Concat", _ints(w, -1, HEADS, DEPTH), length, axis=0))
    scores = mask(w, w.op("Mul", w.op("MatMul", _heads(w, q, 0, 2, 1, 3), k), _number(w, DEPTH**-0.5)))
    weights = w.op("Softmax", scores, axis=-1)
    weights = w.op("Where", w.op("IsNaN", weights), _number(w, 0), weights)
    return _joined(w, weights, v)


def scaled_by_text(w: ModelWriter, x: str, mask: Mask) -> str:
    """What by_heads gives, divided by the number of tokens of the text."""
    real = w.op("ReduceSum", w.op("Cast", "mask", to=FLOAT), _ints(w, 1), keepdims=1)
    return w.op("Div", by_heads(w, x, mask), w.op("Unsqueeze", real, _ints(w, 2)))


def first_token(w: ModelWriter, rows: str) -> str:
    """The row of the first token."""
    return w.op("Gather", rows, w.constant(np.int64(0)), axis=1)


def first_slice(w: ModelWriter, rows: str) -> str:
    """The same by a slice, through a layer."""
    row = w.op("Slice", rows, _ints(w, 0), _ints(w, 1), _ints(w, 1))
    return w.op("Tanh", _linear(w, w.op("Squeeze", row, _ints(w, 1)), WIDTH, WIDTH))


def masked_mean(w: ModelWriter, rows: str) -> str:
    """The mean of the rows of tokens, of length 1."""
    mask = w.op("Cast", w.op("Expand", w.op("Unsqueeze", "mask", _ints(w, 2)), w.op("Shape", rows)), to=FLOAT)
    total = w.op("ReduceSum", w.op("Mul", rows, mask), _ints(w, 1), keepdims=0)
    count = w.op("Clip", w.op("ReduceSum", mask, _ints(w, 1), keepdims=0), _number(w, 1e-9))
    mean = w.op("Div", total, count)
    return w.op("Div", mean, w.op("ReduceL2", mean, axes=[1], keepdims=1))


def masked_greatest(w: ModelWriter, rows: str) -> str:
    """The greatest element over tokens."""
    real = w.op("Cast", w.op("Unsqueeze", "mask", _ints(w, 2)), to=9)
    return w.op("ReduceMax", w.op("Where", real, rows, _number(w, -1e9)), axes=[1], keepdims=0)


def mean_of_all(w: ModelWriter, rows: str) -> str:
    """The mean over padding too."""
    return w.op("ReduceMean", rows, axes=[1], keepdims=0)


def last_position(w: ModelWriter, rows: str) -> str:
    """The row of the last position, which may be padding."""
    return w.op("Gather", rows, w.constant(np.int64(-1)), axis=1)


def all_rows(w: ModelWriter, rows: str) -> str:
    """All rows, those of padding too."""
    return w.op("Identity", rows)


def encoder(
    *poolings: Pooling, mask: Mask | None = None, attention: Attention = by_heads, layers: int = 2
) -> onnx.ModelProto:
    """An encoder of [batch, length] token numbers `ids` with the `mask`; output y, y1, .. for each of `poolings`."""
    w = ModelWriter()
    size = w.op("Slice", w.op("Shape", "ids"), _ints(w, 1), _ints(w, 2))
    positions = w.op("Slice", w.constant(np.arange(POSITIONS)[None]), _ints(w, 0), size, _ints(w, 1))
    x = w.op("Gather", w.random(VOCABULARY, WIDTH), "ids")
    x = w.op("Add", x, w.op("Gather", w.random(POSITIONS, WIDTH), positions))
    for _ in range(layers):
        x = w.op("LayerNormalization", x, w.random(WIDTH), w.random(WIDTH), axis=-1)
        mixed = attention(w, x, mask or added(LOWEST))
        x = w.op("Add", x, _linear(w, mixed, WIDTH, WIDTH))
        x = w.op("Add", x, _linear(w, w.op("Relu", _linear(w, x, WIDTH, 2 * WIDTH)), 2 * WIDTH, WIDTH))
    outputs: dict[str, tuple[int, list[int | str] | None]] = {}
    for number, pooling in enumerate(poolings):
        pooled, name = pooling(w, x), f"y{number or ''}"
        next(node for node in w.nodes if node.output[0] == pooled).output[0] = name
        outputs[name] = (FLOAT, ["batch", "length", WIDTH] if pooling is all_rows else ["batch", WIDTH])
    inputs = {name: (7, ["batch", "length"]) for name in ("ids", "mask")}
    return w.model(inputs, outputs)


def feed(lengths: list[int], longest: int, seed: int = 0) -> dict[str, Array]:
    """Random texts of these `lengths`, padded at the right with random tokens."""
    rng = np.random.default_rng(seed)
    mask = (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int64)
    return {"ids": rng.integers(0, VOCABULARY, mask.shape), "mask": mask}
