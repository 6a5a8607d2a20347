"""gather_reduce: bags of rows that are reduced where they lie."""

from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import StatusError, lower_graph
from tests.single_node import SingleNode

from treadle.codegen import target as targets
from treadle.plan.kernels.gather_reduce import GatherReduceSpec
from treadle.plan.status import INDEX_OUT_OF_RANGE
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

REDUCTIONS = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"]
LENGTHS = (5, 64, 301)
BAGS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((9, 7), (1,)),
    ((9, 7), (0,)),
    ((3, 5, 4), (1,)),
    ((3, 5, 4), (1, 2)),
    ((4, 1), (1,)),
    ((5, 33), (1,)),
    ((2, 3000), (1,)),
    ((3000,), (0,)),
]


def _table(rows: int, length: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    numbers = np.random.default_rng(seed).standard_normal((rows, length))
    return (numbers * 10).astype(dtype) if np.dtype(dtype).kind == "i" else (1 + numbers / 100).astype(dtype)


def _indices(rows: int, *shape: int, dtype: Any = np.int64) -> Array:
    return np.random.default_rng(1).integers(-rows, rows, shape).astype(dtype)


@pytest.mark.parametrize("bags", BAGS, ids=str)
@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize(("dtype", "index"), [(np.float32, np.int64), (np.float64, np.int32), (np.int32, np.int32)])
def test_bits_are_those_of_rows_that_are_stored(target: Target, bags: Any, how: str, dtype: Any, index: Any) -> None:
    """
    A bag is folded in the order in which the reduction folds gathered rows: short and long ones, in pieces too,
    whatever the length of rows, with and without weights. Sums meet every bag at every length, the others each bag at
    one of them and each length with some bag.
    """
    if how == "reduce_mean" and np.dtype(dtype).kind == "i":
        return
    shape, axes = bags
    attrs = {"axes": axes, "keepdims": False}
    turn = BAGS.index(bags) + REDUCTIONS.index(how)
    for length in LENGTHS if how == "reduce_sum" else [LENGTHS[turn % len(LENGTHS)]]:
        x, indices = _table(70, length, dtype), _indices(70, *shape, dtype=index)
        weights = _table(1, indices.size, dtype, 2).reshape(shape)
        for given, rows in (([], x[indices]), ([weights], x[indices] * weights[..., None])):
            fused = SingleNode("gather_reduce", [x, indices, *given], {"how": how, **attrs})
            (apart,) = SingleNode(how, [rows], attrs).run(target)
            for found in (fused.run(target), fused.run(target, reverse_chunks=True, guard=72)):
                assert found[0].tobytes() == apart.tobytes()


@pytest.mark.parametrize("length", [16, 64, 300, 1100])
@pytest.mark.parametrize("shape", [(1, 3), (200, 11), (2, 90), (3, 40, 2)], ids=str)
def test_rows_of_a_large_table_are_prefetched(target: Target, length: int, shape: tuple[int, ...]) -> None:
    """
    Prefetching changes no result, also where fewer rows are left than the prefetch distance.
    """
    rows = (3 << 20) // (4 * length)
    x, indices = _table(rows, length), _indices(rows, *shape)
    node = SingleNode("gather_reduce", [x, indices], {"how": "reduce_max", "axes": (1,), "keepdims": False})

    spec = lower_graph(node.graph, target)[0][0].spec
    assert isinstance(spec, GatherReduceSpec)
    assert spec.lines > 0
    node.check(target)


def test_a_table_that_caches_hold_is_not_prefetched() -> None:
    """
    Rows that are near anyway are not prefetched.
    """
    attrs = {"how": "reduce_sum", "axes": (1,), "keepdims": False}
    node = SingleNode("gather_reduce", [_table(100, 64), _indices(100, 5, 7)], attrs)

    spec = lower_graph(node.graph, targets.detect())[0][0].spec
    assert isinstance(spec, GatherReduceSpec)
    assert spec.lines == 0


@pytest.mark.parametrize("rows", [7, 20_000])
@pytest.mark.parametrize("place", [0, 3, 79])
@pytest.mark.parametrize("beyond", [0, 1 << 40, -1, -(1 << 40), (1 << 62) // 100])
def test_an_index_out_of_range_is_reported_not_followed(target: Target, rows: int, place: int, beyond: int) -> None:
    """
    The kernel returns its status before it reads outside the table, wherever the index stands, and wherever it points.
    """
    indices = np.zeros((8, 10), np.int64)
    indices.flat[place] = rows + beyond if beyond >= 0 else beyond - rows
    attrs = {"how": "reduce_sum", "axes": (1,), "keepdims": False}
    node = SingleNode("gather_reduce", [_table(rows, 70), indices], attrs)

    with pytest.raises(StatusError, match=f"status {INDEX_OUT_OF_RANGE}"):
        node.run(target)


def test_many_bags_are_shared() -> None:
    """
    A batch of bags is partitioned into chunks; so is a single bag that is long.
    """
    attrs = {"how": "reduce_sum", "axes": (1,), "keepdims": False}
    for shape in ((512, 32), (1, 20_000)):
        node = SingleNode("gather_reduce", [_table(500, 64), _indices(500, *shape)], attrs)
        assert lower_graph(node.graph, targets.detect())[0][0].chunks >= 8
