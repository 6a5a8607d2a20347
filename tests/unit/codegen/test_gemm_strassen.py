"""Matrix products by Strassen's algorithm against float64, on every instruction set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_graph
from tests.single_node import SingleNode
from tests.unit.codegen.conv.conv_case import FAST_LIMIT

from treadle.codegen import target as targets
from treadle.dtypes import f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.ops.matmul import evaluate_matmul
from treadle.passes.lower import gemm_strassen, gemm_strassen_tiling
from treadle.passes.lower.gemm_strassen import pack_blocks
from treadle.passes.lower.gemm_strassen_tiling import StrassenTiling, choose_tiling, tilings
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]
PLAIN: dict[str, Any] = {"transpose_a": False, "transpose_b": False}

BIAS_GELU = Expr(
    (f32, f32),
    (Step("add", (0, 1), f32), Step("erf", (2,), f32), Step("mul", (2, 3), f32)),
    (4,),
)
BIAS_RESIDUAL = Expr((f32, f32, f32), (Step("add", (0, 1), f32), Step("add", (3, 2), f32)), (4,))


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(
    matrices: int,
    rows: int,
    depth: int,
    columns: int,
    attrs: dict[str, Any] | None = None,
    more: tuple[Array, ...] = (),
) -> SingleNode:
    """[matrices, rows, depth] @ [depth, columns], the right factor and vectors of the epilogue being constant."""
    attrs = {**PLAIN, **(attrs or {})}
    right = numbers(columns, depth, seed=1) if attrs["transpose_b"] else numbers(depth, columns, seed=1)
    arrays = [numbers(matrices, rows, depth), right, *more]
    return SingleNode("matmul", arrays, attrs, constants=(1,))


def families(node: SingleNode, target: Target, math: str = "fast") -> list[str]:
    return [call.spec.family for call in lower_graph(node.graph, target, math)[0] if call.spec is not None]


def check(node: SingleNode, target: Target, tiling: StrassenTiling, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of `tiling` agree with float64, and give the same bits in both orders of chunks, memory unaligned."""
    monkeypatch.setattr(gemm_strassen, "choose_tiling", lambda *_: tiling)
    assert families(node, target) == ["strassen_left", "gemm_strassen"]
    (found,), (backwards,) = node.run(target), node.run(target, reverse_chunks=True, guard=72)
    assert found.tobytes() == backwards.tobytes()
    if "epilogue" in node.attrs:
        (expected,) = node.expected()
    else:
        (expected,) = evaluate_matmul(
            node.attrs, [array.astype(np.float64) for array in node.arrays if array is not None]
        )
    assert np.linalg.norm(found - expected) <= FAST_LIMIT / 4 * np.linalg.norm(expected)


SHAPES = {
    "whole blocks": (1, 32, 128, 384),
    "rows of two heights": (1, 58, 64, 192),
    "an odd number of rows": (1, 67, 64, 192),
    "several matrices": (3, 40, 64, 192),
    "several tiles, the last one smaller": (1, 259, 64, 192),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that make no whole halves, blocks or tiles are computed as if the last one were there again, and not
    stored."""
    matrices, rows, depth, columns = SHAPES[name]
    first, *_ = tilings(matrices, rows, columns, depth, target)
    check(product(matrices, rows, depth, columns), target, first, monkeypatch)


@pytest.mark.parametrize("vectors", [2, 3, 4])
def test_parts_of_the_depth_add_up(vectors: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of which the last one is smaller, for chunks of one and of several pairs of panels of every width."""
    lanes = target.lanes(f32)
    columns = 2 * vectors * lanes * 3
    monkeypatch.setattr(gemm_strassen_tiling, "_PART", 4 * lanes)
    candidates = [tiling for tiling in tilings(1, 34, columns, 10 * lanes, target) if tiling.tile.vectors == vectors]
    assert {tiling.pairs_per_chunk for tiling in candidates} == {1, 2, 3}
    for tiling in candidates:
        assert tiling.parts == 3
        check(product(1, 34, 10 * lanes, columns), target, tiling, monkeypatch)


@pytest.mark.parametrize("epilogue", [BIAS_GELU, BIAS_RESIDUAL], ids=["bias and gelu", "bias and residual"])
def test_epilogues(epilogue: Expr, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epilogues are applied to finished sums of both halves of a tile, long ones and those that read a whole matrix."""
    more = (numbers(192, seed=2), numbers(1, 67, 192, seed=3))[: len(epilogue.operands) - 1]
    first, *_ = tilings(1, 67, 192, 64, target)
    check(product(1, 67, 64, 192, {"epilogue": epilogue}, more), target, first, monkeypatch)


def test_a_right_factor_that_is_stored_transposed(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = tilings(1, 40, 192, 64, target)
    check(product(1, 40, 64, 192, {"transpose_b": True}), target, first, monkeypatch)


@pytest.mark.parametrize("shape", [(64, 768, 768), (128, 3072, 768), (64, 1536, 384)], ids=str)
def test_error_of_real_layers(shape: tuple[int, int, int]) -> None:
    """Layers as transformers have them stay far below the limit of math="fast"."""
    target = targets.detect()
    rows, depth, columns = shape
    node = product(1, rows, depth, columns)
    (found,) = node.run(target)
    (expected,) = evaluate_matmul(PLAIN, [numbers(1, rows, depth).astype(np.float64), node.arrays[1]])
    assert np.linalg.norm(found - expected) <= FAST_LIMIT / 4 * np.linalg.norm(expected)


def test_where_it_is_taken(target: Target) -> None:
    """Where there are registers enough, but not for math="exact", nor where rows may be samples, are few, or save
    little."""
    taken = product(1, 128, 768, 3072)
    gains = choose_tiling(1, 128, 3072, 768, target) is not None
    assert gains == (target.registers == 32)
    assert families(taken, target) == (["strassen_left", "gemm_strassen"] if gains else ["gemm"])
    assert families(taken, target, "exact") == ["gemm"]
    arrays = [numbers(128, 768), numbers(768, 3072)]
    assert families(SingleNode("matmul", arrays, PLAIN, constants=(1,)), target) == ["gemm"]
    assert families(product(128, 1, 768, 3072), target) == ["gemm"]
    assert families(product(1, 16, 768, 3072), target) == ["gemm"]
    assert families(product(1, 128, 64, 64), target) == ["gemm"]
    assert families(product(1, 128, 764, 3072), target) == ["gemm"], "halves of the depth are no whole vectors"


def test_few_columns_are_cut_into_more_tiles() -> None:
    """Where pairs of panels are too few for many workers, the rows are partitioned as well."""
    target = Target("avx512", "x86_64-linux", "", "", 64, 32, 32 << 10, 1 << 20, 32 << 20)
    wide, narrow = choose_tiling(1, 64, 1536, 384, target), choose_tiling(1, 64, 384, 1536, target)
    assert wide is not None
    assert (wide.tiles, wide.chunks) == (1, 16)
    assert narrow is not None
    assert (narrow.tiles, narrow.tile_rows, narrow.chunks) == (2, 32, 8)
    large, small = tilings(1, 3969, 384, 64, target), tilings(1, 60, 384, 1536, target)
    assert all((tiling.tiles - 1) * tiling.tile_rows < 3969 for tiling in large), "no tile is empty"
    assert all(tiling.tile_rows >= 32 for tiling in small), "tiles of fewer rows wait for weights"


def test_products_of_one_left_factor_share_its_sums(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums for queries, keys and values are made once where the products are tiled alike."""
    first, *_ = tilings(1, 40, 192, 64, target)
    monkeypatch.setattr(gemm_strassen, "choose_tiling", lambda *_: first)
    graph = Graph()
    x = graph.input("x", f32, (1, 40, 64))
    weights = [numbers(64, 192, seed=seed) for seed in range(3)]
    for number, weight in enumerate(weights):
        out = graph.value(f"product{number}", f32, (1, 40, 192))
        graph.add("matmul", (x, graph.constant(weight)), PLAIN, outputs=[out])
        graph.outputs.append(out)
    given = {"x": numbers(1, 40, 64)}
    families = [call.spec.family for call in lower_graph(graph, target)[0] if call.spec is not None]
    assert families == ["strassen_left", *["gemm_strassen"] * 3]
    found = run_graph(graph, given, target=target)
    for weight, output in zip(weights, graph.outputs, strict=True):
        expected = given["x"].astype(np.float64) @ weight
        assert np.linalg.norm(found[output.name] - expected) <= FAST_LIMIT / 4 * np.linalg.norm(expected)


def test_what_is_not_finite_stays_in_its_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is added to one of the same matrix only, so other samples never see what is infinite in it."""
    target = targets.detect()
    first, *_ = tilings(3, 40, 192, 64, target)
    monkeypatch.setattr(gemm_strassen, "choose_tiling", lambda *_: first)
    a = numbers(3, 40, 64)
    a[1, 7, 3] = np.inf
    (found,) = SingleNode("matmul", [a, numbers(64, 192, seed=1)], PLAIN, constants=(1,)).run(target)
    assert np.isfinite(found[[0, 2]]).all()
    assert not np.isfinite(found[1]).all()


def test_blocks_of_the_right_factor() -> None:
    """Each part of each pair of panels becomes its blocks b11, b21, b22 - b12 + b11 and b22."""
    b = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)
    packed = pack_blocks(b, 2, 4)
    pair = packed.reshape(2, -1)[1]
    upper, lower = b[0:2, 4:8], b[2:4, 4:8]
    wide = lower[:, 2:] - upper[:, 2:] + upper[:, :2]
    np.testing.assert_array_equal(pair[:16].reshape(4, 2, 2), [upper[:, :2], lower[:, :2], wide, lower[:, 2:]])
    np.testing.assert_array_equal(pair[16:].reshape(4, 1, 2)[0], b[4:5, 4:6])
