"""deferred: nodes that a front end can only make for operands of known shapes, where these depend on data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle import dtypes
from treadle.dtypes import DType
from treadle.errors import ModelError, ShapeError
from treadle.graph.graph import Graph
from treadle.graph.shape import is_static
from treadle.lru import LRU
from treadle.ops.bodies import infer_body, run_body
from treadle.ops.info_keys import key_of
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import present
from treadle.records import dataclass

Build = Callable[[Sequence[Info]], Graph]
"""Returns a graph with an input for each operand, of known shape. Raises ModelError if operands do not fit.

Integers that a run finds have a value already: numbers, or expressions of sizes.
"""

MOST_KEPT = 8
"""How many graphs are kept, each for one combination of shapes and numbers, and one case of a case analysis."""


@dataclass(slots=True)
class _Made:
    """A graph, what is known of its operands, whose expressions keep their identities so, and of its results."""

    infos: Sequence[Info]
    graph: Graph
    results: list[Info] | None = None


class DeferredNodes:
    """The nodes that stand behind a `deferred` node, which takes their place once what they need is known.

    Attributes:
        dtypes: Those of the results.
        numbers: The operands, by index, that decide sizes with their elements: few integers.
    """

    def __init__(self, build: Build, dtypes: Sequence[DType], numbers: Sequence[int] = ()) -> None:
        self._build = build
        self._kept: LRU[Any, _Made] = LRU(MOST_KEPT)
        self.dtypes = tuple(dtypes)
        self.numbers = tuple(numbers)

    def graph(self, infos: Sequence[Info]) -> Graph | None:
        """Return the nodes for such operands as a graph, not to be changed; None while not all is known that they need.

        Raises ShapeError if the operands do not fit.
        """
        made = self._made(infos)
        return None if made is None else made.graph

    def results(self, infos: Sequence[Info]) -> list[Info]:
        """Return what is known of the results for such operands. Raises ShapeError if these do not fit."""
        made = self._made(infos)
        if made is None:
            return [Info(dtype, None) for dtype in self.dtypes]
        if made.results is None:
            made.results = infer_body(made.graph, infos)
        return list(made.results)

    def _made(self, infos: Sequence[Info]) -> _Made | None:
        if any(info.shape is None or not is_static(info.shape) for info in infos):
            return None
        if any(infos[number].value is None for number in self.numbers):
            return None
        key = key_of(infos)
        found = self._kept.get(key)
        if found is not None:
            return found
        try:
            graph = self._build(infos)
        except ModelError as error:
            if type(error) is not ModelError:
                raise
            raise ShapeError(error.faults[0] if len(error.faults) == 1 else str(error)) from error
        made = _Made(infos, graph)
        self._kept.put(key, made)
        return made


def infer_deferred(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: nodes (DeferredNodes)."""
    nodes: DeferredNodes = attrs["nodes"]
    return nodes.results([info for info in inputs if info is not None])


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
