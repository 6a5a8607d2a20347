"""Reduction kernels against their references."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph
from tests.single_node import SingleNode, blocked

from treadle.dtypes import DType, f32
from treadle.graph.expr import Expr, Step
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

CASES: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = [
    ((7,), None),
    ((1000,), (0,)),
    ((3, 5, 7), (2,)),
    ((3, 5, 7), (0,)),
    ((3, 5, 7), (1,)),
    ((3, 5, 7), (0, 2)),
    ((2, 3, 4, 5, 6), (1, 3)),
    ((2, 3, 4, 5, 6), (0, 2, 4)),
    ((1, 1), (0,)),
    ((5, 1, 3), (1,)),
    ((8, 3), ()),
    ((64, 49), (1,)),
    ((3000, 70), (0,)),
    ((2, 3000, 129), (1,)),
    ((4, 200_003), (1,)),
    ((1_200_001,), (0,)),
    ((30_000, 65), (0,)),
    ((300_000, 3), (0,)),
]


def _numbers(shape: tuple[int, ...], dtype: type, op: str) -> Array:
    rng = np.random.default_rng(0)
    if op == "reduce_prod":
        return (1 + rng.standard_normal(shape) * 1e-3 if dtype in (np.float32, np.float64) else
                rng.integers(1, 4, shape)).astype(dtype)  # fmt: skip
    if dtype in (np.float32, np.float64):
        return (rng.standard_normal(shape) * 10 + 5).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


OPS = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"]


def other_dtype(case: int, op: int) -> type:
    """The dtype besides float32: over all pairs of a case and an op, each meets every case and every op that it has."""
    if OPS[op] == "reduce_mean":
        return np.float64
    return (np.float64, np.int32, np.int64)[(case + op) % 3]


@pytest.mark.parametrize(
    ("dtype", "op", "case"),
    [
        (dtype, op, case)
        for (i, op), (j, case) in product(enumerate(OPS), enumerate(CASES))
        for dtype in (np.float32, other_dtype(j, i))
    ],
    ids=str,
)
def test_any_axes_are_reduced(target: Target, case: Any, op: str, dtype: type) -> None:
    """
    Rows, columns, all axes, no axes, and alternating axes agree with the reference; integers exactly.
    """
    shape, axes = case
    node = SingleNode(op, [_numbers(shape, dtype, op)], {"axes": axes, "keepdims": False})
    tolerance = {np.float32: 2e-6, np.float64: 1e-11}.get(dtype, 0.0)
    node.check(target, tolerance * (5 if op == "reduce_prod" else 1))


@pytest.mark.parametrize("op", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_extremes_of_negative_and_unsigned_integers(target: Target, op: str, dtype: type) -> None:
    """
    Extremes respect the sign of the type and start from no number of their own.
    """
    ends = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(ends.min, ends.max, (9, 131), dtype, endpoint=True)
    SingleNode(op, [x], {"axes": (1,), "keepdims": True}).check(target)
    SingleNode(op, [x], {"axes": (0,), "keepdims": True}).check(target)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("op", ["reduce_max", "reduce_min", "reduce_sum"])
def test_one_nan_makes_its_results_nan(target: Target, op: str, axes: tuple[int, ...]) -> None:
    """
    A NaN anywhere in a row or column shows in its result and in no other.
    """
    x = np.random.default_rng(0).standard_normal((37, 133)).astype(np.float32)
    x[5, 17] = np.nan
    SingleNode(op, [x], {"axes": axes, "keepdims": False}).check(target, 1e-5)


@pytest.mark.parametrize("shape", [(10_000_000,), (1_000_000, 10)], ids=str)
def test_ten_million_numbers_sum_up_accurately(target: Target, shape: tuple[int, ...]) -> None:
    """
    A sum of 1e7 equal f32 has an error of a few ulps: errors do not grow with the count.
    """
    x = np.full(shape, 0.1, np.float32)
    (got,) = SingleNode("reduce_sum", [x], {"axes": (0,), "keepdims": False}).run(target)
    np.testing.assert_allclose(got, shape[0] * float(x.flat[0]), rtol=1e-6)


def test_a_single_large_sum_is_shared(target: Target) -> None:
    """
    The sum of one long row is partitioned into chunks that may run at once.
    """
    node = SingleNode("reduce_sum", [np.ones(1 << 20, np.float32)], {"axes": None, "keepdims": False})
    calls, _ = lower_graph(node.graph, target)
    assert calls[0].chunks > 4


def _product_of_exp(dtype: DType) -> Expr:
    """(a, b) -> exp(a) * b"""
    return Expr((dtype, dtype), (Step("exp", (0,), dtype), Step("mul", (2, 1), dtype)), (3,))


@pytest.mark.parametrize("case", [case for case in CASES if len(case[0]) > 1], ids=str)
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_mean", "reduce_max"])
@pytest.mark.parametrize("steady", [False, True])
def test_what_a_head_computes_is_reduced(target: Target, case: Any, op: str, *, steady: bool) -> None:
    """
    The result of a scalar program for operands of one shape, or of one element, is reduced without being stored.
    """
    shape, axes = case
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape).astype(np.float32)
    b = rng.standard_normal((1, 1) if steady else shape).astype(np.float32) + 2
    attrs = {"axes": axes, "keepdims": False, "head": _product_of_exp(f32)}

    SingleNode(op, [a, b], attrs).check(target, 1e-5)


def test_a_head_leaves_bits_as_they_are(target: Target) -> None:
    """
    Sums of products are those of the products when stored, bit by bit.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((768, 100)).astype(np.float32) for _ in range(2))
    attrs = {"axes": (0,), "keepdims": False}
    product = Expr((f32, f32), (Step("mul", (0, 1), f32),), (2,))

    (fused,) = SingleNode("reduce_sum", [a, b], {**attrs, "head": product}).run(target)
    (apart,) = SingleNode("reduce_sum", [a * b], attrs).run(target)

    assert fused.tobytes() == apart.tobytes()


@pytest.mark.parametrize("channels", [32, 20])
@pytest.mark.parametrize("spatial", [(7, 7), (40,)], ids=str)
@pytest.mark.parametrize("plain", [True, False])
def test_blocked_images_are_averaged(target: Target, channels: int, spatial: tuple[int, ...], plain: bool) -> None:
    """
    A global average over a blocked image gives [N, C, 1, 1], row-major or blocked, spare lanes left out.
    """
    x = np.random.default_rng(0).standard_normal((2, channels, *spatial)).astype(np.float32)
    attrs = {"axes": tuple(range(2, x.ndim)), "keepdims": True}
    layout = blocked(target)
    SingleNode("reduce_mean", [x], attrs, layouts=(layout, None if plain else layout)).check(target, 1e-6)
