"""The packed forms of values: the rows of all texts one after another, without those of padding."""

from __future__ import annotations

from dataclasses import field

from treadle.dtypes import i64
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit
from treadle.passes.skip_padding.axes import TEXT, TOKEN, Axes, PaddedSizes, is_padded, is_plain
from treadle.passes.skip_padding.masks import Masks
from treadle.records import dataclass

ROWS, POSITIONS, TEXTS, OFFSETS, FIRSTS, PLACES = "rows", "positions", "texts", "offsets", "firsts", "places"
"""What a run computes from the mask, as `runtime/padded_texts.py` describes it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The packed form of a value, and what the axes of the padded one count."""

    value: Value
    axes: Axes


@dataclass(slots=True)
class Packing:
    """What is known of the values of one graph while it is rewritten.

    A value is *padded* where it is computed as the model says; it is right for padding too. From the first product of
    tokens on values are *packed* only: `dropped` are those of which no padded form is computed.
    """

    graph: Graph
    context: PassContext
    sizes: PaddedSizes
    masks: Masks
    packed: dict[Value, Packed] = field(default_factory=dict)
    dropped: set[Value] = field(default_factory=set)
    cleared: dict[Value, Node] = field(default_factory=dict)
    """Values that do not depend on padding, because a mask replaces it, and the nodes that do so."""
    replaced: dict[Value, Value] = field(default_factory=dict)
    """Padded values that were computed from packed ones again, and what they replace."""
    inputs: dict[str, Value] = field(default_factory=dict)
    """The inputs that the rewritten graph has in addition, by what they hold."""

    def axes_of(self, value: Value) -> Axes | None:
        """What the axes of `value` count; None if that is not known."""
        found = self.packed.get(value)
        if found is not None:
            return found.axes
        return None if value.shape is None else self.sizes.axes(value.static_shape)

    def given(self, kind: str) -> Value:
        """The input that holds `kind`."""
        if kind not in self.inputs:
            sizes = self.sizes
            shapes: dict[str, StaticShape] = {
                OFFSETS: (sizes.batch + 1,),
                FIRSTS: (sizes.batch,),
                PLACES: (sizes.batch, sizes.length),
            }
            shape = shapes.get(kind, (sizes.tokens,))
            self.inputs[kind] = self.graph.input(self.graph.unique_name(f"padding.{kind}"), i64, shape)
        return self.inputs[kind]

    def form(self, value: Value, edit: Edit, within: Axes | None = None) -> Packed | None:
        """The packed form of `value`, made now if it has none; None if it cannot be made.

        Args:
            value: An operand.
            edit: Takes the nodes that make the packed form.
            within: The axes of the value to which it is broadcast.
        """
        found = self.packed.get(value)
        if found is not None or value in self.dropped:
            return found
        axes = self.axes_of(value)
        if axes is None:
            return None
        if all(map(is_plain, axes)):
            return Packed(value, axes)
        made = self._picked(value, axes, edit, within)
        if made is None:
            return None
        packed = Packed(made, axes)
        if is_padded(axes):
            self.packed[value] = packed
        return packed

    def _picked(self, value: Value, axes: Axes, edit: Edit, within: Axes | None) -> Value | None:
        shape = self.sizes.packed(axes)
        if not is_padded(axes):
            return self._of_texts(value, axes, edit, within)
        if not any(TEXT in axis for axis in axes):
            at = _only(axes, (TOKEN,))
            return None if at is None else edit.add("gather", [value, self.given(POSITIONS)], {"axis": at})
        at = rows_axis(axes)
        if at is None:
            return None
        flat = edit.reshape(value, _merged(value.static_shape, axes, at))
        picked = edit.add("gather", [flat, self.given(ROWS)], {"axis": at})
        return edit.reshape(picked, shape)

    def _of_texts(self, value: Value, axes: Axes, edit: Edit, within: Axes | None) -> Value | None:
        """A value of each text, repeated for its tokens."""
        text = _only(axes, (TEXT,))
        if text is None or within is None:
            return None
        shift = len(within) - len(axes)
        token = _only(within, (TOKEN,))
        if token is None or token - shift != text + 1 or axes[text + 1]:
            return None
        picked = edit.add("gather", [value, self.given(TEXTS)], {"axis": text})
        shape = list(self.sizes.packed(axes))
        shape[text + 1] = self.sizes.tokens
        return edit.reshape(picked, tuple(shape))

    def flat(self, packed: Packed, edit: Edit) -> tuple[Value, int] | None:
        """The packed value with one axis for texts and tokens, and that axis; None if they are no neighbours."""
        at = rows_axis(packed.axes)
        if at is None:
            return None
        return edit.reshape(packed.value, _merged(packed.value.static_shape, packed.axes, at)), at

    def padded(self, value: Value, edit: Edit) -> Value | None:
        """`value` with padding again, which holds rows of the same text; None if that is not possible."""
        packed = self.packed.get(value)
        found = None if packed is None else self.flat(packed, edit)
        if packed is None or found is None:
            return None
        flat, at = found
        spread = edit.add("gather", [flat, self.given(PLACES)], {"axis": at})
        return edit.reshape(spread, value.static_shape)

    def exact(self, value: Value, edit: Edit) -> Value | None:
        """`value` as the model computes it, padding included; None if there is no such value."""
        if value not in self.dropped:
            return value
        if value in self.replaced:
            return self.replaced[value]
        node = self.cleared.get(value)
        if node is None:
            return None
        operands = [
            None if each is None else self.padded(each, edit) if each in self.dropped else each for each in node.inputs
        ]
        if any(made is None for made in operands):
            return None
        clone = self.graph.make(node.op, operands, dict(node.attrs), name=node.name)
        clone.output.dtype, clone.output.shape = value.dtype, value.shape
        edit.nodes.append(clone)
        self.replaced[value] = clone.output
        return clone.output


def _only(axes: Axes, wanted: tuple[str, ...]) -> int | None:
    """The axis that counts `wanted`; None if there is none, or several."""
    found = [at for at, axis in enumerate(axes) if axis == wanted]
    return found[0] if len(found) == 1 else None


def rows_axis(axes: Axes) -> int | None:
    """The axis that counts texts and tokens, or that of texts if that of tokens is the next; else None."""
    merged = _only(axes, (TEXT, TOKEN))
    if merged is not None:
        return merged
    text, token = _only(axes, (TEXT,)), _only(axes, (TOKEN,))
    return text if text is not None and token == text + 1 else None


def _merged(shape: StaticShape, axes: Axes, at: int) -> StaticShape:
    """`shape` with the axes of texts (`at`) and tokens joined."""
    if TOKEN in axes[at]:
        return shape
    return (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
