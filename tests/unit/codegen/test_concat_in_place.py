"""Convolutions write their results into the output of a concatenation of channels, on every instruction set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_graph
from tests.single_node import blocked

from treadle.dtypes import f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.op import Info
from treadle.ops.table import OPS
from treadle.passes.lower.conv.winograd import lower as winograd
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]
CHANNELS, SIZE = 64, (12, 13)


class Branches:
    """A graph of blocked values, with one input of `images` images."""

    def __init__(self, target: Target, images: int) -> None:
        self.graph, self.layout = Graph(), blocked(target)
        self.rng = np.random.default_rng(5)
        shape = (images, CHANNELS, *SIZE)
        plain = self.graph.input("x", f32, shape)
        self.given = {"x": self.rng.standard_normal(shape).astype(np.float32)}
        self.x = self.add("reorder", [plain])

    def add(self, op: str, inputs: list[Value | None], attrs: dict[str, Any] | None = None) -> Value:
        """The blocked result of `op`."""
        infos = [None if v is None else Info(v.known_dtype, v.static_shape, v.data) for v in inputs]
        result = infos[0] if op == "reorder" else OPS[op].infer(attrs or {}, infos, 1)[0]
        assert result is not None
        value = self.graph.value(op, result.dtype, result.shape)
        value.layout = self.layout
        self.graph.add(op, inputs, attrs or {}, outputs=[value])
        return value

    def conv(self, outputs: int, size: int, x: Value | None = None, residual: Value | None = None) -> Value:
        """A convolution that keeps the image's size, with a bias, an optional residual and relu."""
        x = x or self.x
        weights = self.rng.standard_normal((outputs, x.static_shape[1], size, size)).astype(np.float32)
        bias = self.rng.standard_normal(outputs).astype(np.float32)
        attrs: dict[str, Any] = {
            "strides": (1, 1), "pads": (size // 2,) * 4, "dilations": (1, 1), "groups": 1,
        }  # fmt: skip
        attrs["epilogue"] = (
            Expr((f32,), (Step("relu", (0,), f32),), (1,))
            if residual is None
            else Expr((f32, f32), (Step("add", (0, 1), f32), Step("relu", (2,), f32)), (3,))
        )
        operands = [x, self.graph.constant(weights, "w"), self.graph.constant(bias, "b")]
        plain = {key: attr for key, attr in attrs.items() if key != "epilogue"}
        infos = [Info(v.known_dtype, v.static_shape, v.data) for v in operands]
        value = self.graph.value("conv", f32, OPS["conv"].infer(plain, infos, 1)[0].shape)
        value.layout = self.layout
        self.graph.add("conv", [*operands, *([] if residual is None else [residual])], attrs, outputs=[value])
        return value

    def concat(self, *values: Value, axis: int = 1) -> Value:
        """The concatenation of the values."""
        return self.add("concat", [*values], {"axis": axis})

    def output(self, value: Value) -> None:
        """Makes `value` a row-major output."""
        plain = self.graph.value("plain", f32, value.static_shape)
        self.graph.add("reorder", [value], outputs=[plain])
        self.graph.outputs.append(plain)


def copies(target: Target, make: Callable[[Branches], None], images: int = 3) -> int:
    """The number of copies in the graph, whose bits must equal those of a graph that copies every value."""
    together, separate = Branches(target, images), Branches(target, images)
    for branches in (together, separate):
        make(branches)
    for node in list(separate.graph.nodes):
        if node.op in ("conv", "concat"):
            separate.output(node.output)
    wanted = run_graph(separate.graph, separate.given, target=target)
    for reverse in (False, True):
        found = run_graph(together.graph, together.given, target=target, reverse_chunks=reverse)
        for value, other in zip(together.graph.outputs, separate.graph.outputs, strict=False):
            assert np.array_equal(found[value.name], wanted[other.name])
    return sum(call.op == "concat" for call in lower_graph(together.graph, target)[0])


def four(branches: Branches, last: int = 16) -> None:
    """The concatenation of four convolutions of one input."""
    values = [branches.conv(outputs, size) for outputs, size in ((64, 1), (64, 3), (48, 5), (last, 1))]
    branches.output(branches.concat(*values))


def families(target: Target, make: Callable[[Branches], None]) -> set[str]:
    """The kernels of the graph."""
    branches = Branches(target, 2)
    make(branches)
    return {call.spec.family for call in lower_graph(branches.graph, target)[0] if call.spec is not None}


@pytest.mark.parametrize("images", [1, 2, 3])
@pytest.mark.parametrize("last", [16, 19])
@pytest.mark.parametrize("family", ["conv", "conv_winograd"])
def test_every_kernel_writes_in_place(
    target: Target, images: int, last: int, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels write in place for pixels in one row, in rows or in tiles; the last operand may have spare lanes."""
    if family != "conv_winograd":
        monkeypatch.setattr(winograd, "choose_tiling", lambda *_, **__: None)
    assert family in families(target, four)
    assert copies(target, lambda branches: four(branches, last), images) == 0


def residual(branches: Branches) -> None:
    """A residual must have the layout and the strides of the result."""
    first = branches.conv(64, 1)
    branches.output(branches.concat(branches.conv(64, 1, first, residual=first), branches.conv(32, 3, first)))


def read_by_others(branches: Branches) -> None:
    """Another reader would have to wait for the whole concatenation."""
    first = branches.conv(32, 1)
    branches.output(branches.concat(first, branches.conv(32, 3, first)))


def joined_twice(branches: Branches) -> None:
    """A value cannot be at two offsets."""
    first = branches.conv(32, 1)
    branches.output(branches.concat(first, first))


def joined_again(branches: Branches) -> None:
    """The result of a concatenation has no kernel that could write it elsewhere."""
    first = branches.concat(branches.conv(32, 1), branches.conv(32, 3))
    branches.output(branches.concat(first, branches.conv(64, 1)))


def rows(branches: Branches) -> None:
    """In a concatenation of rows, those of different operands follow each other in every block of channels."""
    branches.output(branches.concat(branches.conv(32, 1), branches.conv(32, 3), axis=2))


@pytest.mark.parametrize(
    ("make", "expected"), [(residual, 1), (read_by_others, 1), (joined_twice, 2), (joined_again, 1), (rows, 2)]
)
def test_operands_that_cannot_be_in_place_are_copied(
    target: Target, make: Callable[[Branches], None], expected: int
) -> None:
    """The other operands are still written in place."""
    assert copies(target, make) == expected


def test_axes_count_from_the_end_too(target: Target) -> None:
    """Axis -3 is the channels of an image."""
    assert copies(target, lambda b: b.output(b.concat(b.conv(32, 1), b.conv(19, 3), axis=-3))) == 0


def test_an_output_is_copied(target: Target) -> None:
    """A graph output has memory of its own, even if only the concatenation reads it."""

    def make(branches: Branches) -> None:
        first = branches.conv(32, 1)
        branches.output(branches.concat(first, branches.conv(32, 3)))
        branches.graph.outputs.append(first)

    assert copies(target, make) == 1
