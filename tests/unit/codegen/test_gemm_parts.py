"""Matrix products whose depth is multiplied in parts, on every instruction set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_calls
from tests.single_node import SingleNode

from treadle.dtypes import bf16, f32
from treadle.graph.expr import Expr, Step
from treadle.passes.lower import gemm_tiles
from treadle.passes.lower.gemm_tiles import Tile, choose_parts
from treadle.plan.kernels.gemm import GemmArgs, GemmSpec
from treadle.plan.kernels.register_block import UNROLL
from treadle.plan.machine import machine_model
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]
PLAIN: dict[str, Any] = {"transpose_a": False, "transpose_b": False}
BIAS = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))
BIAS_RESIDUAL_GELU = Expr(
    (f32, f32, f32),
    (Step("add", (0, 1), f32), Step("add", (3, 2), f32), Step("erf", (4,), f32), Step("mul", (4, 5), f32)),
    (6,),
)
SLOW_STREAMS = replace(machine_model("generic"), stream_share=0.5)
"""A machine on which several streams read memory faster than one."""
STEPS = 32
"""A part of the depth in these tests, in elements of four bytes."""


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_tiles, "WHOLE_BYTES", 2 * STEPS * 4)
    monkeypatch.setattr(gemm_tiles, "PART_BYTES", STEPS * 4)
    monkeypatch.setattr(gemm_tiles, "PART_BLOCKS", 2)


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    values = np.random.default_rng(seed).standard_normal(shape)
    return (values if np.dtype(dtype).kind == "f" else 8 * values).astype(dtype)


def of(attrs: dict[str, Any], *arrays: Array, constants: tuple[int, ...] = ()) -> SingleNode:
    return SingleNode("matmul", arrays, {**PLAIN, **attrs}, constants=constants)


def check(node: SingleNode, target: Target, tolerance: float = 5e-5) -> None:
    """One kernel multiplies in parts; it agrees with the reference, and gives the same bits in both orders of
    chunks."""
    small = replace(target, l2=1 << 12, l3=1 << 12)
    calls = lower_graph(node.graph, small, "exact")[0]
    assert [call.spec.parts for call in calls if isinstance(call.spec, GemmSpec)] == [True]
    node.check(small, tolerance)


SHAPES = {
    "parts of one length": (19, 4 * STEPS, 48),
    "a last part of another length": (19, 4 * STEPS - 20, 48),
    "a depth that makes no whole turns": (19, 3 * STEPS - 1, 48),
    "two heights of blocks": (37, 2 * STEPS, 64),
    "a last panel of fewer vectors": (37, 2 * STEPS, 64 + 16),
    "a last panel of part of a vector": (37, 3 * STEPS, 64 + 45),
    "several chunks": (150, 5 * STEPS, 500),
}


@pytest.mark.parametrize("constant", [False, True], ids=["variable", "constant"])
@pytest.mark.parametrize("name", SHAPES)
def test_sums_of_parts_add_up(name: str, constant: bool, target: Target) -> None:
    """Sums wait in scratch from part to part, whatever rows and columns are left over."""
    rows, depth, columns = SHAPES[name]
    check(of({}, numbers(rows, depth), numbers(depth, columns, seed=1), constants=(1,) if constant else ()), target)


@pytest.mark.parametrize("left", [False, True], ids=["a", "a transposed"])
@pytest.mark.parametrize("right", [False, True], ids=["b", "b transposed"])
@pytest.mark.parametrize("rows", [40, 90])
def test_factors_stored_transposed(rows: int, left: bool, right: bool, target: Target) -> None:
    """A part begins where its rows or columns lie, also in a right factor that each chunk copies for itself."""
    depth, columns = 3 * STEPS, 96
    a = numbers(depth, rows) if left else numbers(rows, depth)
    b = numbers(columns, depth, seed=1) if right else numbers(depth, columns, seed=1)
    check(of({"transpose_a": left, "transpose_b": right}, a, b), target)


@pytest.mark.parametrize("columns", [64, 101])
@pytest.mark.parametrize("rows", [40, 117])
def test_epilogues_take_finished_sums_only(rows: int, columns: int, target: Target) -> None:
    """A bias is added once, not with each part; long epilogues, of some blocks together, and those that read a whole
    matrix likewise."""
    depth = 4 * STEPS
    a, b = numbers(rows, depth), numbers(depth, columns, seed=1) / 8
    bias, residual = numbers(columns, seed=2), numbers(rows, columns, seed=3)
    check(of({"epilogue": BIAS}, a, b, bias, constants=(1, 2)), target)
    check(of({"epilogue": BIAS_RESIDUAL_GELU}, a, b, bias, residual, constants=(1, 2)), target)


def test_matrices_of_a_batch(target: Target) -> None:
    """Each matrix of a batch has sums of its own."""
    check(of({}, numbers(3, 40, 3 * STEPS), numbers(3, 3 * STEPS, 70, seed=1)), target)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_other_dtypes(dtype: Any, target: Target) -> None:
    """Integers wrap as they do in one go, so parts change no bit of theirs."""
    check(of({}, numbers(40, 3 * STEPS, dtype=dtype), numbers(3 * STEPS, 70, seed=1, dtype=dtype)), target, 1e-9)


def test_infinity_and_nan_stay_in_their_rows_and_columns(target: Target) -> None:
    a, b = numbers(40, 3 * STEPS), numbers(3 * STEPS, 70, seed=1)
    a[3, 40], b[70, 5] = np.inf, np.nan
    check(of({}, a, b, constants=(1,)), target)


def test_pairs_of_bf16(target: Target) -> None:
    """The depth counts pairs there, in a part as in the whole."""
    if not target.has_bf16_dot:
        pytest.skip("multiplies no pairs of bf16")
    a, b = numbers(40, 6 * STEPS).astype(bf16.numpy), numbers(6 * STEPS, 70, seed=1)
    node = of({}, a, b, constants=(1,))
    small = replace(target, l2=1 << 12, l3=1 << 12)
    (call,) = lower_graph(node.graph, small)[0]
    assert isinstance(call.spec, GemmSpec)
    assert (call.spec.bf16_dot, call.spec.parts) == (True, True)
    (found,) = node.run(small)
    rounded = b.astype(bf16.numpy).astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), a.astype(np.float64) @ rounded, rtol=0.01, atol=0.1)


FEW_ROWS_EPILOGUES = {"none": None, "short": BIAS, "long": BIAS_RESIDUAL_GELU}


@pytest.mark.parametrize("epilogue", FEW_ROWS_EPILOGUES)
@pytest.mark.parametrize("columns", [64, 70, 1000])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_panels_of_a_single_block_by_turns(rows: int, columns: int, epilogue: str, target: Target) -> None:
    """
    Sums go on from part to part, so short parts of several panels give the bits of whole panels one after the other.
    """
    target = replace(target, model="", digest="")  # the generic machine, on which one stream is slow
    depth = 4 * STEPS - 2
    expr = FEW_ROWS_EPILOGUES[epilogue]
    operands = [numbers(columns, seed=2), numbers(rows, columns, seed=3)][
        : 0 if expr is None else len(expr.operands) - 1
    ]
    arrays = numbers(rows, depth), numbers(depth, columns, seed=1) / 8, *operands
    node = of({} if expr is None else {"epilogue": expr}, *arrays, constants=(1, 2) if operands else (1,))
    (call,), ctx = lower_graph(node.graph, target, "exact")
    assert isinstance(call.spec, GemmSpec)
    assert isinstance(call.args, GemmArgs)
    assert (call.args.blocks, call.spec.parts) == (1, True)
    assert call.args.part < depth
    assert call.args.panels_at_once > 1 or call.args.panels == 1
    (name,) = (value.name for value in node.graph.outputs)
    found = run_calls(node.graph, [call], ctx, node.given, target=target)[name]
    whole = replace(call, spec=replace(call.spec, parts=False))
    wanted = run_calls(node.graph, [whole], ctx, node.given, target=target)[name]
    assert found.tobytes() == wanted.tobytes()
    node.check(target, 5e-5)


def test_parts_are_even_and_cover_the_depth() -> None:
    """Whole vectors of one length, of which the last may be cut short, none empty; shallow depths and few rows are not
    cut."""
    many = Tile((6,), 10, 10, 2)
    for depth in range(1, 1000):
        parts = choose_parts(depth, 4, many, 20, 16, SLOW_STREAMS, packed=True)
        assert parts.length == depth if depth < 2 * STEPS else parts.length <= STEPS and parts.length % 16 == 0
        assert parts.several == (parts.length < depth)
        assert parts.panels == 20
        assert depth - (-(-depth // parts.length) - 1) * parts.length > 0
    assert choose_parts(1000, 4, Tile((6,), 1, 1, 2), 20, 16, SLOW_STREAMS, packed=False).length == 1000


def test_parts_of_a_single_block_are_short_turns_of_several_panels() -> None:
    for depth in (1, 7, 40, 1000):
        parts = choose_parts(depth, 4, Tile((1,), 1, 1, 2), 20, 8, SLOW_STREAMS, packed=True)
        assert parts.several == (parts.length < depth)
        assert parts.length == min(depth, 8)
        assert parts.length % UNROLL == 0 or parts.length == depth
        assert (parts.panels, parts.share) == (gemm_tiles.STREAMS, 1.0)
    assert choose_parts(1000, 4, Tile((1,), 1, 1, 2), 3, 8, SLOW_STREAMS, packed=True).panels == 3


def test_a_single_block_takes_whole_panels_where_one_stream_keeps_memory_busy() -> None:
    fast = replace(SLOW_STREAMS, stream_share=1.0)
    assert not choose_parts(1000, 4, Tile((1,), 1, 1, 2), 20, 8, fast, packed=True).several
