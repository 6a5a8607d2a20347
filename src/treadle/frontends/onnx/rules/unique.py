"""Unique: sorted, what is equal lies together; the first of each group is kept."""

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_UNSORTED = (None, dtypes.string, dtypes.boolean, dtypes.f16, dtypes.bf16)
"""Elements that top_k does not order by a kernel."""


def unique(node: OnnxNode, b: Builder) -> list[Value] | None:
    """Unique -> top_k, non_zero and gathers; along an axis of several by the onnx package's reference."""
    x = node.input(0)
    if x.dtype in _UNSORTED or (node.has("axis") and node.rank() != 1):
        return None
    return _groups(b, x, keep_order=not node.flag("sorted", default=True))


def in_order(node: OnnxNode, b: Builder) -> list[Value] | None:
    """com.microsoft.Unique(x [n]) -> what there is, in the order of x; which of it each element is; how often."""
    x = node.input(0)
    if x.dtype in _UNSORTED:
        return None
    found, _, inverse, counts = _groups(b, x, keep_order=True)
    return [found, inverse, counts]


def _groups(b: Builder, x: Value, *, keep_order: bool) -> list[Value]:
    """The elements of x without repetition, where each is first, which of them each element is, and how often."""
    flat = b.add("reshape", x, b.integers([-1]))
    length = b.add("shape", flat)
    ordered, places = _sorted(b, flat, length)
    begins = _begins_group(b, ordered, length)
    groups = b.add("sub", _sums(b, begins), b.integers([1]))
    inverse = _scattered(b, groups, places)
    starts = _first_axis(b, b.add("counted", *b.add_many("non_zero", [begins], 2), axis=1, label="unique"))
    first = b.add("gather", places, starts, axis=0)
    found = b.add("gather", ordered, starts, axis=0)
    counts = b.add("sub", _shifted(b, starts, length), starts)
    if keep_order:
        first, order = _sorted(b, first, b.add("shape", first))
        found, counts = (b.add("gather", value, order, axis=0) for value in (found, counts))
        inverse = b.add("gather", _sorted(b, order, b.add("shape", order))[1], inverse, axis=0)
    return [found, first, inverse, counts]


def _sorted(b: Builder, x: Value, length: Value) -> list[Value]:
    """The elements of x in ascending order, and where they were; of equal ones the first comes first."""
    return b.add_many("top_k", [x, length], 2, axis=0, largest=False, sorted=True)


def _begins_group(b: Builder, ordered: Value, length: Value) -> Value:
    """Whether an element is the first one or differs from the one before it; NaNs are equal."""
    zero, one = b.scalar(0, dtypes.i64), b.scalar(1, dtypes.i64)
    before = b.add("concat", _slice(b, ordered, 0, 1), _slice(b, ordered, 0, -1), axis=0)
    differs = b.add("ne", ordered, before)
    if ordered.known_dtype.is_float:
        both = b.add("and", b.add("isnan", ordered), b.add("isnan", before))
        differs = b.add("and", differs, b.add("not", both))
    numbers = b.add("range", zero, _first_axis(b, length), one)
    return b.add("or", differs, b.add("eq", numbers, zero))


def _sums(b: Builder, begins: Value) -> Value:
    return b.add("cumsum", b.add("cast", begins, to=dtypes.i64), axis=0, exclusive=False, reverse=False)


def _scattered(b: Builder, values: Value, places: Value) -> Value:
    """`values` at `places`, which are all there are."""
    return b.add("scatter_elements", values, places, values, axis=0, reduction="none")


def _shifted(b: Builder, x: Value, last: Value) -> Value:
    """The elements of x but the first, then `last`."""
    return b.add("concat", _slice(b, x, 1, 1 << 62), last, axis=0)


def _slice(b: Builder, x: Value, start: int, end: int) -> Value:
    return b.add("slice", x, b.integers([start]), b.integers([end]), b.integers([0]))


def _first_axis(b: Builder, x: Value) -> Value:
    """x without its first axis, which has one element."""
    return b.add("squeeze", x, b.integers([0]))
