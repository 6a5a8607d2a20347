"""MultiHeadAttention and its form for decoders of ONNX Runtime (com.microsoft): projections are given.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules import attention_mask
from treadle.frontends.onnx.rules.attention import Heads, Seen, attended, columns, head_count, split_heads
from treadle.frontends.onnx.rules.cache import stored, with_room
from treadle.graph.value import Value
from treadle.records import dataclass

_SWAPPED = (0, 2, 1, 3)


@dataclass(frozen=True, slots=True)
class _Operands:
    """The numbers of the operands that both operators have."""

    bias: int
    mask: int
    added: int
    past: tuple[int, int]
    before: int
    beams: int


_PLAIN = _Operands(bias=3, mask=4, added=5, past=(6, 7), before=8, beams=9)
_DECODER = _Operands(bias=10, mask=3, added=4, past=(5, 6), before=7, beams=9)


def multi_head_attention(node: OnnxNode, b: Builder) -> list[Value | None]:
    """MultiHeadAttention(q, k, v, bias, mask, attention_bias, past_k, past_v, tokens before) -> heads attend; keys,
    values of all tokens.

    With the number of tokens before, the past is a buffer with room for more.
    """
    q, k, v = _operands(node, _PLAIN, b)
    return _attended(node, Heads(q, k, v), _PLAIN, b, shares=node.optional(_PLAIN.before) is not None)


def decoder_masked_attention(node: OnnxNode, b: Builder) -> list[Value | None]:
    """DecoderMaskedMultiHeadAttention(q, k, v, mask, attention_bias, past_k, past_v, tokens before, beams, -, bias) ->
    one query of each text attends; keys, values of all tokens.

    With `past_present_share_buffer`, the past is a buffer with room for more.
    """
    shares = node.flag("past_present_share_buffer", default=False)
    parts = [node.input(0), node.optional(1), node.optional(2)]
    if parts[1] is None:
        count = 3
        whole: list[Value] = b.add_many("split", [node.input(0)], count, axis=-1, parts=count)
        node = node.reading([*whole, *node.inputs[count:]])
    q, k, v = _operands(node, _DECODER, b)
    return _attended(node, Heads(q, k, v), _DECODER, b, shares=shares)


def _attended(node: OnnxNode, heads: Heads, at: _Operands, b: Builder, *, shares: bool) -> list[Value | None]:
    """What heads give for the keys and values of the past and new ones, and these."""
    if node.optional(at.beams) is not None:
        raise Unsupported(f"its input 'cache_indirection' (number {at.beams}) is for beam search with shared buffers")
    if any(node.outputs[3:4]):
        raise Unsupported("its result 'qk' is not computed apart")
    past = [each for each in map(node.optional, at.past) if each is not None]
    if len(past) == 1:
        raise Fault("its inputs 'past_key' and 'past_value' (numbers {} and {}) must come together".format(*at.past))
    if shares and past:
        return _in_buffers(node, heads, past, at, b)
    if past:
        heads = Heads(heads.q, *(b.add("concat", *both, axis=2) for both in zip(past, (heads.k, heads.v), strict=True)))
    mask = attention_mask.of(node, at.mask, heads.q, heads.k, b)
    return [attended(node, heads, [mask, node.optional(at.added)], b), heads.k, heads.v]


def _in_buffers(node: OnnxNode, heads: Heads, past: Sequence[Value], at: _Operands, b: Builder) -> list[Value | None]:
    """What heads give for the first rows of buffers, into which the new ones are put."""
    if node.flag("unidirectional", default=False):
        raise Unsupported("attribute 'unidirectional' must be 0 where past and present share a buffer")
    before = b.as_scalar(b.add("cast", node.input(at.before), to=dtypes.i64))
    starts = b.add("expand", before, b.add("shape", heads.q, start=0, end=1))
    k, v = (stored(old, new, starts, b) for old, new in zip(past, (heads.k, heads.v), strict=True))
    room, end = attention_mask.length(k, b), b.add("add", before, attention_mask.length(heads.k, b))
    holds = b.add("lt", b.numbers(room), end)
    seen = Seen(b.add("unsqueeze", holds, b.integers([0, 1, 2])), b.add("unsqueeze", holds, b.integers([0, 1, 3])))
    whole = Heads(heads.q, k, v)
    operands = list(node.inputs)
    for index in (at.mask, at.added):
        if node.optional(index) is not None and node.rank(index) != 1:
            rank = node.rank(index)
            if rank is None:
                raise Unsupported("the rank of its mask must be known")
            operands[index] = with_room(node.input(index), room, b, axis=rank - 1, rank=rank)
    node = node.reading(operands)
    mask = attention_mask.of(node, at.mask, whole.q, whole.k, b)
    return [attended(node, whole, [mask, node.optional(at.added)], b, seen=seen), k, v]


def _operands(node: OnnxNode, at: _Operands, b: Builder) -> Sequence[Value]:
    """q, k and v as heads, however they are packed."""
    count = head_count(node)
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if key is None:
        return _unpacked(node, 0, 3, at, b)
    first = split_heads(with_bias(node, at.bias, query, query, 0, b), count, b)
    if value is None:
        return [first, *_unpacked(node, 1, 2, at, b)]
    rank = node.rank(1)
    if rank is None:
        raise Unsupported("the rank of its input 'key' must be known")
    if rank == 4:
        return [first, key, value]
    rest = (with_bias(node, at.bias, each, query, place, b) for place, each in enumerate((key, value), 1))
    return [first, *(split_heads(each, count, b) for each in rest)]


def _unpacked(node: OnnxNode, index: int, parts: int, at: _Operands, b: Builder) -> list[Value]:
    """The `parts` tensors that operand `index` [N, tokens, heads, parts, size] holds, as heads."""
    if node.optional(at.bias) is not None:
        raise Unsupported("a bias of packed inputs is not part of ONNX Runtime's CPU operator")
    halves = b.add_many("split", [node.input(index)], parts, axis=3, parts=parts)
    return [b.add("transpose", b.add("squeeze", each, b.integers([3])), perm=_SWAPPED) for each in halves]


def with_bias(node: OnnxNode, index: int, x: Value, q: Value, place: int, b: Builder) -> Value:
    """`x` plus its part of the bias, operand `index`: the one at `place` of those of q, k and v."""
    if node.optional(index) is None:
        return x
    dims, widths = node.dims(index), b.known.dims(q)
    total, width = dims[0] if dims else None, widths[-1] if widths else None
    if total is None or width is None:
        raise Unsupported("the widths of its inputs must be known for a bias")
    bounds = (0, width, 2 * width, total)
    return b.add("add", x, columns(node, index, slice(bounds[place], bounds[place + 1]), b))
