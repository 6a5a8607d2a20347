"""What the numbers among an op's attributes may be, whatever its operands are.

An attribute is no size of a tensor: nothing else bounds it. The rules of an op check it against the operands; before
that it is checked here, so that no product of such numbers leaves 64 bits, and none is a length of a loop that no input
or output has. SECURITY.md states the principle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from treadle.errors import LimitError, ShapeError
from treadle.graph.shape import MAX_RANK
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and the greatest number that an attribute may have, or each of its numbers."""

    least: int
    most: int


COUNT = Bound(1, 2**31 - 1)
"""How many of something there are, or how far it is to the next one: a product of two fits 64 bits."""

EXTRA = Bound(0, 2**31 - 1)
"""How many more there are."""

AXIS = Bound(-MAX_RANK, MAX_RANK)
"""An axis, counted from the end if it is negative; the operands' rank bounds it further."""

INDEX = Bound(-(2**63), 2**63 - 1)
"""A place along an axis, which is moved into it."""

BYTE = Bound(-128, 255)

_WINDOW = {"kernel": COUNT, "strides": COUNT, "pads": EXTRA, "dilations": COUNT}
_ALONG_AXIS = {"axis": AXIS}
_OVER_AXES = {"axes": AXIS}
_BLOCKS = {"block": COUNT}
_PRODUCT = {"a_perm": AXIS, "b_perm": AXIS, "out_perm": AXIS}
_ATTENTION = {"q_perm": AXIS, "k_perm": AXIS, "v_perm": AXIS, "out_perm": AXIS, "repeats": COUNT, "longest": EXTRA}

BOUNDS: Mapping[str, Mapping[str, Bound]] = {
    **dict.fromkeys(("argmax", "argmin", "concat", "flatten", "gather", "gather_elements", "one_hot"), _ALONG_AXIS),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum", "logcumsumexp", "top_k"), _ALONG_AXIS),
    **dict.fromkeys(("layer_norm", "rms_norm", "softmax", "log_softmax", "scatter_elements"), _ALONG_AXIS),
    **dict.fromkeys(("reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum"), _OVER_AXES),
    **dict.fromkeys(("gather_reduce", "resize"), _OVER_AXES),
    **dict.fromkeys(("max_pool", "avg_pool"), _WINDOW),
    **dict.fromkeys(("depth_to_space", "space_to_depth"), _BLOCKS),
    **dict.fromkeys(("attention", "packed_attention"), _ATTENTION),
    "matmul": _PRODUCT,
    "block_matmul": {"bits": COUNT, "block": COUNT},
    "conv": {**_WINDOW, "groups": COUNT, "zero": BYTE},
    "conv_transpose": {**_WINDOW, "output_padding": EXTRA, "groups": COUNT},
    "gather_nd": {"batch_dims": EXTRA},
    "group_norm": {"groups": COUNT},
    "linear_attention": {"heads": COUNT, "shared": COUNT},
    "loop": {"carried": EXTRA, "sliced": EXTRA},
    "lrn": {"size": COUNT},
    "pick_channels": {"picks": EXTRA},
    "reverse_sequence": {"time_axis": AXIS, "batch_axis": AXIS},
    "roi_align": {"rows": COUNT, "columns": COUNT, "samples": EXTRA},
    "shape": {"start": INDEX, "end": INDEX},
    "spread": {"strides": COUNT, "channels": COUNT, "begins": EXTRA, "ends": EXTRA},
    "split": {"axis": AXIS, "parts": COUNT},
    "transpose": {"perm": AXIS},
    "trees": {"targets": COUNT},
}
"""Op -> its attributes of integers, and tuples of these -> their bounds. Operands have the other numbers."""


def numbers_of(value: Any) -> Iterator[int]:
    """Yields the integers of an attribute."""
    if type(value) is int:
        yield value
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from numbers_of(entry)


def check_bounds(op: str, attrs: Mapping[str, Any]) -> None:
    """Checks the numbers among the attributes of a node.

    Raises:
        ShapeError: One is too small.
        LimitError: One is too large.
    """
    for name, bound in BOUNDS.get(op, {}).items():
        for number in numbers_of(attrs.get(name)):
            if number < bound.least:
                raise ShapeError(f"{name} must be {bound.least} or more, got {number}")
            if number > bound.most:
                raise LimitError(f"{name} must be {bound.most} or less, got {number}")
