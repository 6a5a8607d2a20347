"""Matrix products by generated kernels agree with float64 NumPy on every instruction set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.single_node import SingleNode

from treadle.dtypes import boolean, f32, f64
from treadle.graph.expr import Expr, Step
from treadle.ops.matmul import evaluate_matmul
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

PLAIN: dict[str, Any] = {"transpose_a": False, "transpose_b": False}


def numbers(shape: Shape, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def error(found: Array, expected: Array) -> float:
    """Relative L2 error; 0 for empty arrays."""
    size = float(np.linalg.norm(expected.astype(np.float64)))
    return float(np.linalg.norm(found.astype(np.float64) - expected)) / size if size else 0.0


def check(
    target: Target,
    arrays: list[Array],
    attrs: dict[str, Any] | None = None,
    *,
    constants: tuple[int, ...] = (),
    tolerance: float = 1e-6,
) -> None:
    """The kernels agree with the product in float64, and give the same bits in both orders of chunks."""
    attrs = {**PLAIN, **(attrs or {})}
    node = SingleNode("matmul", arrays, attrs, constants=constants)
    (found,) = node.run(target)
    if arrays[0].dtype == np.float32 and "epilogue" not in attrs:
        (expected,) = evaluate_matmul(attrs, [array.astype(np.float64) for array in arrays])
    else:
        (expected,) = node.expected()
    assert found.shape == expected.shape
    assert error(found, expected) <= tolerance, f"relative error {error(found, expected):.2e}"
    (reversed_order,) = node.run(target, reverse_chunks=True)
    assert found.tobytes() == reversed_order.tobytes()


@pytest.mark.parametrize("constants", [(), (1,), (0,)], ids=["variable", "constant b", "constant a"])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_every_transposition_with_odd_sizes(target: Target, transposed: str, constants: tuple[int, ...]) -> None:
    """
    [37, 29] @ [29, 43] with either operand stored transposed, and either one constant.
    """
    a, b = numbers((37, 29)), numbers((29, 43), 1)
    attrs = {"transpose_a": "a" in transposed, "transpose_b": "b" in transposed}
    arrays = [a.T.copy() if "a" in transposed else a, b.T.copy() if "b" in transposed else b]
    check(target, arrays, attrs, constants=constants)


@pytest.mark.parametrize("seed", range(24))
def test_random_small_sizes(target: Target, seed: int) -> None:
    """
    Sizes from 1 to 70, so that blocks, panels and the unrolled depth all end in parts.
    """
    random = np.random.default_rng(seed)
    rows, depth, columns = (int(size) for size in random.integers(1, 71, 3))
    transpose_a, transpose_b = (bool(flag) for flag in random.integers(0, 2, 2))
    a = numbers((depth, rows) if transpose_a else (rows, depth), seed)
    b = numbers((columns, depth) if transpose_b else (depth, columns), seed + 1)
    constants = (1,) if random.integers(0, 2) else ()
    check(target, [a, b], {"transpose_a": transpose_a, "transpose_b": transpose_b}, constants=constants)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7,), (7,)),
        ((7,), (7, 45)),
        ((45, 7), (7,)),
        ((1, 300), (300, 45)),
        ((45, 300), (300, 1)),
        ((3, 5, 7), (7,)),
        ((7,), (3, 7, 5)),
        ((2, 1, 9, 4), (3, 4, 6)),
        ((4, 9, 4), (4, 20)),
        ((9, 4), (3, 4, 20)),
        ((2, 3, 4, 5, 6), (2, 1, 4, 6, 7)),
        ((5, 1, 9), (9, 20)),
        ((40, 20, 20), (40, 20, 20)),
        ((0, 3), (3, 4)),
        ((3, 0), (0, 40)),
        ((0, 3, 4), (4, 5)),
        ((2, 3, 0), (2, 0, 5)),
    ],
)
@pytest.mark.parametrize("constants", [(), (1,)], ids=["variable", "constant b"])
def test_numpy_semantics_of_ranks_and_batches(target: Target, a: Shape, b: Shape, constants: tuple[int, ...]) -> None:
    """
    Vectors, broadcast batches and empty operands behave as in numpy.matmul.
    """
    check(target, [numbers(a), numbers(b, 1)], constants=constants)


def test_attention_scores_read_permuted_operands(target: Target) -> None:
    """
    Queries and keys [1, S, heads, D] are multiplied as [1, heads, S, D] @ [1, heads, D, S].
    """
    attrs = {"a_perm": (0, 2, 1, 3), "b_perm": (0, 2, 3, 1)}
    check(target, [numbers((1, 50, 3, 32)), numbers((1, 50, 3, 32), 1)], attrs)


def test_transposed_operand_in_whole_tiles(target: Target) -> None:
    """
    Depth and columns that are multiples of every vector width, with a last panel that is not full.
    """
    check(target, [numbers((3, 30, 32)), numbers((3, 112, 32), 1)], {"transpose_b": True})
    check(target, [numbers((500, 256)), numbers((528, 256), 1)], {"transpose_b": True})


def test_attention_context_is_written_permuted(target: Target) -> None:
    """
    Scores [1, heads, S, S] @ values [1, S, heads, D] are stored as [1, S, heads, D].
    """
    attrs = {"b_perm": (0, 2, 1, 3), "out_perm": (0, 2, 1, 3)}
    check(target, [numbers((2, 3, 50, 50)), numbers((2, 50, 3, 20), 1)], attrs)


def test_a_result_stored_transposed(target: Target) -> None:
    """
    out_perm that swaps rows and columns is computed as the transposed product.
    """
    check(target, [numbers((2, 19, 33)), numbers((2, 33, 21), 1)], {"out_perm": (0, 2, 1)})


def test_operands_without_any_contiguous_axis(target: Target) -> None:
    """
    Permutations that leave neither rows nor columns contiguous are read element by element.
    """
    attrs = {"a_perm": (2, 0, 1), "b_perm": (2, 0, 1)}
    check(target, [numbers((19, 33, 2)), numbers((33, 37, 2), 1)], attrs)


BIAS_RELU = Expr((f32, f32), (Step("add", (0, 1), f32), Step("relu", (2,), f32)), (3,))
TANH = Expr((f32, f32), (Step("add", (0, 1), f32), Step("tanh", (2,), f32)), (3,))
MANY = Expr(
    (f32, f32, f32, f32, f32),
    (
        Step("add", (0, 1), f32),
        Step("mul", (5, 2), f32),
        Step("add", (6, 3), f32),
        Step("sub", (7, 4), f32),
    ),
    (8,),
)
GELU_RESIDUAL = Expr(
    (f32, f32, f32),
    (
        Step("add", (0, 1), f32),
        Step("const", (), f32, 0.7071067811865476),
        Step("mul", (3, 4), f32),
        Step("erf", (5,), f32),
        Step("const", (), f32, 1.0),
        Step("add", (6, 7), f32),
        Step("mul", (3, 8), f32),
        Step("add", (9, 2), f32),
    ),
    (10,),
)


@pytest.mark.parametrize("columns", [96, 45, 5])
@pytest.mark.parametrize("constants", [(), (1, 2)], ids=["variable", "constant"])
@pytest.mark.parametrize("epilogue", [BIAS_RELU, TANH], ids=["relu", "tanh"])
def test_bias_and_activation(target: Target, epilogue: Expr, columns: int, constants: tuple[int, ...]) -> None:
    """
    A bias for each column, then a short or a long activation, on full and partial panels.
    """
    arrays = [numbers((33, 20)), numbers((20, columns), 1), numbers((columns,), 2)]
    check(target, arrays, {"epilogue": epilogue}, constants=constants)


@pytest.mark.parametrize("columns", [96, 45])
@pytest.mark.parametrize("rows", [17, 39])
def test_gelu_and_residual(target: Target, rows: int, columns: int) -> None:
    """
    A long epilogue that also reads an operand of the result's own shape, of fewer and of more blocks than are finished
    together.
    """
    shapes = (3, rows, 20), (20, columns), (columns,), (3, rows, columns)
    arrays = [numbers(shape, seed) for seed, shape in enumerate(shapes)]
    check(target, arrays, {"epilogue": GELU_RESIDUAL})


@pytest.mark.parametrize("columns", [64, 45, 1])
def test_epilogue_operands_of_every_kind(target: Target, columns: int) -> None:
    """
    Scalars, one element a column, one element a row, and one for every element of a matrix, broadcast over batches.
    """
    shapes = [(), (columns,), (2, 1, 21, 1), (3, 21, columns)]
    arrays = [numbers((2, 3, 21, 8)), numbers((2, 3, 8, columns), 1)]
    arrays += [numbers(shape, 2 + i) for i, shape in enumerate(shapes)]
    check(target, arrays, {"epilogue": MANY})


def test_epilogue_of_a_permuted_result(target: Target) -> None:
    """
    Epilogue operands broadcast to the shape after out_perm.
    """
    attrs = {"out_perm": (1, 0, 2), "epilogue": GELU_RESIDUAL}
    check(target, [numbers((3, 7, 8)), numbers((3, 8, 20), 1), numbers((3, 1), 2), numbers((7, 3, 20), 3)], attrs)


def test_epilogue_of_a_vector_times_a_matrix(target: Target) -> None:
    """
    Dot products of contiguous columns have their epilogue too.
    """
    arrays = [numbers((3, 1, 50)), numbers((3, 37, 50), 1), numbers((37,), 2)]
    check(target, arrays, {"transpose_b": True, "epilogue": TANH})


def test_boolean_epilogue_operand(target: Target) -> None:
    """
    A mask chooses between the product and another operand.
    """
    epilogue = Expr((f32, boolean, f32), (Step("where", (1, 0, 2), f32),), (3,))
    mask = np.random.default_rng(0).integers(0, 2, (21, 45)).astype(bool)
    check(target, [numbers((21, 8)), numbers((8, 45), 1), mask, np.array(-1.5, np.float32)], {"epilogue": epilogue})


@pytest.mark.parametrize("constants", [(), (1,)], ids=["variable", "constant b"])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_float64(target: Target, transpose_b: bool, constants: tuple[int, ...]) -> None:
    """
    Doubles keep their precision.
    """
    b = numbers((30, 41), 1, np.float64)
    epilogue = Expr((f64, f64), (Step("add", (0, 1), f64),), (2,))
    arrays = [numbers((19, 30), 0, np.float64), b.T.copy() if transpose_b else b, numbers((41,), 2, np.float64)]
    attrs = {"transpose_b": transpose_b, "epilogue": epilogue}
    check(target, arrays, attrs, constants=constants, tolerance=1e-14)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_integers_are_exact(target: Target, dtype: Any) -> None:
    """
    Integer products wrap around as numpy's do.
    """
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 2**31 - 1, shape).astype(dtype) for shape in [(17, 9), (9, 23)])
    check(target, [a, b], tolerance=0.0)


@pytest.mark.parametrize("constants", [(), (1,)], ids=["variable", "constant b"])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_many_chunks(target: Target, transpose_b: bool, constants: tuple[int, ...]) -> None:
    """
    A product partitioned along rows and columns is the same in whatever order its chunks run.
    """
    b = numbers((310, 500), 1)
    arrays = [numbers((700, 310)), b.T.copy() if transpose_b else b]
    check(target, arrays, {"transpose_b": transpose_b}, constants=constants)


def test_packed_panels_are_prefetched(target: Target) -> None:
    """
    Where caches are small, blocks prefetch addresses behind the last panel too; the product stays the same.
    """
    small = replace(target, l1=1 << 12, l2=1 << 16, l3=1 << 16)
    arrays = [numbers((300, 200)), numbers((200, 170), 1)]

    (prefetching,) = SingleNode("matmul", arrays, PLAIN).run(small)
    (plain,) = SingleNode("matmul", arrays, PLAIN).run(replace(small, l3=1 << 30))

    check(small, arrays)
    assert prefetching.tobytes() == plain.tobytes()


def test_a_vector_times_a_large_matrix(target: Target) -> None:
    """
    A matrix of many columns is partitioned into chunks of columns.
    """
    check(target, [numbers((1, 700)), numbers((900, 700), 1)], {"transpose_b": True})
    check(target, [numbers((1, 700)), numbers((700, 900), 1)], constants=(1,))


def test_nan_and_infinity_stay_in_their_rows_and_columns(target: Target) -> None:
    """
    Padding never lets a special value reach an element that does not depend on it.
    """
    a, b = numbers((11, 13)), numbers((13, 21), 1)
    a[3, 4], b[5, 20] = np.nan, np.inf
    with np.errstate(invalid="ignore"):  # some BLAS kernels multiply infinity by the zeros of their padding
        finite = np.isfinite(a @ b)
    for constants in [(), (1,)]:
        (found,) = SingleNode("matmul", [a, b], PLAIN, constants=constants).run(target)
        np.testing.assert_array_equal(np.isfinite(found), finite)
