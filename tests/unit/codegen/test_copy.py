"""Strided copies: transpose, slice, split, concat, expand, tile, depth_to_space and aliases."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel_runner import lower_graph, run_graph
from tests.single_node import SingleNode, blocked, to_logical, to_physical

from treadle import dtypes
from treadle.codegen import target as targets
from treadle.graph.graph import Graph
from treadle.plan.target import Target

_DTYPES = [np.uint8, np.float16, np.float32, np.int64, np.bool_]


def _numbered(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)


def _i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


@pytest.mark.parametrize("shape", [(5, 7, 3), (33, 16, 17), (2, 1, 40), (64, 64, 2), (1, 100, 1), (4, 3, 70)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_every_permutation_of_three_axes(target: Target, shape: tuple[int, ...], dtype: Any) -> None:
    """
    Elements of every size are transposed by whole and partial tiles, rows and single elements.
    """
    for perm in permutations(range(3)):
        SingleNode("transpose", [_numbered(*shape, dtype=dtype)], {"perm": perm}).check(target)


def test_attention_heads_and_images_are_transposed(target: Target) -> None:
    """
    The transposes that models are full of.
    """
    SingleNode("transpose", [_numbered(2, 33, 4, 24)], {"perm": (0, 2, 1, 3)}).check(target)
    SingleNode("transpose", [_numbered(2, 33, 4, 24)], {"perm": (0, 2, 3, 1)}).check(target)
    SingleNode("transpose", [_numbered(2, 19, 23, 3)], {"perm": (0, 3, 1, 2)}).check(target)
    SingleNode("transpose", [_numbered(2, 3, 2, 5, 2, 3)], {"perm": (5, 0, 3, 1, 4, 2)}).check(target)
    SingleNode("transpose", [_numbered()], {"perm": ()}).check(target)
    SingleNode("transpose", [_numbered(0, 3, 5)], {"perm": (2, 1, 0)}).check(target)


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize("length", [1, 5000, 20001])
def test_long_rows_are_interleaved_in_pieces(target: Target, rows: int, length: int) -> None:
    """
    Real and imaginary parts, and the pixels that a transposed convolution writes, are interleaved.
    """
    SingleNode("transpose", [_numbered(rows, length)], {"perm": (1, 0)}).check(target)
    SingleNode("transpose", [_numbered(3, rows, 7, length // 50)], {"perm": (0, 2, 3, 1)}).check(target)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, -1, -2, -3])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_rows_are_sliced_with_every_step(target: Target, step: int, dtype: Any) -> None:
    """
    A step is taken by shuffles or one by one, never reading outside the operand.
    """
    for length in (1, 2, 15, 16, 33, 65, 300):
        x = _numbered(3, length, dtype=dtype)
        ends = (length, 0)[step < 0] if step > 0 else -length - 1
        start = 0 if step > 0 else length - 1
        operands = [x, _i64(start), _i64(ends), _i64(1), _i64(step)]
        SingleNode("slice", operands, constants=(1, 2, 3, 4)).check(target)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_slice_is_the_references_slice(data: st.DataObject) -> None:
    """
    Random shapes, bounds and steps, in and out of range.
    """
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.integers(1, 9)) for _ in range(rank))
    bound = st.integers(-12, 12)
    starts, ends = (_i64(*(data.draw(bound) for _ in range(rank))) for _ in range(2))
    steps = _i64(*(data.draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in range(rank)))
    operands = [_numbered(*shape), starts, ends, _i64(*range(rank)), steps]
    SingleNode("slice", operands, constants=(1, 2, 3, 4)).check(targets.detect())


def test_leading_pieces_need_no_copy() -> None:
    """
    A slice or a split of the outermost axis lies in the operand's memory.
    """
    whole = SingleNode("slice", [_numbered(4, 6), _i64(1), _i64(3)], constants=(1, 2))
    assert lower_graph(whole.graph, targets.detect())[0] == []
    whole.check()
    parts = SingleNode("split", [_numbered(4, 6), _i64(1, 3)], {"axis": 0}, constants=(1,), outputs=2)
    assert lower_graph(parts.graph, targets.detect())[0] == []
    parts.check()


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_splits_along_every_axis(target: Target, axis: int) -> None:
    """
    Pieces of several sizes, one of them empty.
    """
    x = _numbered(6, 6, 6)
    SingleNode("split", [x, _i64(1, 0, 5)], {"axis": axis}, constants=(1,), outputs=3).check(target)
    SingleNode("split", [x], {"axis": axis, "parts": 2}, outputs=2).check(target)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_concats_along_every_axis(target: Target, axis: int, dtype: Any) -> None:
    """
    Operands of several sizes, one of them empty, one of them given twice.
    """
    base = [3, 5, 7]
    arrays = []
    for size in (1, 0, 4, 17):
        shape = list(base)
        shape[axis] = size
        arrays.append(_numbered(*shape, dtype=dtype))
    SingleNode("concat", arrays, {"axis": axis}).check(target)


def test_blocked_operands_are_joined_along_channels(target: Target) -> None:
    """
    Whole blocks are copied; the last operand may leave its last block unfilled.
    """
    layout = blocked(target)
    arrays = [_numbered(2, channels * layout.block, 5, 3) for channels in (1, 3)] + [_numbered(2, 5, 5, 3)]
    SingleNode("concat", arrays, {"axis": 1}, layouts=(layout, layout)).check(target)
    SingleNode("split", [_numbered(2, 3 * layout.block, 4), _i64(layout.block, 2 * layout.block)], {"axis": 1},
               constants=(1,), layouts=(layout, layout), outputs=2).check(target)  # fmt: skip


def test_producers_write_straight_into_a_concat(target: Target) -> None:
    """
    Operands with one reader are written in place; operands with other readers, inputs and repeats are copied.
    """
    graph = Graph()
    x = graph.input("x", dtypes.f32, (4, 8))

    def turned() -> Any:
        value = graph.add("transpose", [x], {"perm": (1, 0)}).output
        value.dtype, value.shape = dtypes.f32, (8, 4)
        return value

    alone, shown, twice = turned(), turned(), turned()
    y = graph.add("concat", [alone, shown, twice, twice], {"axis": 0}).output
    y.dtype, y.shape = dtypes.f32, (32, 4)
    graph.outputs = [y, shown]
    array = _numbered(4, 8)
    found = run_graph(graph, {"x": array}, target=target)
    np.testing.assert_array_equal(found[y.name], np.concatenate([array.T] * 4))
    np.testing.assert_array_equal(found[shown.name], array.T)
    calls, ctx = lower_graph(graph, target)
    assert set(ctx.aliases) == {alone}
    assert len([call for call in calls if call.op == "concat"]) == 3


def test_expansion_repeats_rows_and_elements(target: Target) -> None:
    """
    New axes in front, and axes of size 1 anywhere, are read again and again.
    """
    for shape, wanted in (((1,), (70,)), ((5, 1), (5, 40)), ((7,), (3, 7)), ((2, 1, 3), (2, 5, 3)), ((), (4,)),
                          ((1, 3, 1), (2, 3, 4)), ((3,), (0, 3)), ((4,), (1,))):  # fmt: skip
        for dtype in _DTYPES:
            SingleNode("expand", [_numbered(*shape, dtype=dtype), _i64(*wanted)], constants=(1,)).check(target)


def test_tiling_repeats_whole_axes(target: Target) -> None:
    """
    Every axis may be repeated, or dropped by repeating it no times.
    """
    for shape, repeats in (((3,), (5,)), ((2, 3), (2, 2)), ((2, 1, 3), (1, 4, 2)), ((2, 2), (0, 3)), ((4, 5), (1, 1))):
        SingleNode("tile", [_numbered(*shape), _i64(*repeats)], constants=(1,)).check(target)


def test_channels_become_pixels_and_back(target: Target) -> None:
    """
    depth_to_space in both modes, and its inverse.
    """
    for mode in ("DCR", "CRD"):
        SingleNode("depth_to_space", [_numbered(2, 12, 5, 7)], {"block": 2, "mode": mode}).check(target)
    SingleNode("space_to_depth", [_numbered(2, 3, 6, 9)], {"block": 3, "mode": "DCR"}).check(target)


def test_reshaping_needs_no_kernel() -> None:
    """
    reshape and its kin are aliases.
    """
    x = _numbered(2, 3, 4)
    for op, more, attrs in (
        ("reshape", [_i64(4, -1)], {}),
        ("flatten", [], {"axis": 1}),
        ("unsqueeze", [_i64(0, 3)], {}),
        ("squeeze", [], {}),
        ("identity", [], {}),
    ):
        node = SingleNode(op, [x, *more], attrs, constants=(1,) if more else ())
        assert lower_graph(node.graph, targets.detect())[0] == []
        node.check()


def test_long_rows_are_partitioned_into_chunks(target: Target) -> None:
    """
    Many chunks share one long row, for any length of its last piece.
    """
    for length in (100_000, 131_072, 1_000_003):
        node = SingleNode("expand", [_numbered(1, length), _i64(2, length)], constants=(1,))
        (call,) = lower_graph(node.graph, target)[0]
        assert call.chunks > 1
        node.check(target)


def test_test_layouts_are_inverse() -> None:
    """
    The helpers that these tests lay tensors out with undo each other.
    """
    x = _numbered(2, 5, 3, 3)
    layout = blocked(targets.detect())
    np.testing.assert_array_equal(to_logical(to_physical(x, layout), x.shape, layout), x)
