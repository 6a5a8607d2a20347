"""Product kernels for any number of rows give the bits of kernels that are made for one, on every instruction set."""

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
from treadle.plan.call import Call
from treadle.plan.kernels.gemm import GemmArgs, GemmSpec
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]
BIAS = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))
BIAS_RESIDUAL = Expr((f32, f32, f32), (Step("add", (0, 1), f32), Step("add", (3, 2), f32)), (4,))
BIAS_RESIDUAL_ERF = Expr(
    (f32, f32, f32),
    (Step("add", (0, 1), f32), Step("add", (3, 2), f32), Step("erf", (4,), f32), Step("mul", (4, 5), f32)),
    (6,),
)
HEIGHTS = tuple(range(6, 0, -1))


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    values = np.random.default_rng(seed).standard_normal(shape)
    return (values if np.dtype(dtype).kind == "f" else 8 * values).astype(dtype)


def opened(call: Call, rows: int, height: int) -> Call:
    """`call`, a product of `rows` rows, for any number of rows: with as few blocks of up to `height` as they need."""
    spec, args = call.spec, call.args
    assert isinstance(spec, GemmSpec)
    assert isinstance(args, GemmArgs)
    blocks = -(-rows // height)
    tall = -(-rows // blocks)
    per_chunk = -(-blocks // 2)
    block_chunks = -(-blocks // per_chunk)
    chunks = -(-args.batches // args.batches_per_chunk) * block_chunks * args.panel_chunks
    may_turn = spec.source == "packed" and not spec.vnni
    by_turns = may_turn and blocks == 1
    return replace(
        call,
        spec=replace(spec, rows=HEIGHTS, grid=True, parts=spec.parts or may_turn),
        args=replace(
            args,
            blocks=blocks,
            height=tall,
            large_blocks=rows - blocks * (tall - 1),
            blocks_per_chunk=per_chunk,
            block_chunks=block_chunks,
            part=8 if by_turns else args.part,
            panels_at_once=3 if by_turns else args.panels_at_once,
        ),
        chunks=chunks,
        scratch=8 * call.scratch * (HEIGHTS[0] + 1) * (1 + per_chunk),
    )


def check(
    target: Target, arrays: list[Array], attrs: dict[str, Any] | None = None, *, constants: tuple[int, ...] = ()
) -> GemmSpec:
    """One kernel gives the bits of the static one with blocks of each height; returns its spec."""
    attrs = {"transpose_a": False, "transpose_b": False, **(attrs or {})}
    node = SingleNode("matmul", arrays, attrs, constants=constants)
    calls, ctx = lower_graph(node.graph, target, "exact")
    (name,) = (value.name for value in node.graph.outputs)
    wanted = run_calls(node.graph, calls, ctx, node.given, target=target)[name]
    rows = wanted.shape[-2]
    specs = set()
    for height in HEIGHTS:
        open_calls = [opened(call, rows, height) if isinstance(call.spec, GemmSpec) else call for call in calls]
        specs.update(call.spec for call in open_calls if isinstance(call.spec, GemmSpec))
        for reverse in (False, True):
            found = run_calls(node.graph, open_calls, ctx, node.given, target=target, reverse_chunks=reverse)[name]
            assert found.tobytes() == wanted.tobytes(), f"blocks of {height} rows"
    (spec,) = specs
    assert isinstance(spec, GemmSpec)
    assert spec.open_rows
    return spec


@pytest.mark.parametrize("rows", [1, 2, 6, 7, 19])
@pytest.mark.parametrize("columns", [64, 70])
def test_constant_factors_with_an_epilogue(rows: int, columns: int, target: Target) -> None:
    arrays = [numbers(rows, 29), numbers(29, columns, seed=1), numbers(columns, seed=2)]
    check(target, arrays, {"epilogue": BIAS}, constants=(1, 2))


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize("sizes", [(16, 32), (27, 70)])
def test_factors_that_are_not_constant(transposed: str, sizes: tuple[int, int], target: Target) -> None:
    depth, columns = sizes
    a, b = numbers(3, 13, depth), numbers(3, depth, columns, seed=1)
    arrays = [
        a.swapaxes(1, 2).copy() if "a" in transposed else a,
        b.swapaxes(1, 2).copy() if "b" in transposed else b,
    ]
    check(target, arrays, {"transpose_a": "a" in transposed, "transpose_b": "b" in transposed})


def test_a_right_factor_that_is_copied(target: Target) -> None:
    """
    It does not fit L1; enough rows use each panel.
    """
    spec = check(replace(target, l1=1 << 12), [numbers(70, 40), numbers(40, 90, seed=1)])
    assert spec.source in ("copied", "packed")


@pytest.mark.parametrize("columns", [64, 70])
@pytest.mark.parametrize("epilogue", [BIAS_RESIDUAL, BIAS_RESIDUAL_ERF], ids=["short", "long"])
def test_epilogues_that_read_matrices(epilogue: Expr, columns: int, target: Target) -> None:
    arrays = [numbers(19, 24), numbers(24, columns, seed=1), numbers(columns, seed=2), numbers(19, columns, seed=3)]
    check(target, arrays, {"epilogue": epilogue}, constants=(1, 2))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint64])
def test_other_dtypes(dtype: Any, target: Target) -> None:
    check(target, [numbers(13, 21, dtype=dtype), numbers(21, 37, seed=1, dtype=dtype)])


@pytest.mark.parametrize("left", [np.uint8, np.int8])
def test_groups_of_bytes(left: Any, target: Target) -> None:
    a = np.abs(numbers(13, 64, dtype=np.int8)).astype(left)
    spec = check(target, [a, numbers(64, 70, seed=1, dtype=np.int8)], constants=(1,))
    assert spec.vnni


def test_pairs_of_bf16(target: Target) -> None:
    if not target.has_bf16_dot:
        pytest.skip("multiplies no pairs of bf16")
    spec = check(target, [numbers(13, 64).astype(bf16.numpy), numbers(64, 70, seed=1)], constants=(1,))
    assert spec.bf16_dot


@pytest.mark.parametrize("columns", [64, 101])
@pytest.mark.parametrize("whole", [False, True], ids=["in parts", "in one part"])
@pytest.mark.parametrize("epilogue", [BIAS, BIAS_RESIDUAL_ERF], ids=["short", "long"])
def test_depths_in_parts(
    epilogue: Expr, whole: bool, columns: int, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A kernel that may multiply in parts gives the same bits as one that may not, where there is one part.
    """
    monkeypatch.setattr(gemm_tiles, "WHOLE_BYTES", 256)
    monkeypatch.setattr(gemm_tiles, "PART_BYTES", 128)
    monkeypatch.setattr(gemm_tiles, "PART_BLOCKS", 2)
    operands = [numbers(columns, seed=2), numbers(37, columns, seed=3)][: len(epilogue.operands) - 1]
    arrays = [numbers(37, 110), numbers(110, columns, seed=1), *operands]
    small = replace(target, l2=1 << 12, l3=1 << 12)
    if not whole:
        spec = check(small, arrays, {"epilogue": epilogue}, constants=(1, 2))
        assert spec.parts
        return
    node = SingleNode("matmul", arrays, {"transpose_a": False, "transpose_b": False, "epilogue": epilogue})
    (call,), ctx = lower_graph(node.graph, replace(target, l3=1 << 30), "exact")
    assert isinstance(call.spec, GemmSpec)
    assert not call.spec.parts
    in_parts = replace(call, spec=replace(call.spec, parts=True), scratch=100 * call.scratch)
    (name,) = (value.name for value in node.graph.outputs)
    wanted, found = (run_calls(node.graph, [one], ctx, node.given, target=target)[name] for one in (call, in_parts))
    assert found.tobytes() == wanted.tobytes()
