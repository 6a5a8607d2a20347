"""The sizes of open dimensions by which a model is compiled where no proof settles a decision."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from treadle.errors import ModelError, ShapeError
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import Guard, evaluate, is_assumed
from treadle.graph.open_dims import NOTHING, OpenDims
from treadle.graph.template import Template
from treadle.passes.lower.searches import FUNCTIONS
from treadle.passes.specialize import large_sample_size

_T = TypeVar("_T")

MOST_FITTED = 12
"""How often a model is tried with sizes that turn a decision."""

MOST_TURNED = 6
"""The decisions in front of a failure, the latest first, that are turned."""

FARTHEST = 2048
"""How far from the sample of a dimension a size that turns a decision is looked for."""

SMALLEST = 2
"""A dimension of 1 may be broadcast, so a plan for it may serve no other size."""


def with_sample_sizes(model: Graph | Template, make: Callable[[Mapping[str, int], Facts], _T]) -> _T:
    """Return what `make` makes with sample sizes that fit `model`: small ones, else large ones, else fitted ones.

    Sizes are fitted decision by decision: where `make` fails, a decision that it has just taken is turned, by another
    size of one dimension. So `length` is at most 77 for a table of 77 positions, and `total` is `past + length`.

    Args:
        model: A model with open dimensions.
        make: Takes sizes by name, and the facts in which it makes the symbols; the sizes of other dimensions are small
            samples.

    Raises:
        ModelError, ShapeError: No sizes that were tried fit the model; this is what `make` raised for small ones.
    """
    facts = Facts()
    try:
        return make({}, facts)
    except (ModelError, ShapeError) as error:
        try:
            return make(large_samples(model), Facts())
        except (ModelError, ShapeError):
            return _fitted(_dims_of(model), make, facts, error)


def large_samples(model: Graph | Template) -> dict[str, int]:
    """Return large sample sizes of the open dimensions of `model`, for models that small ones do not fit."""
    dims = _dims_of(model)
    declared = [dim for value in model.inputs for dim in value.shape or () if isinstance(dim, str)]
    names = dict.fromkeys((*dims.roots, *(dim for dim in declared if dim not in dims.derived)))
    return {name: dims.sample(name, large_sample_size(number)) for number, name in enumerate(names)}


def _dims_of(model: Graph | Template) -> OpenDims:
    return model.dims if isinstance(model, Template) else NOTHING


def _fitted(
    dims: OpenDims, make: Callable[[Mapping[str, int], Facts], _T], facts: Facts, error: ModelError | ShapeError
) -> _T:
    """Return what `make` makes with sizes that turn decisions of `facts`, with which it has raised `error`."""
    waiting = deque(_turned(dims, facts))
    tried: set[frozenset[tuple[str, int]]] = set()
    while waiting and len(tried) < MOST_FITTED:
        sizes = waiting.popleft()
        key = frozenset(sizes.items())
        if key in tried:
            continue
        tried.add(key)
        facts = Facts()
        try:
            return make(sizes, facts)
        except (ModelError, ShapeError):
            waiting.extendleft(reversed([*_turned(dims, facts)]))
    raise error


def _turned(dims: OpenDims, facts: Facts) -> Iterator[dict[str, int]]:
    """Yield the samples of `facts` with another size of one dimension, for which one of the last decisions differs."""
    samples = {name: symbol.hint for name, symbol in facts.symbols.items()}
    turned = (Guard(each.op, each.left, each.right, not each.holds) for each in reversed(facts.decisions))
    for guard in islice((each for each in turned if not each.pins), MOST_TURNED):
        for symbol in reversed(guard.symbols):
            name = str(symbol)
            size = _nearest(guard, name, samples, dims)
            if size is not None:
                yield {**samples, name: size}


def _nearest(guard: Guard, name: str, samples: Mapping[str, int], dims: OpenDims) -> int | None:
    """Return the size of `name` nearest to its sample, at least SMALLEST, for which `guard` holds; None without one."""
    for size in _candidates(guard, name, samples):
        if size < SMALLEST or dims.sample(name, size) != size:
            continue
        try:
            if is_assumed(guard, {**samples, name: size}, FUNCTIONS):
                return size
        except ZeroDivisionError:
            continue
    return None


def _candidates(guard: Guard, name: str, samples: Mapping[str, int]) -> Iterator[int]:
    """Yield sizes of `name`, the nearest to its sample first; the last is where a linear `guard.left` is 0."""
    sample = samples[name]
    for distance in range(1, FARTHEST + 1):
        yield from (sample - distance, sample + distance)
    if guard.op == "zero":
        here, beside = (evaluate(guard.left, {**samples, name: size}, FUNCTIONS) for size in (sample, sample + 1))
        if here != beside:
            yield sample + here // (here - beside)
