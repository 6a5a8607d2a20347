"""The rest of a program behind a size that depends on data, as core nodes that are made once it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.errors import KernelError, LimitError, ModelError, ShapeError
from treadle.frontends.core_bodies import is_known
from treadle.frontends.deferred_nodes import NeedsShapeError, add_deferred, given
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch.bodies import as_result, filled, same_structure, with_holes
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.certain_forms import certain_forms, infos_for_all_sizes
from treadle.frontends.torch.frames import Place, State
from treadle.frontends.torch.scalars import scalar
from treadle.graph.case_analysis import CaseAnalysis, UndecidedError
from treadle.graph.dim import hint_of, is_expression
from treadle.graph.graph import Graph
from treadle.graph.shape import is_open
from treadle.graph.value import Value
from treadle.ops.deferred import DeferredNodes
from treadle.ops.op import Info
from treadle.ops.sizes import known_value, may_be_numbers

Resume = Callable[[Importer, Any], list[Any]]
"""(importer, state) -> the results of the program, whose rest it has run."""

SAMPLES = (12, 1, 2, 7, 840, 0)
"""Sizes with which the rest is run in advance, in turn, until they fit, where code asks what is not the same for all of
them: this tells what its results are."""

MOST_CASES = 4
"""How often the rest is run in advance for all sizes: once for each combination of answers to what it asks of them."""

RANKS = (1, 2, 3, 4)
"""The ranks that are tried for a tensor whose rank depends on data."""


@dataclass(slots=True)
class Results:
    """What the rest of a program gives: the structure of its results, with holes, and the dtypes of these."""

    structure: list[Any] = field(default_factory=list)
    dtypes: list[DType] = field(default_factory=list)

    def are_like(self, other: Results) -> bool:
        """Return whether both have one structure and the same dtypes."""
        return same_structure(self.structure, other.structure) and self.dtypes == other.dtypes


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
        if not found.are_like(self.wanted):
            raise ModelError(f"{self.title}: for these sizes it gives results of other element types or kinds")
        return graph

    def certain_results(self, numbers: Collection[int]) -> Results | None:
        """Return what the results are for all sizes, and all elements of the operands `numbers`.

        None if code asks too much that is not the same for all of them, or does not fit any.
        """
        if self.importer.b.facts is not None:  # another part is run for all sizes, of which this one is the rest
            raise UndecidedError
        facts = CaseAnalysis()
        infos = infos_for_all_sizes(self.importer.b.graph, self.operands, facts)
        pairs = enumerate(zip(infos, self.operands, strict=True))
        known = [_with_symbols(facts, info, value, at in numbers) for at, (info, value) in pairs]
        given_infos = [info for info in known if info is not None]
        if len(given_infos) < len(known):
            return None

        def results() -> Results:
            try:
                return self.made(given_infos, facts)[1]
            except ModelError as error:
                raise ShapeError(str(error)) from error

        try:
            first, *others = facts.results(results, MOST_CASES)
        except (ShapeError, LimitError, KernelError, UndecidedError):
            return None
        return first if all(map(first.are_like, others)) else None

    def made(self, infos: Sequence[Info], facts: CaseAnalysis | None = None) -> tuple[Graph, Results]:
        """Return the graph for operands of which this is known, and what its results are. Raises ModelError.

        With `facts`, of which the sizes are expressions, nothing is assumed of them. Raises UndecidedError then if code
        asks what is not the same for all sizes.
        """
        importer, b = self.importer, self.importer.b
        graph, faults = Graph("torch"), Faults()
        with importer.elsewhere(graph, faults, facts):
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
    found = rest.certain_results(numbers) or _results_for_samples(rest, numbers, location)
    if found is None:
        return None
    rest.wanted.structure[:], rest.wanted.dtypes[:] = found.structure, found.dtypes
    made = add_deferred(b, rest.operands, DeferredNodes(rest.build, found.dtypes, sorted(numbers)))
    return [filled(held, made, "") for held in found.structure]


def _results_for_samples(rest: Rest, numbers: Collection[int], location: str) -> Results | None:
    """Return what the results are for the first sample sizes that fit; None, and record the faults, if none do."""
    importer = rest.importer
    faults: ModelError | None = None
    for infos in sample_infos(importer.b.graph, rest.operands, numbers):
        try:
            return rest.made(infos)[1]
        except ModelError as error:
            faults = faults or error
    assert faults is not None, "there are samples"
    for fault in faults.faults:
        importer.faults.add(location, fault)
    return None


def _with_symbols(facts: CaseAnalysis, info: Info, value: Value, is_number: bool) -> Info | None:
    """Return `info`, of `value`, with symbols of `facts` for elements that a run finds; None for fractions among them.

    None, too, for an unknown rank.
    """
    known = known_value(value)
    if info.shape is None or (is_number and known is None and (value.known_dtype.is_float or is_open(info.shape))):
        return None
    if known is None and not is_number:
        return Info(info.dtype, info.shape)
    elements = [None] * math.prod(info.shape) if known is None else known.reshape(-1).tolist()
    if not any(each is None or is_expression(each) for each in elements):
        return Info(info.dtype, info.shape, known)
    made = np.empty(len(elements), object)
    made[:] = [facts.unknown_integer() if each is None or is_expression(each) else each for each in elements]
    return Info(info.dtype, info.shape, made.reshape(info.shape))


def sample_infos(graph: Graph, values: Sequence[Value], numbers: Collection[int]) -> Iterator[list[Info]]:
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
