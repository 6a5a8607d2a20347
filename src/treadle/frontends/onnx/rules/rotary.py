"""Rotary position embeddings: pairs of elements of a head are rotated by angles that depend on the token's place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.ops.op import Array

_SWAPPED = (0, 2, 1, 3)


def standard_rotary_embedding(node: OnnxNode, b: Builder) -> Value | None:
    """RotaryEmbedding(x, cosines, sines, places) of ONNX, x being [N, tokens, width] or [N, heads, tokens, size].

    Without places the cosines and sines are those of the tokens.
    """
    x, rank, count = node.input(0), node.rank(), node.integer("num_heads", 0)
    if rank not in (3, 4) or (rank == 3 and not count):
        return None
    x = _by_tokens(x, rank, [0, 0, count, -1], b)
    places = node.optional(3)
    angles = [node.input(index) for index in (1, 2)]
    if places is not None:
        angles = [b.add("gather", table, places, axis=0) for table in angles]
    width = node.integer("rotary_embedding_dim", 0)
    turned = rotate(x, angles[0], angles[1], width, b, interleaved=node.flag("interleaved", default=False))
    return _as_given(turned, rank, b)


def rotary_embedding(node: OnnxNode, b: Builder) -> Value:
    """RotaryEmbedding(x, places, cosines, sines) of ONNX Runtime, x being [N, tokens, width] or
    [N, heads, tokens, size]."""

    def angles(x: Value, _: int) -> list[Value]:
        places = _places(node, x, b)
        return [b.add("gather", node.input(index), places, axis=0) for index in (2, 3)]

    return _embedded(node, angles, b)


def multimodal_rotary_embedding(node: OnnxNode, b: Builder) -> Value:
    """MRotaryEmbedding(x, places [3, N, tokens], cosines, sines) of ONNX Runtime: each angle belongs to the place in
    time, height or width, as `mrope_section` divides them."""

    def angles(_: Value, half: int) -> list[Value]:
        streams = [
            b.add("squeeze", each, b.integers([0])) for each in b.add_many("split", [node.input(1)], 3, axis=0, parts=3)
        ]
        owners = _owners(node, half)
        results = []
        for index in (2, 3):
            by_stream = [b.add("gather", node.input(index), places, axis=0) for places in streams]
            found = by_stream[0]
            for number in (1, 2):
                found = b.add("where", b.constant(owners == number), by_stream[number], found)
            results.append(found)
        return results

    return _embedded(node, angles, b)


def _embedded(node: OnnxNode, angles: Callable[[Value, int], list[Value]], b: Builder) -> Value:
    """What ONNX Runtime's operators have in common.

    `angles` returns the cosines and sines for x [N, tokens, heads, size] and the width of the cache.
    """
    if node.flag("is_packed_batching", default=False):
        raise Unsupported("attribute 'is_packed_batching' must be 0")
    rank, table, count = node.rank(), node.dims(2), node.integer("num_heads", 0)
    half = table[-1] if table else None
    if rank not in (3, 4) or half is None:
        raise Unsupported("its input must have rank 3 or 4, and the width of its cache must be known")
    rotated = node.integer("rotary_embedding_dim", 0)
    if rotated and not count and rank == 3:
        raise Fault("attribute 'num_heads' must be given with 'rotary_embedding_dim'")
    x = _by_tokens(node.input(0), rank, [0, 0, count, -1] if rotated else [0, 0, -1, 2 * half], b)
    cosines, sines = angles(x, half)
    turned = rotate(x, cosines, sines, rotated, b, interleaved=node.flag("interleaved", default=False))
    scale = node.number("scale", 1.0)
    if scale != 1:
        turned = b.add("mul", turned, b.scalar(scale, turned.dtype))
    return _as_given(turned, rank, b)


def _by_tokens(x: Value, rank: int, apart: list[int], b: Builder) -> Value:
    """x as [N, tokens, heads, size]: `apart`, if it has rank 3."""
    if rank == 3:
        return b.add("reshape", x, b.integers(apart), allowzero=False)
    return b.add("transpose", x, perm=_SWAPPED)


def _as_given(turned: Value, rank: int, b: Builder) -> Value:
    """[N, tokens, heads, size] in the form that x was given in."""
    if rank == 4:
        return b.add("transpose", turned, perm=_SWAPPED)
    return b.add("reshape", turned, b.integers([0, 0, -1]), allowzero=False)


def _owners(node: OnnxNode, half: int) -> Array:
    """For each of `half` angles whether it is of time, height or width: 0, 1 or 2."""
    sections = node.integers("mrope_section") or ()
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != half:
        raise Fault(f"attribute 'mrope_section' {list(sections)} must be 3 numbers whose sum is {half}")
    layout = node.integer("mrope_layout", 0)
    if layout not in (0, 1):
        raise Fault(f"attribute 'mrope_layout' must be 0 or 1, got {layout}")
    if layout == 0:
        return np.repeat(np.arange(3), sections)
    owners = np.zeros(half, np.int64)
    for number in (1, 2):
        owners[number : 3 * sections[number] : 3] = number
    return owners


def gemma_rotary_embedding(node: OnnxNode, b: Builder) -> list[Value]:
    """GemmaRotaryEmbedding(angles [N, tokens, size], q, q turned, k, k turned) -> q cos + turned sin, likewise of k."""
    angles, results = b.add("unsqueeze", node.input(0), b.integers([1])), []
    for at in (1, 3):
        x, turned = node.input(at), node.input(at + 1)
        cosines, sines = (b.add("cast", b.add(name, angles), to=x.dtype) for name in ("cos", "sin"))
        results.append(b.add("add", b.add("mul", x, cosines), b.add("mul", turned, sines)))
    return results


def _places(node: OnnxNode, x: Value, b: Builder) -> Value:
    """The places of tokens [N or 1, tokens]; one number is the place of the first."""
    places = node.input(1)
    if node.rank(1) == 2:
        return places
    return b.add("unsqueeze", b.add("add", b.numbers(b.size(x, 1)), places), b.integers([0]))


def rotate(x: Value, cosines: Value, sines: Value, width: int, b: Builder, *, interleaved: bool) -> Value:
    """Rotates the first `width` elements of each head (0: all) of x [N, tokens, heads, size].

    `cosines` and `sines` are [N or 1, tokens, width / 2]. Pairs are neighbours if `interleaved`, else an element of
    the first half and one of the second.
    """
    rest = None
    if width:
        x, rest = b.add("slice", x, *_bounds(0, width, b)), b.add("slice", x, *_bounds(width, 1 << 62, b))
    cosines, sines = (b.add("unsqueeze", each, b.integers([2])) for each in (cosines, sines))
    if interleaved:
        pairs = b.add("reshape", x, b.integers([0, 0, 0, -1, 2]), allowzero=False)
        first, second = (
            b.add("squeeze", each, b.integers([4])) for each in b.add_many("split", [pairs], 2, axis=4, parts=2)
        )
    else:
        first, second = b.add_many("split", [x], 2, axis=3, parts=2)
    real = b.add("sub", b.add("mul", first, cosines), b.add("mul", second, sines))
    imaginary = b.add("add", b.add("mul", first, sines), b.add("mul", second, cosines))
    if interleaved:
        parts = [b.add("unsqueeze", each, b.integers([4])) for each in (real, imaginary)]
        turned = b.add("reshape", b.add("concat", *parts, axis=4), b.integers([0, 0, 0, -1]), allowzero=False)
    else:
        turned = b.add("concat", real, imaginary, axis=3)
    return turned if rest is None else b.add("concat", turned, rest, axis=3)


def _bounds(start: int, end: int, b: Builder) -> list[Value]:
    return [b.integers([number]) for number in (start, end, 3)]
