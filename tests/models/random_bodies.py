"""Random ONNX models of nested bodies, in which data and the number of the iteration decide sizes.

All values are multiples of 1/4 of at most 16, so that every engine computes the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
WIDTH = 4
MOST_ROWS = 9
"""Each block of nodes ends with at most so many rows."""


class BodyWriter:
    """Writes a random model, whose values are of `WIDTH` columns and a number of rows that only a run tells."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0
        self.weights: list[onnx.TensorProto] = []

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind.lower()}_{self.count}"

    def constant(self, array: Any) -> str:
        name = self.name("c")
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def quarters(self, *shape: int) -> str:
        return self.constant((self.rng.integers(-8, 9, shape) / 4).astype(np.float32))

    def op(self, nodes: list[onnx.NodeProto], kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = self.name(kind)
        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return name

    def block(self, nodes: list[onnx.NodeProto], x: str, number: str, depth: int, steps: int) -> str:
        """Append `steps` random forms that begin with `x`; `number` is an i64 of the loop around them."""
        for _ in range(steps):
            forms = FORMS if depth > 0 else FORMS[:FLAT]
            form = forms[int(self.rng.integers(len(forms)))]
            x = form(self, nodes, x, number, depth)
        limited = self.op(nodes, "Slice", x, self.numbers(0), self.numbers(MOST_ROWS), self.numbers(0))
        return self.op(nodes, "Clip", limited, self.constant(np.float32(-4)), self.constant(np.float32(4)))

    def total(self, nodes: list[onnx.NodeProto], x: str) -> str:
        """The sum of all elements, a scalar."""
        return self.op(nodes, "ReduceSum", x, keepdims=0)

    def rows(self, nodes: list[onnx.NodeProto], x: str) -> str:
        return self.op(nodes, "Shape", x, start=0, end=1)

    def some(self, nodes: list[onnx.NodeProto], x: str, most: int) -> str:
        """A number, i64 [1], from 0 to `most`, which the elements of `x` decide."""
        total = self.op(nodes, "Abs", self.op(nodes, "Floor", self.total(nodes, x)))
        number = self.op(nodes, "Cast", total, to=INT64)
        return self.op(nodes, "Reshape", self.op(nodes, "Mod", number, self.numbers(most + 1)), self.numbers(1))


def shifted(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    return w.op(nodes, "Add", x, w.quarters(1, WIDTH))


def chosen(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """The rows whose sum is above a threshold, by NonZero or Compress."""
    sums = w.op(nodes, "ReduceSum", x, w.numbers(1), keepdims=0)
    mask = w.op(nodes, "Greater", sums, w.quarters(1))
    if w.rng.random() < 0.5:
        return w.op(nodes, "Compress", x, mask, axis=0)
    places = w.op(nodes, "Squeeze", w.op(nodes, "NonZero", mask), w.numbers(0))
    return w.op(nodes, "Gather", x, places, axis=0)


def sliced_to_number(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """The first rows, one more in each iteration."""
    end = w.op(nodes, "Reshape", w.op(nodes, "Add", number, w.constant(np.int64(1))), w.numbers(1))
    return w.op(nodes, "Slice", x, w.numbers(0), end, w.numbers(0))


def sliced_by_data(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    return w.op(nodes, "Slice", x, w.some(nodes, x, 2), w.numbers(1 << 40), w.numbers(0))


def expanded(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """One row as many times as the number of the iteration or data say."""
    row = w.op(nodes, "ReduceSum", x, w.numbers(0), keepdims=1)
    row = w.op(nodes, "Clip", row, w.constant(np.float32(-2)), w.constant(np.float32(2)))
    if w.rng.random() < 0.5:
        times = w.op(nodes, "Reshape", w.op(nodes, "Add", number, w.constant(np.int64(1))), w.numbers(1))
    else:
        times = w.some(nodes, x, 3)
    shape = w.op(nodes, "Concat", times, w.numbers(WIDTH), axis=0)
    return w.op(nodes, "Expand", row, shape)


def ranged(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """Numbers up to one that data or the iteration says, as rows."""
    if w.rng.random() < 0.5:
        end = w.op(nodes, "Squeeze", w.some(nodes, x, 4), w.numbers(0))
    else:
        end = w.op(nodes, "Add", number, w.constant(np.int64(1)))
    places = w.op(nodes, "Range", w.constant(np.int64(0)), end, w.constant(np.int64(1)))
    column = w.op(nodes, "Unsqueeze", w.op(nodes, "Cast", places, to=FLOAT), w.numbers(1))
    return w.op(nodes, "Concat", x, w.op(nodes, "Add", column, w.quarters(1, WIDTH)), axis=0)


def topmost(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """The rows of the largest sums: as many as data says."""
    sums = w.op(nodes, "ReduceSum", x, w.numbers(1), keepdims=0)
    k = w.op(nodes, "Min", w.some(nodes, x, 4), w.rows(nodes, x))
    found = w.op(nodes, "TopK", sums, k, outputs=2)
    return w.op(nodes, "Gather", x, f"{found}.1", axis=0)


def unique(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """The different first elements of the rows."""
    first = w.op(nodes, "Slice", x, w.numbers(0), w.numbers(1), w.numbers(1))
    found = w.op(nodes, "Unique", w.op(nodes, "Reshape", first, w.numbers(-1)), sorted=1)
    return w.op(nodes, "Add", w.op(nodes, "Unsqueeze", found, w.numbers(1)), w.quarters(1, WIDTH))


def longer(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    return w.op(nodes, "Concat", x, w.quarters(int(w.rng.integers(1, 3)), WIDTH), axis=0)


def boxes(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """The rows as boxes that do not overlap, by NonMaxSuppression."""
    scores = w.op(nodes, "ReduceSum", x, w.numbers(1), keepdims=0)
    sized = w.op(nodes, "Unsqueeze", x, w.numbers(0))
    weighed = w.op(nodes, "Unsqueeze", scores, w.numbers(0, 1))
    most, overlap = w.numbers(3), w.constant(np.array([0.5], np.float32))
    found = w.op(nodes, "NonMaxSuppression", sized, weighed, most, overlap)
    places = w.op(nodes, "Slice", found, w.numbers(2), w.numbers(3), w.numbers(1))
    return w.op(nodes, "Gather", x, w.op(nodes, "Reshape", places, w.numbers(-1)), axis=0)


def branch(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """Other forms on both sides of an If that data decides."""
    condition = w.op(nodes, "Greater", w.total(nodes, x), w.constant(np.float32(w.rng.integers(-4, 5) / 4)))
    graphs = {}
    for side in ("then_branch", "else_branch"):
        own: list[onnx.NodeProto] = []
        result = w.op(own, "Identity", w.block(own, x, number, depth - 1, int(w.rng.integers(1, 3))))
        graphs[side] = helper.make_graph(own, side, [], [helper.make_empty_tensor_value_info(result)])
    return w.op(nodes, "If", condition, **graphs)


def looped(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """A Loop whose carried value changes, with a sum that is carried and one that is stacked."""
    limit = w.some(nodes, x, 3) if w.rng.random() < 0.5 else w.numbers(int(w.rng.integers(1, 4)))
    own: list[onnx.NodeProto] = []
    i, on, carried, kept = (w.name(name) for name in ("i", "on", "carried", "kept"))
    made = w.block(own, carried, i, depth - 1, int(w.rng.integers(1, 3)))
    total = w.op(own, "Clip", w.total(own, made), w.constant(np.float32(-8)), w.constant(np.float32(8)))
    sums = w.op(own, "Clip", w.op(own, "Add", kept, total), w.constant(np.float32(-8)), w.constant(np.float32(8)))
    ends = w.rng.random() < 0.5
    again = w.op(own, "Less", sums, w.constant(np.float32(5))) if ends else w.op(own, "Identity", on)
    body = helper.make_graph(
        own,
        "body",
        [
            helper.make_tensor_value_info(i, INT64, []),
            helper.make_tensor_value_info(on, BOOL, []),
            helper.make_tensor_value_info(carried, FLOAT, [None, WIDTH]),
            helper.make_tensor_value_info(kept, FLOAT, []),
        ],
        [helper.make_empty_tensor_value_info(name) for name in (again, made, sums, w.op(own, "Identity", sums))],
    )
    zero = w.constant(np.float32(0))
    name = w.op(nodes, "Loop", w.op(nodes, "Squeeze", limit, w.numbers(0)), "", x, zero, outputs=3, body=body)
    stacked = w.op(nodes, "Reshape", w.op(nodes, "ReduceSum", f"{name}.2", w.numbers(0)), w.numbers(1, 1))
    bounded = w.op(
        nodes, "Clip", w.op(nodes, "Add", stacked, f"{name}.1"), w.constant(np.float32(-2)), w.constant(np.float32(2))
    )
    return w.op(nodes, "Add", name, bounded)


def scanned(w: BodyWriter, nodes: list[onnx.NodeProto], x: str, number: str, depth: int) -> str:
    """A Scan over the rows, whose body finds sizes and stacks one row."""
    own: list[onnx.NodeProto] = []
    state, row = w.name("state"), w.name("row")
    rows = w.op(own, "Unsqueeze", w.op(own, "Add", row, state), w.numbers(0))
    count = w.op(own, "Cast", w.op(own, "Floor", w.op(own, "Abs", w.total(own, state))), to=INT64)
    number = w.op(own, "Mod", count, w.constant(np.int64(3)))
    made = w.block(own, rows, number, depth - 1, int(w.rng.integers(1, 3)))
    total = w.op(own, "ReduceSum", made, w.numbers(0), keepdims=0)
    after = w.op(own, "Clip", total, w.constant(np.float32(-2)), w.constant(np.float32(2)))
    body = helper.make_graph(
        own,
        "body",
        [helper.make_tensor_value_info(name, FLOAT, [WIDTH]) for name in (state, row)],
        [helper.make_tensor_value_info(name, FLOAT, [WIDTH]) for name in (after, w.op(own, "Identity", after))],
    )
    name = w.op(nodes, "Scan", w.quarters(WIDTH), x, outputs=2, num_scan_inputs=1, body=body)
    return w.op(nodes, "Clip", f"{name}.1", w.constant(np.float32(-3)), w.constant(np.float32(3)))


Form = Callable[[BodyWriter, list[onnx.NodeProto], str, str, int], str]
FORMS: Sequence[Form] = (
    shifted, chosen, sliced_to_number, sliced_by_data, expanded, ranged, topmost, unique, longer, boxes,
    branch, looped, scanned, branch, looped,
)  # fmt: skip
FLAT = 10
"""The first forms have no bodies."""


def random_model(seed: int, depth: int = 3) -> onnx.ModelProto:
    """Return a model of y [some, 4] for x [rows, 4] and a number n."""
    w = BodyWriter(seed)
    nodes: list[onnx.NodeProto] = []
    forms = [branch, looped, scanned]
    form = forms[seed % len(forms)]
    x = form(w, nodes, "x", "n", depth)
    x = w.block(nodes, x, "n", depth - 1, 1)
    y = w.op(nodes, "Identity", x)
    graph = helper.make_graph(
        nodes,
        "bodies",
        [helper.make_tensor_value_info("x", FLOAT, ["rows", WIDTH]), helper.make_tensor_value_info("n", INT64, [])],
        [helper.make_tensor_value_info(y, FLOAT, [None, WIDTH])],
        w.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def random_feeds(seed: int) -> list[dict[str, Array]]:
    """Return inputs of some sizes for a random model."""
    rng = np.random.default_rng(seed)
    return [
        {"x": (rng.integers(-8, 9, (rows, WIDTH)) / 4).astype(np.float32), "n": np.array(number)}
        for rows, number in ((4, 1), (7, 2), (1, 0))
    ]
