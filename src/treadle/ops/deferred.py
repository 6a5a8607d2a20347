"""deferred: nodes that a front end can only make for operands of known shapes, where these depend on data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import ModelError, ShapeError
from treadle.graph.case_analysis import CaseAnalysis
from treadle.graph.dim import DimExpr
from treadle.graph.graph import Graph
from treadle.graph.shape import is_static
from treadle.lru import LRU
from treadle.ops.bodies import infer_body, run_body
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import present

Build = Callable[[Sequence[Info]], Graph]
"""Returns a graph with an input for each operand, of known shape. Raises ModelError if operands do not fit.

Integers that a run finds have a value already: numbers, or expressions of sizes.
"""

MOST_KEPT = 4
"""How many graphs are kept, each for one combination of shapes and numbers."""


class DeferredNodes:
    """The nodes that stand behind a `deferred` node, which takes their place once what they need is known.

    Attributes:
        dtypes: Those of the results.
        numbers: The operands, by index, that decide sizes with their elements: few integers.
    """

    def __init__(self, build: Build, dtypes: Sequence[DType], numbers: Sequence[int] = ()) -> None:
        self._build = build
        self._kept: LRU[Any, tuple[Sequence[Info], Graph]] = LRU(MOST_KEPT)
        self.dtypes = tuple(dtypes)
        self.numbers = tuple(numbers)

    def graph(self, infos: Sequence[Info]) -> Graph | None:
        """Return the nodes for such operands as a graph, not to be changed; None while not all is known that they need.

        Raises ShapeError if the operands do not fit.
        """
        if any(info.shape is None or not is_static(info.shape) for info in infos):
            return None
        if any(infos[number].value is None for number in self.numbers):
            return None
        key = None if any(map(_is_one_case, infos)) else tuple(map(_key, infos))
        found = None if key is None else self._kept.get(key)
        if found is not None:
            return found[1]
        try:
            graph = self._build(infos)
        except ModelError as error:
            if type(error) is not ModelError:
                raise
            raise ShapeError(error.faults[0] if len(error.faults) == 1 else str(error)) from error
        if key is not None:
            self._kept.put(key, (infos, graph))  # with the expressions in the key, whose identities stay theirs
        return graph


def infer_deferred(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: nodes (DeferredNodes)."""
    nodes: DeferredNodes = attrs["nodes"]
    infos = [info for info in inputs if info is not None]
    graph = nodes.graph(infos)
    return [Info(dtype, None) for dtype in nodes.dtypes] if graph is None else infer_body(graph, infos)


def evaluate_deferred(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    nodes: DeferredNodes = attrs["nodes"]
    given = [present(arrays, number) for number in range(len(arrays))]
    infos = [
        Info(dtypes.from_numpy(array.dtype), array.shape, array if number in nodes.numbers else None)
        for number, array in enumerate(given)
    ]
    graph = nodes.graph(infos)
    assert graph is not None, "arrays have shapes and elements"
    return run_body(graph, given)


def _expressions(info: Info) -> Iterator[Any]:
    """The sizes and elements that may be expressions."""
    yield from info.shape or ()
    if info.value is not None and info.value.dtype == object and info.dtype is not dtypes.string:
        yield from info.value.reshape(-1).tolist()


def _is_one_case(info: Info) -> bool:
    """Whether expressions are those of a case analysis, in which a graph holds for one case alone."""
    return any(isinstance(size, DimExpr) and isinstance(size.rules, CaseAnalysis) for size in _expressions(info))


def _key(info: Info) -> tuple[Any, ...]:
    sizes = tuple(id(size) if isinstance(size, DimExpr) else size for size in info.shape or ())
    value = info.value
    if value is None:
        return info.dtype, sizes, None
    if value.dtype == object:
        return info.dtype, sizes, tuple(map(_element, value.reshape(-1).tolist()))
    return info.dtype, sizes, np.ascontiguousarray(value).tobytes()


def _element(element: Any) -> Any:
    return element if type(element) in (int, float, bool, str, bytes) else ("expression", id(element))
