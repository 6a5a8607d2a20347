"""Which moves of channels between blocked values stay blocked."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.passes.conftest import TARGET

from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.value import Value
from treadle.ops.evaluate import evaluate
from treadle.passes.base import PassContext
from treadle.passes.pick_channels import PickChannels

LAYOUT = Blocked(16)


class Moves:
    """A graph of blocked inputs, what is done to their row-major copies, and blocked results."""

    def __init__(self) -> None:
        self.graph = Graph()

    def input(self, name: str, channels: int) -> Value:
        """The row-major copy of a blocked input."""
        x = self.graph.input(name, f32, (2, channels, 3, 4))
        x.layout = LAYOUT
        return self.add("reorder", [x], x.static_shape)

    def add(self, op: str, inputs: list[Value], shape: tuple[int, ...], **attrs: object) -> Value:
        """The result of a node."""
        value = self.graph.value(op, f32, shape)
        self.graph.add(op, inputs, attrs, outputs=[value])
        return value

    def shape(self, *numbers: int) -> Value:
        """A constant of whole numbers."""
        return self.graph.constant(np.array(numbers, np.int64))

    def concat(self, *values: Value) -> Value:
        """`values` behind each other."""
        return self.add("concat", [*values], (2, sum(v.static_shape[1] for v in values), 3, 4), axis=1)

    def slice(self, x: Value, first: int, last: int, step: int = 1, axis: int = 1) -> Value:
        """Every `step`-th index from first to last."""
        shape = list(x.static_shape)
        shape[axis] = len(range(first, last, step))
        bounds = [self.shape(number) for number in (first, last, axis, step)]
        return self.add("slice", [x, *bounds], tuple(shape))

    def shuffle(self, x: Value, groups: int, perm: tuple[int, ...] = (0, 2, 1, 3, 4)) -> Value:
        """The channels of `groups` groups in turn."""
        images, channels, *places = x.static_shape
        each = channels // groups
        split = self.add("reshape", [x, self.shape(images, groups, each, *places)], (images, groups, each, *places))
        turned = self.add("transpose", [split], tuple(split.static_shape[i] for i in perm), perm=perm)
        return self.add("reshape", [turned, self.shape(*x.static_shape)], x.static_shape)

    def output(self, x: Value) -> None:
        """Let the graph give `x` in blocks."""
        out = self.add("reorder", [x], x.static_shape)
        out.layout = LAYOUT
        self.graph.outputs.append(out)

    def ops_after(self) -> list[str]:
        """The ops that are left, once the results were found to be what they were."""
        rng = np.random.default_rng(1)
        given = {x.name: rng.standard_normal(x.static_shape).astype(np.float32) for x in self.graph.inputs}
        before = evaluate(self.graph, given)
        PickChannels().run(self.graph, PassContext(TARGET))
        for name, array in evaluate(self.graph, given).items():
            np.testing.assert_array_equal(array, before[name])
        return [node.op for node in self.graph.nodes]


def test_units_of_a_shuffled_network_stay_blocked() -> None:
    """Halves are set aside, joined with new channels and shuffled, again and again: each blocked result is picked at
    once."""
    moves = Moves()
    rest, new = moves.input("a", 20), moves.input("b", 20)
    for number in range(3):
        whole = moves.shuffle(moves.concat(rest, new), 2)
        rest = moves.slice(whole, 0, 20)
        moves.output(moves.slice(whole, 20, 40))
        new = moves.input(f"new{number}", 20)
    moves.output(moves.concat(rest, new))
    assert moves.ops_after() == ["pick_channels"] * 4


def test_slices_with_steps_and_from_the_end() -> None:
    """Bounds count from the end, and steps may go back."""
    moves = Moves()
    x = moves.input("x", 40)
    moves.output(
        moves.add("slice", [x, moves.shape(-1), moves.shape(-41), moves.shape(1), moves.shape(-3)], (2, 14, 3, 4))
    )
    assert moves.ops_after() == ["pick_channels"]


def test_a_row_major_reader_keeps_its_copy() -> None:
    """What somebody reads row-major is made as before, beside what is picked."""
    moves = Moves()
    joined = moves.concat(moves.input("a", 20), moves.input("b", 20))
    moves.output(joined)
    moves.graph.outputs.append(moves.add("relu", [joined], joined.static_shape))
    assert sorted(moves.ops_after()) == ["concat", "pick_channels", "relu", "reorder", "reorder"]


@pytest.mark.parametrize("what", ["rows sliced", "rows transposed", "a row-major operand"])
def test_other_moves_are_left_alone(what: str) -> None:
    """Only whole channels of blocked values are picked."""
    moves = Moves()
    x = moves.input("x", 20)
    if what == "rows sliced":
        moves.output(moves.slice(x, 0, 2, axis=2))
    elif what == "rows transposed":
        moves.output(moves.shuffle(x, 2, perm=(0, 1, 2, 4, 3)))
    else:
        moves.output(moves.concat(x, moves.graph.input("y", f32, (2, 20, 3, 4))))
    assert "pick_channels" not in moves.ops_after()
