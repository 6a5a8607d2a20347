"""Matrix products that are lowered once for open sizes give, for each of many sizes, what NumPy gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_calls
from tests.native_sizes import native_sizes

from treadle import dtypes
from treadle.dtypes import bf16, f32
from treadle.graph.dim import DimExpr
from treadle.graph.expr import Expr, Step
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.ops.matmul import evaluate_matmul
from treadle.ops.op import Info
from treadle.ops.table import OPS
from treadle.passes.lower import gemm_tiles
from treadle.plan.call import Call
from treadle.plan.kernels.gemm import GemmSpec
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]
Dims = tuple["int | str", ...]
PLAIN: dict[str, Any] = {"transpose_a": False, "transpose_b": False}
BIAS_RESIDUAL = Expr((f32, f32, f32), (Step("add", (0, 1), f32), Step("add", (3, 2), f32)), (4,))
"""Of a row of numbers and a matrix."""


class Product:
    """A `matmul` of operands whose dimensions are numbers or names; those in `constants` (by index) are constant."""

    def __init__(
        self,
        shapes: list[Dims],
        attrs: dict[str, Any] | None = None,
        *,
        constants: tuple[int, ...] = (),
        left: Any = f32,
    ) -> None:
        self.shapes, self.attrs, self.left = shapes, {**PLAIN, **(attrs or {})}, left
        self.facts = Facts()
        self.weights = {number: self.numbers(number, {}) for number in constants}

    def numbers(self, number: int, values: Mapping[str, int]) -> Array:
        """Operand `number`; small integers, so that sums are exact however they are made."""
        shape = [values[dim] if isinstance(dim, str) else dim for dim in self.shapes[number]]
        data = np.random.default_rng(number).integers(-4, 5, shape)
        return data.astype(self._dtype(number).numpy)

    def graph(self, values: Mapping[str, int] | None = None) -> Graph:
        """A graph of the product, of open sizes unless `values` says how large they are."""
        graph, infos, operands = Graph(), [], []
        for number, dims in enumerate(self.shapes):
            symbols = [
                (self._symbol(dim) if values is None else values[dim]) if isinstance(dim, str) else dim for dim in dims
            ]
            dtype = self._dtype(number)
            infos.append(Info(dtype, tuple(symbols), None))
            if number in self.weights:
                operands.append(graph.constant(self.weights[number]))
            else:
                operands.append(graph.input(f"x{number}", dtype, tuple(symbols)))
        (result,) = OPS["matmul"].infer(self.attrs, infos, 1)
        node = graph.add("matmul", operands, self.attrs, outputs=1)
        node.output.dtype, node.output.shape = result.dtype, result.shape
        graph.outputs = [node.output]
        return graph

    def _symbol(self, name: str) -> int:
        return self.facts.symbol(name, 61 + 18 * len(self.facts.symbols))

    def _dtype(self, number: int) -> Any:
        return self.left if number == 0 else dtypes.i8 if self.left == dtypes.i8 else f32


def bound(calls: list[Call], graph: Graph, facts: Facts, values: Mapping[str, int]) -> list[Call]:
    """`calls` with numbers for expressions, as the native core computes them; the shapes of the graph's values change
    likewise."""
    expressions: dict[DimExpr, None] = {}

    def collect(size: Any) -> None:
        for each in size if isinstance(size, tuple) else ():
            collect(each)
        if isinstance(size, DimExpr):
            expressions[size] = None

    operands = dict.fromkeys((*graph.inputs, *(value for call in calls for value in (*call.writes, *call.reads))))
    for size in (*(value.static_shape for value in operands), *(part for call in calls for part in _sizes(call))):
        collect(size)
    sizes = [values[name] for name in facts.symbols]
    numbers = native_sizes(list(facts.symbols.values()), list(expressions), sizes)
    known = dict(zip(expressions, numbers, strict=True))

    def number(size: Any) -> Any:
        return tuple(map(number, size)) if isinstance(size, tuple) else known.get(size, size)

    for value in operands:
        value.shape = number(value.static_shape)
    bound_calls = []
    for call in calls:
        args = replace(call.args, **{field.name: number(getattr(call.args, field.name)) for field in fields(call.args)})
        bound_calls.append(replace(call, args=args, chunks=number(call.chunks), scratch=number(call.scratch)))
    return bound_calls


def _sizes(call: Call) -> list[Any]:
    return [call.chunks, call.scratch, *(getattr(call.args, field.name) for field in fields(call.args))]


def check(product: Product, target: Target, every: list[dict[str, int]]) -> list[GemmSpec]:
    """One lowering serves `every` set of sizes, without guards; returns the specs of its products."""
    specs: list[GemmSpec] = []
    for values in every:
        graph = product.graph()
        calls, ctx = lower_graph(graph, target)
        assert [str(guard) for guard in product.facts.guards] == []
        found = [call.spec for call in calls if isinstance(call.spec, GemmSpec)]
        assert found == (specs or found), "the same kernels for all sizes"
        specs = found
        arrays = [product.weights.get(n, product.numbers(n, values)) for n in range(len(product.shapes))]
        given = {f"x{n}": array for n, array in enumerate(arrays) if n not in product.weights}
        calls = bound(calls, graph, product.facts, values)
        (wanted,) = evaluate_matmul(product.attrs, arrays)
        for reverse in (False, True):
            (result,) = run_calls(graph, calls, ctx, given, target=target, reverse_chunks=reverse).values()
            np.testing.assert_array_equal(result.astype(np.float64), wanted.astype(np.float64), str(values))
    return specs


ROWS = [1, 2, 5, 6, 7, 13, 40, 200]


@pytest.mark.parametrize("columns", [96, 40, 3])
def test_rows_of_constant_weights(columns: int, target: Target) -> None:
    product = Product([("b", "s", 24), (24, columns)], constants=(1,))
    (spec,) = check(product, target, [{"b": 1 + rows % 3, "s": rows} for rows in ROWS])
    assert spec.open_rows
    assert (spec.edge == 0) == (columns % (spec.vectors * target.lanes(f32)) == 0)


def test_weights_without_rows(target: Target) -> None:
    """
    The sum of no products is 0.
    """
    check(Product([("s", 0), (0, 40)], constants=(1,)), target, [{"s": rows} for rows in ROWS])


def test_an_epilogue_with_a_matrix_of_open_size(target: Target) -> None:
    shapes: list[Dims] = [("s", 24), (24, 70), (70,), ("s", 70)]
    product = Product(shapes, {"epilogue": BIAS_RESIDUAL}, constants=(1, 2))
    (spec,) = check(product, target, [{"s": rows} for rows in ROWS])
    assert spec.kinds == ("column", "full")


def test_scores_of_heads(target: Target) -> None:
    """
    Queries times transposed keys: rows and columns are open, and so is the batch.
    """
    product = Product([("b", "s", 3, 16), ("b", "t", 3, 16)], {"a_perm": (0, 2, 1, 3), "b_perm": (0, 2, 3, 1)})
    (spec,) = check(product, target, [{"b": 2, "s": s, "t": t} for s in (1, 4, 33) for t in (1, 7, 16, 50)])
    assert spec.source == "columns"


def test_values_of_heads(target: Target) -> None:
    """
    Weights times values: rows and depth are open.
    """
    product = Product([("b", 3, "s", "t"), ("b", "t", 3, 16)], {"b_perm": (0, 2, 1, 3), "out_perm": (0, 2, 1, 3)})
    check(product, target, [{"b": 2, "s": s, "t": t} for s in (1, 4, 33) for t in (1, 7, 16, 50)])


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_a_single_product_of_open_sizes(transposed: str, target: Target) -> None:
    """
    The right factor is packed by a call of its own.
    """
    a: Dims = ("k", "s") if "a" in transposed else ("s", "k")
    b: Dims = ("t", "k") if "b" in transposed else ("k", "t")
    product = Product([a, b], {"transpose_a": "a" in transposed, "transpose_b": "b" in transposed})
    every = [{"s": s, "t": t, "k": k} for s in (1, 20, 150) for t in (1, 37, 80) for k in (3, 16)]
    (spec,) = check(product, target, every)
    assert spec.source == "packed"


@pytest.mark.parametrize("transposed", [False, True])
def test_one_row_times_open_columns(transposed: bool, target: Target) -> None:
    product = Product([(2, 1, 16), (2, "t", 16) if transposed else (2, 16, "t")], {"transpose_b": transposed})
    check(product, target, [{"t": t} for t in (1, 5, 16, 77)])


def test_depths_in_parts_or_whole(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Few rows multiply the whole depth at once, many rows in parts, with one kernel.
    """
    monkeypatch.setattr(gemm_tiles, "WHOLE_BYTES", 256)
    monkeypatch.setattr(gemm_tiles, "PART_BYTES", 128)
    monkeypatch.setattr(gemm_tiles, "PART_BLOCKS", 2)
    product = Product([("s", 110), (110, 70)], constants=(1,))
    (spec,) = check(product, target, [{"s": rows} for rows in ROWS])
    assert spec.parts


def test_groups_of_bytes(target: Target) -> None:
    product = Product([("b", "s", 32), (32, 70)], constants=(1,), left=dtypes.i8)
    (spec,) = check(product, target, [{"b": 2, "s": rows} for rows in ROWS])
    assert spec.vnni
    assert spec.open_rows


def test_pairs_of_bf16(target: Target) -> None:
    if not target.has_bf16_dot:
        pytest.skip("multiplies no pairs of bf16")
    product = Product([("b", "s", 32), (32, 70)], constants=(1,), left=bf16)
    (spec,) = check(product, target, [{"b": 2, "s": rows} for rows in ROWS])
    assert spec.bf16_dot
    assert spec.open_rows


def test_bits_are_those_of_one_number_of_rows(target: Target) -> None:
    """
    A kernel that was lowered for one number of rows adds products up in the same order.
    """
    product = Product([("s", 301), (301, 96)], constants=(1,))
    product.weights[1] = np.random.default_rng(1).standard_normal((301, 96)).astype(np.float32)
    for rows in ROWS:
        a = np.random.default_rng(rows).standard_normal((rows, 301)).astype(np.float32)
        results = []
        for values in (None, {"s": rows}):
            graph = product.graph(values)
            calls, ctx = lower_graph(graph, target)
            (result,) = run_calls(
                graph, bound(calls, graph, product.facts, {"s": rows}), ctx, {"x0": a}, target=target
            ).values()
            results.append(result)
        assert results[0].tobytes() == results[1].tobytes()
