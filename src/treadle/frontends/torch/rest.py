"""The rest of a program behind a size that depends on data, as core nodes that are made once it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.errors import ModelError
from treadle.frontends.core_bodies import is_known
from treadle.frontends.deferred_nodes import NeedsShapeError, add_deferred, given
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch.bodies import as_result, filled, same_structure, with_holes
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.certain_forms import certain_forms
from treadle.frontends.torch.frames import Place, State
from treadle.frontends.torch.scalars import scalar
from treadle.graph.dim import hint_of, is_expression
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes
from treadle.ops.op import Info
from treadle.ops.sizes import known_value, may_be_numbers

Resume = Callable[[Importer, Any], list[Any]]
"""(importer, state) -> the results of the program, whose rest it has run."""

SAMPLES = (12, 1, 2, 7, 840, 0)
"""Sizes with which the rest is run in advance, in turn, until they fit: this tells what its results are."""

RANKS = (1, 2, 3, 4)
"""The ranks that are tried for a tensor whose rank depends on data."""


@dataclass(slots=True)
class Results:
    """What the rest of a program gives: the structure of its results, with holes, and the dtypes of these."""

    structure: list[Any] = field(default_factory=list)
    dtypes: list[DType] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of a program in `state`, which reads `operands`.

    `wanted` is what its results are.
    """

    title: str
    importer: Importer
    state: State
    operands: list[Value]
    resume: Resume
    wanted: Results

    def build(self, infos: Sequence[Info]) -> Graph:
        """Return the graph for operands of which this is known. Raises ModelError if they do not fit."""
        graph, found = self.made(infos)
        if not same_structure(found.structure, self.wanted.structure) or found.dtypes != self.wanted.dtypes:
            raise ModelError(f"{self.title}: for these sizes it gives results of other element types or kinds")
        return graph

    def made(self, infos: Sequence[Info]) -> tuple[Graph, Results]:
        """Return the graph for operands of which this is known, and what its results are. Raises ModelError."""
        importer, b = self.importer, self.importer.b
        graph, faults = Graph("torch"), Faults()
        with importer.elsewhere(graph, faults):
            names = (value.name for value in self.operands)
            inputs = [given(b, name, info) for name, info in zip(names, infos, strict=True)]
            places = dict(zip(self.operands, inputs, strict=True))

            def swap(held: Any) -> Any:
                return scalar(inputs[held.number]) if isinstance(held, Place) else places.get(held, held)

            results = self.resume(importer, self.state.copied(swap))
            faults.raise_all(self.title)
            results = [_with_numbers(b, result) for result in results]
            values: list[Value] = []
            found = Results([with_holes(result, values) for result in results])
            b.name = "result"
            graph.outputs = [b.add("identity", value) for value in values]
            found.dtypes = [value.known_dtype for value in values]
        return graph, found


def add_rest(
    importer: Importer, state: State, need: NeedsShapeError, location: str, resume: Resume
) -> list[Any] | None:
    """Add what is left of a program in `state` as one node, and return its results.

    Returns None if that has faults, which are recorded. Raises Unsupported if what `need` asks for is no more known
    there than here.
    """
    b = importer.b
    operands: dict[Value, int] = {}
    numbers: dict[int, None] = {}

    def collect(held: Any) -> Any:
        if isinstance(held, Value):
            if held.data is None:
                operands.setdefault(held, len(operands))
            return held
        place = operands.setdefault(b.number(held), len(operands))
        numbers[place] = None
        return Place(place)

    kept = state.copied(collect)
    asked = [value for value in need.values if value in operands and may_be_numbers(value)]
    if len(asked) < len(need.values) or (not asked and all(map(is_known, operands))):
        raise Unsupported(str(need))
    numbers.update((operands[value], None) for value in asked)
    rest = Rest(f"the part from {location}", importer, kept, list(operands), resume, Results())
    faults: ModelError | None = None
    for infos in sample_infos(b.graph, rest.operands, numbers):
        try:
            _, found = rest.made(infos)
        except ModelError as error:
            faults = faults or error
            continue
        rest.wanted.structure[:], rest.wanted.dtypes[:] = found.structure, found.dtypes
        made = add_deferred(b, rest.operands, DeferredNodes(rest.build, found.dtypes, sorted(numbers)))
        return [filled(held, made, "") for held in found.structure]
    assert faults is not None, "there are samples"
    for fault in faults.faults:
        importer.faults.add(location, fault)
    return None


def sample_infos(
    graph: Graph, values: Sequence[Value], numbers: Sequence[int] | dict[int, None]
) -> Iterator[list[Info]]:
    """Yield what may be known of `values` of `graph` in a run, with several sizes for those that depend on data.

    The elements of the `numbers` among them are known too.
    """
    infos = certain_forms(graph, values)
    ranks = RANKS if any(infos[value].shape is None for value in values) else RANKS[:1]
    for rank in ranks:
        for size in SAMPLES:
            yield [_sample(infos[value], value, size, rank, place in numbers) for place, value in enumerate(values)]


def _sample(info: Info, value: Value, size: int, rank: int, is_number: bool) -> Info:
    shape = (size,) * rank if info.shape is None else info.shape
    sizes = tuple(dim if not is_expression(dim) else int(hint_of(dim)) if is_known(value) else size for dim in shape)
    known = known_value(value)
    if known is not None:
        return Info(
            info.dtype,
            sizes,
            np.array(list(map(hint_of, known.reshape(-1).tolist())), info.dtype.numpy).reshape(known.shape),
        )
    return Info(info.dtype, sizes, np.full(sizes, size, info.dtype.numpy) if is_number else None)


def _with_numbers(b: Builder, held: Any) -> Any:
    """Return a result with Numbers in place of Python numbers, which may be others for other sizes."""
    if isinstance(held, list):
        return [_with_numbers(b, each) for each in held]
    if isinstance(held, dict):
        return {key: _with_numbers(b, each) for key, each in held.items()}
    return as_result(b, held)
