"""The variants of a plan's steps, with the sizes at which each is taken."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from treadle.compiled_plans import Open
from treadle.graph.guard import evaluate
from treadle.passes.lower.searches import FUNCTIONS
from treadle.plan.call import Call, Variant

_SIZES = tuple(1 << power for power in range(14))
"""The sizes of a dimension at which variants are compared."""


def is_taken(call: Call, sizes: Mapping[str, int]) -> bool:
    """Returns whether the step runs for these `sizes` of the open dimensions."""
    return call.variant is None or bool(evaluate(call.variant.taken, sizes, FUNCTIONS))


def variants_of(plan: Open) -> list[dict[str, Any]]:
    """Returns for each node with several variants the ranges of each open dimension that take the same one.

    The sizes of a dimension are the powers of two that the plan serves, while the others have those of its samples.
    `ranges` are (first size, last size, name of the variant).
    """
    found = []
    for node, calls in groupby(plan.plan.calls, key=lambda call: call.node):
        variants = [call.variant for call in calls if call.variant is not None]
        if variants:
            dims = {dim: ranges(plan, variants, dim) for dim in plan.samples}
            changing = {dim: each for dim, each in dims.items() if len(each) > 1}
            found.append({"node": node, "ranges": changing or dict(list(dims.items())[:1])})
    return found


def ranges(plan: Open, variants: list[Variant], dim: str) -> list[tuple[int, int, str]]:
    """Returns the ranges of sizes of `dim` that take the same one of `variants`."""
    taken = []
    for size in _SIZES:
        sizes = {**plan.samples, dim: size}
        if plan.serves(sizes):
            taken.append((size, next(each.name for each in variants if evaluate(each.taken, sizes, FUNCTIONS))))
    found = []
    for name, group in groupby(taken, key=lambda each: each[1]):
        numbers = [size for size, _ in group]
        found.append((numbers[0], numbers[-1], name))
    return found
