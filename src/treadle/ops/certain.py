"""What is certain of a node's results while sizes are open: the same for all sizes, without an assumption."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.case_analysis import CaseAnalysis, UndecidedError
from treadle.graph.dim import RealExpr, atoms_of, equals, is_expression
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, are_numbers, is_open, normalize_axis
from treadle.graph.value import Value
from treadle.ops.bodies import infer_body
from treadle.ops.evaluate import has_expressions, result_dtypes, with_value
from treadle.ops.loop import body_infos
from treadle.ops.op import Array, Info
from treadle.ops.table import OPS

_MOST_TRIES = 16
"""How often the body of a loop is inferred until it is known which sizes change."""

_WITH_BODIES = ("branch", "call", "deferred", "loop")
"""Ops whose shape rules may ask about what is no operand."""

_MOST_ATOMS = 64
"""An expression of more atoms counts as unknown."""


def certain_infos(node: Node, infos: Sequence[Info | None], facts: CaseAnalysis, deep: int = 0) -> list[Info]:
    """Infer `node` once, or once for each case where its shape rule asks what is not certain.

    Args:
        node: The node. A result without a dtype gets it.
        infos: What is known of its operands: shapes and small values, with expressions of `facts`.
        facts: Whose symbols stand for what is not known.
        deep: In how many bodies inside one another each node is inferred so. Further ones are inferred as a whole,
            which finds less. Time grows with a power of it.

    Returns:
        What is known of its results; an empty list if nothing is. Dimensions that are not the same in all cases, or
        depend on data, are new symbols.

    Raises:
        ShapeError, LimitError, KernelError: The operands do not fit, whatever the sizes are.
    """
    if any(info is not None and info.shape is None for info in infos):
        return []
    if node.op not in _WITH_BODIES and all(info is None or _is_fixed(info) for info in infos):
        results = _inferred(node, infos)  # there is no question
    else:
        results = certain_results(lambda: _inferred(node, infos), facts)
    if node.op == "loop" and any(info.shape is None for info in results):
        return _with_ranks(node, infos, results, facts, deep)
    if node.op == "branch" and deep and any(info.shape is None for info in results):
        return _of_both_sides(node, infos, results, facts, deep)
    return [Info(info.dtype, _ranked(node, infos, facts)) if info.shape is None else info for info in results]


def infos_or_dtypes(node: Node, infos: Sequence[Info | None], facts: CaseAnalysis, deep: int = 0) -> list[Info]:
    """Infer `node` as certain_infos() does; return the dtypes of its results alone if nothing else is known."""
    return certain_infos(node, infos, facts, deep) or [Info(dtype, None) for dtype in result_dtypes(node, infos)]


def certain_body(graph: Graph, operands: Sequence[Info | None], facts: CaseAnalysis, deep: int) -> list[Info]:
    """Infer the nodes of `graph`, each as certain_infos() does.

    Args:
        graph: A body, or another graph.
        operands: What is known of its inputs.
        facts: Whose symbols stand for what is not known.
        deep: As in certain_infos(); this body counts.

    Returns:
        What is known of its outputs; an empty list if nothing is.

    Raises:
        ShapeError, LimitError, KernelError: The operands do not fit, whatever the sizes are.
    """
    if not deep:
        return certain_results(partial(infer_body, graph, operands), facts)
    infos = dict(zip(graph.inputs, operands, strict=True))

    def info(value: Value | None) -> Info | None:
        if value is None or value.data is None:
            return None if value is None else infos[value]
        return Info(value.known_dtype, value.data.shape, value.data)

    for node in graph.nodes:
        found = certain_infos(node, list(map(info, node.inputs)), facts, deep - 1)
        if not found:
            return []
        infos.update(zip(node.outputs, found, strict=True))
    outputs = list(map(info, graph.outputs))
    return [output for output in outputs if output is not None]


def _is_fixed(info: Info) -> bool:
    """Whether neither the shape nor an element is an expression."""
    return info.shape is not None and are_numbers(info.shape) and not has_expressions(info)


def _with_ranks(
    node: Node, infos: Sequence[Info | None], results: Sequence[Info], facts: CaseAnalysis, deep: int
) -> list[Info]:
    """The results of a loop with new symbols for the sizes that depend on data; without ranks if these change."""
    attrs, count = node.attrs, node.attrs["carried"]
    carried = [info for info in infos[2 : 2 + count] if info is not None]
    changing: list[set[int]] = [set() for _ in carried]
    for _ in range(_MOST_TRIES):
        inputs = [*infos[:2], *carried, *infos[2 + count :]]
        found = certain_body(attrs["body"], body_infos(attrs, inputs), facts, deep)
        after = found[1 : 1 + count]
        if not found or any(map(_differ_in_rank, carried, after)):
            return list(results)
        new = [_unequal(one, other) - axes for one, other, axes in zip(carried, after, changing, strict=True)]
        if not any(new):
            items = [None if item.shape is None else (facts.unknown(), *item.shape) for item in found[1 + count :]]
            stacked = [Info(item.dtype, shape) for item, shape in zip(found[1 + count :], items, strict=True)]
            return [*(Info(info.dtype, info.shape) for info in carried), *stacked, results[-1]]
        for axes, more in zip(changing, new, strict=True):
            axes.update(more)
        carried = [_with_unknown(info, axes, facts) for info, axes in zip(carried, new, strict=True)]
    return list(results)


def _of_both_sides(
    node: Node, infos: Sequence[Info | None], results: Sequence[Info], facts: CaseAnalysis, deep: int
) -> list[Info]:
    """The results of a branch with new symbols for sizes in which its sides differ, or that depend on data."""
    sides: list[list[Info]] = []
    for name in ("yes", "no"):
        try:
            sides.append(certain_body(node.attrs[name], infos[1:], facts, deep))
        except ShapeError:
            continue  # the operands are those of runs that take the other side
    if not sides or any(len(side) != len(results) for side in sides):
        return list(results)
    return [common_infos(cases, facts) for cases in zip(*sides, strict=True)]


def _differ_in_rank(one: Info, other: Info) -> bool:
    return one.shape is None or other.shape is None or len(one.shape) != len(other.shape)


def _unequal(one: Info, other: Info) -> set[int]:
    """The axes on which two values of one rank have other sizes."""
    sizes = zip(one.shape or (), other.shape or (), strict=True)
    return {axis for axis, (size, same) in enumerate(sizes) if not equals(size, same)}


def _with_unknown(info: Info, axes: Container[int], facts: CaseAnalysis) -> Info:
    """`info` with new symbols for the sizes of these axes."""
    dims = enumerate(info.shape or ())
    return Info(info.dtype, tuple(facts.unknown() if axis in axes else size for axis, size in dims))


def _ranked(node: Node, infos: Sequence[Info | None], facts: CaseAnalysis) -> StaticShape | None:
    """The shape of results of `node` whose sizes depend on data, with new symbols for them; None without a rank."""
    shapes = [None if info is None else info.shape for info in infos]
    first = shapes[0]
    if node.op == "range":
        return (facts.unknown(),)
    if first is None:
        return None
    if node.op in ("counted", "top_k"):
        axis = normalize_axis(node.attrs["axis"], len(first))
        return (*first[:axis], facts.unknown(), *first[axis + 1 :])
    if node.op in ("pad", "slice", "split", "tile"):
        return tuple(facts.unknown() for _ in first)
    lengths = {"constant_of_shape": first, "expand": shapes[-1], "reshape": shapes[-1]}
    length = lengths.get(node.op)
    if length is None or len(length) != 1 or is_open(length):
        return None
    rank = max(len(first), length[0]) if node.op == "expand" else length[0]
    return tuple(facts.unknown() for _ in range(rank))


def certain_results(infer: Callable[[], Sequence[Info]], facts: CaseAnalysis) -> list[Info]:
    """Infer once, or once for each case where `infer` asks what is not certain.

    Args:
        infer: Returns what is known of results in one case, with expressions of `facts`.
        facts: Whose symbols stand for what is not known.

    Returns:
        What is known of the results in all cases, as of `certain_infos`.

    Raises:
        ShapeError, LimitError, KernelError: `infer` raises it in every case.
    """
    try:
        cases = facts.results(lambda: [(info, _settled(info, facts)) for info in infer()])
    except UndecidedError:
        return []
    if not cases or any(len(case) != len(cases[0]) for case in cases):
        return []
    found = []
    for results in zip(*cases, strict=True):
        infos, settled = zip(*results, strict=True)
        found.append(_with_numbers(common_infos(infos, facts), settled))
    return found


def _settled(info: Info, facts: CaseAnalysis) -> StaticShape | None:
    """The shape of `info` with numbers for sizes that can only be one number in this case."""
    return None if info.shape is None else tuple(map(facts.settled, info.shape))


def _with_numbers(info: Info, shapes: Sequence[StaticShape | None]) -> Info:
    """`info` with numbers for sizes that are the same number in all `shapes`, those of the cases."""
    if info.shape is None or not is_open(info.shape):
        return info
    sizes = [[shape[axis] for shape in shapes if shape is not None] for axis in range(len(info.shape))]
    fixed = [None if any(map(is_expression, dims)) or len(set(dims)) > 1 else dims[0] for dims in sizes]
    return Info(
        info.dtype,
        tuple(dim if number is None else number for dim, number in zip(info.shape, fixed, strict=True)),
        info.value,
    )


def _inferred(node: Node, infos: Sequence[Info | None]) -> list[Info]:
    infer = node.attrs["infer"] if node.op == "call" else None
    if node.op == "call":
        return [] if infer is None else list(infer(infos))
    found = OPS[node.op].infer(node.attrs, infos, len(node.outputs))
    for value, info in zip(node.outputs, found, strict=True):
        if value.dtype is None:
            value.dtype = info.dtype
    return [with_value(node, infos, found[0])] if len(found) == 1 else found


def common_infos(cases: Sequence[Info], facts: CaseAnalysis) -> Info:
    """What is the same in all `cases`; sizes that differ are new symbols of `facts`."""
    first, *others = cases
    if first.shape is None or any(info.shape is None or len(info.shape) != len(first.shape) for info in others):
        return Info(first.dtype, None)
    shapes = [info.shape for info in cases if info.shape is not None]
    shape = tuple(dims[0] if _is_same(dims) else facts.unknown() for dims in zip(*shapes, strict=True))
    return Info(first.dtype, shape, _common_value(cases, shape))


def _common_value(cases: Sequence[Info], shape: StaticShape) -> Array | None:
    first = cases[0]
    if len(cases) == 1 and not has_expressions(first):
        return first.value
    arrays = [info.value for info in cases if info.value is not None]
    if len(arrays) < len(cases) or is_open(shape) or first.dtype == dtypes.string:
        return None
    rows = [array.reshape(-1).tolist() for array in arrays]
    if any(len(row) != len(rows[0]) for row in rows) or not all(map(_is_same, zip(*rows, strict=True))):
        return None
    dtype = object if any(map(is_expression, rows[0])) else first.dtype.numpy
    value = np.empty(len(rows[0]), dtype)
    value[:] = rows[0]
    return value.reshape(shape)


def _is_same(sizes: Sequence[Any]) -> bool:
    """Whether it is one size, and simple."""
    first, *others = sizes
    if sum(1 for _ in islice(atoms_of(first), _MOST_ATOMS + 1)) > _MOST_ATOMS:
        return False
    return all(first is other or (not isinstance(other, RealExpr) and equals(first, other)) for other in others)
