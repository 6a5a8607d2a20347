"""gather, gather_elements, gather_nd, scatter_elements, scatter_nd, one_hot."""

from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import StatusError, lower_graph
from tests.single_node import SingleNode

from treadle.codegen import target as targets
from treadle.plan.kernels.gather import GatherSpec
from treadle.plan.status import INDEX_OUT_OF_RANGE
from treadle.plan.target import Target

_DTYPES = [np.uint8, np.float16, np.float32, np.int64]
_INDEX_DTYPES = [np.int32, np.int64]


def _numbered(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)


def _indices(size: int, *shape: int, dtype: Any = np.int64) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(-size, size, shape).astype(dtype)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("index_dtype", _INDEX_DTYPES)
def test_rows_are_gathered_along_every_axis(target: Target, axis: int, dtype: Any, index_dtype: Any) -> None:
    """
    Rows of any length, single elements included; negative indices count from the end.
    """
    x = _numbered(7, 9, 13, dtype=dtype)
    for shape in ((), (5,), (2, 3), (0,), (1, 1)):
        SingleNode("gather", [x, _indices(7, *shape, dtype=index_dtype)], {"axis": axis}).check(target)


def test_embeddings_are_looked_up(target: Target) -> None:
    """
    A table of long rows and a batch of sequences.
    """
    table = np.random.default_rng(0).standard_normal((500, 384)).astype(np.float32)
    SingleNode("gather", [table, _indices(500, 8, 64)], {"axis": 0}).check(target)


@pytest.mark.parametrize("length", [2, 16, 100, 1100])
@pytest.mark.parametrize("shape", [(3,), (70, 11), (900,)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_a_large_table_are_prefetched(target: Target, length: int, shape: tuple[int, ...], axis: int) -> None:
    """
    Prefetching changes no result, also where fewer rows are left than the prefetch distance. Tables in caches are not
    prefetched.
    """
    rows = (3 << 20) // (4 * length)
    x = np.arange(rows * length, dtype=np.float32).reshape((rows, length) if axis == 0 else (2, rows // 2, length))
    for table in (x, x[:9, :9]):
        node = SingleNode("gather", [table, _indices(table.shape[axis], *shape)], {"axis": axis})
        spec = lower_graph(node.graph, target)[0][0].spec
        assert isinstance(spec, GatherSpec)
        assert (spec.lines > 0) == (table is x)
        node.check(target)


@pytest.mark.parametrize("place", [0, 30, 39])
@pytest.mark.parametrize("bad", [40_000, -40_001, 1 << 40, -(1 << 61)])
def test_an_index_of_a_prefetched_row_is_checked(target: Target, place: int, bad: int) -> None:
    """
    A bad index among those read for a prefetch is reported when its row is gathered.
    """
    indices = np.zeros(40, np.int64)
    indices[place] = bad
    node = SingleNode("gather", [np.zeros((40_000, 20), np.float32), indices], {"axis": 0})
    with pytest.raises(StatusError, match=f"status {INDEX_OUT_OF_RANGE}"):
        node.run(target)


@pytest.mark.parametrize("bad", [7, -8, 1 << 40, -(1 << 40)])
def test_an_index_out_of_range_is_reported_not_followed(target: Target, bad: int) -> None:
    """
    The kernel returns its status before it reads outside the operand.
    """
    for op, indices, attrs in (
        ("gather", np.array([0, bad]), {"axis": 0}),
        ("gather_elements", np.array([[0, bad]]), {"axis": 0}),
        ("gather_nd", np.array([[0], [bad]]), {"batch_dims": 0}),
    ):
        node = SingleNode(op, [_numbered(7, 2), indices], attrs)
        with pytest.raises(StatusError, match=f"status {INDEX_OUT_OF_RANGE}"):
            node.run(target)


def test_a_single_constant_index_is_a_slice() -> None:
    """
    Taking one row of the outermost axis is an alias, of another axis a copy.
    """
    x = _numbered(5, 4, 3)
    for index in (np.array(3), np.array([-1])):
        row = SingleNode("gather", [x, index], {"axis": 0}, constants=(1,))
        assert lower_graph(row.graph, targets.detect())[0] == []
        row.check()
        SingleNode("gather", [x, index], {"axis": 1}, constants=(1,)).check()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("index_dtype", _INDEX_DTYPES)
def test_elements_are_gathered_along_every_axis(target: Target, axis: int, index_dtype: Any) -> None:
    """
    Indices may be fewer than x has elements on the other axes.
    """
    x = _numbered(6, 5, 7)
    for shape in ((6, 5, 7), (2, 3, 4), (6, 5, 0), (1, 1, 1)):
        SingleNode("gather_elements", [x, _indices(5, *shape, dtype=index_dtype)], {"axis": axis}).check(target)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_slices_are_gathered_by_index_tuples(target: Target, depth: int) -> None:
    """
    Index tuples address one, two or all axes, with and without batch dimensions.
    """
    x = _numbered(4, 5, 6)
    for lead in ((), (3,), (2, 2), (0,)):
        SingleNode("gather_nd", [x, _indices(4, *lead, depth)], {"batch_dims": 0}).check(target)
    if depth < 3:
        SingleNode("gather_nd", [x, _indices(5, 4, 3, depth)], {"batch_dims": 1}).check(target)
        SingleNode("gather_nd", [x, _indices(5, 4, depth)], {"batch_dims": 1}).check(target)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_updates_are_scattered_in_order(target: Target, reduction: str, dtype: Any) -> None:
    """
    Of several updates of one element the last one stays, or all are combined; unsigned numbers compare as unsigned.
    """
    x = _numbered(6, 5, 7, dtype=dtype)
    for axis in range(3):
        indices = _indices(5, 3, 4, 5)
        updates = np.random.default_rng(2).integers(0, 200, indices.shape).astype(dtype)
        attrs = {"axis": axis, "reduction": reduction}
        SingleNode("scatter_elements", [x, indices, updates], attrs).check(target)
    for depth, rest in ((1, (5, 7)), (2, (7,)), (3, ())):
        indices = _indices(5, 4, 2, depth)
        updates = np.random.default_rng(3).integers(0, 200, (4, 2, *rest)).astype(dtype)
        SingleNode("scatter_nd", [x, indices, updates], {"reduction": reduction}).check(target)


def test_a_nan_wins_a_scattered_maximum(target: Target) -> None:
    """
    As everywhere in treadle, NaN takes part in maxima and minima.
    """
    for first, second in ((np.nan, 1.0), (1.0, np.nan)):
        for reduction in ("max", "min"):
            operands = [np.array([first], np.float32), np.array([0]), np.array([second], np.float32)]
            SingleNode("scatter_elements", operands, {"axis": 0, "reduction": reduction}).check(target)


def test_scattering_nothing_is_a_copy(target: Target) -> None:
    """
    Without updates the result is x; a bad index is reported.
    """
    x = _numbered(3, 4)
    empty = [x, np.zeros((0, 1), np.int64), np.zeros((0, 4), np.float32)]
    SingleNode("scatter_nd", empty, {"reduction": "none"}).check(target)
    bad = [x, np.array([[3]]), np.ones((1, 4), np.float32)]
    with pytest.raises(StatusError):
        SingleNode("scatter_nd", bad, {"reduction": "none"}).run(target)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_one_hot_turns_on_what_the_index_means(target: Target, axis: int, dtype: Any) -> None:
    """
    Negative indices count from the end; those out of range leave the row off.
    """
    for index_dtype in _INDEX_DTYPES:
        indices = np.random.default_rng(4).integers(-25, 25, (3, 5)).astype(index_dtype)
        operands = [indices, np.array([19]), np.array([3, 7], dtype)]
        SingleNode("one_hot", operands, {"axis": axis}, constants=(1,)).check(target)
