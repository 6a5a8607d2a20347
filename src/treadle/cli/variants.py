"""The variants of a plan's steps, with the sizes at which each is taken."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from treadle.graph.guard import evaluate
from treadle.passes.lower.searches import FUNCTIONS
from treadle.plan.call import Call, Variant
from treadle.plan.plan import Plan

_SIZES = tuple(1 << power for power in range(14))
"""The sizes of a dimension at which variants are compared."""


def is_taken(call: Call, sizes: Mapping[str, int]) -> bool:
    """Returns whether the step runs for these `sizes` of the open dimensions."""
    return call.variant is None or bool(evaluate(call.variant.taken, sizes, FUNCTIONS))


def variants_of(plan: Plan, samples: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns for each node with several variants the ranges of each open dimension that take the same one.

    The sizes of a dimension are powers of two, while the others have those of `samples`. `ranges` are (first size, last
    size, name of the variant).
    """
    found = []
    for node, calls in groupby(plan.calls, key=lambda call: call.node):
        variants = [call.variant for call in calls if call.variant is not None]
        if variants:
            dims = {dim: ranges(variants, samples, dim) for dim in samples}
            changing = {dim: each for dim, each in dims.items() if len(each) > 1}
            found.append({"node": node, "ranges": changing or dict(list(dims.items())[:1])})
    return found


def ranges(variants: list[Variant], samples: Mapping[str, int], dim: str) -> list[tuple[int, int, str]]:
    """Returns the ranges of sizes of `dim` that take the same one of `variants`."""
    taken = []
    for size in _SIZES:
        sizes = {**samples, dim: size}
        taken.append(next(each.name for each in variants if evaluate(each.taken, sizes, FUNCTIONS)))
    found = []
    for name, group in groupby(range(len(_SIZES)), key=lambda at: taken[at]):
        numbers = list(group)
        found.append((_SIZES[numbers[0]], _SIZES[numbers[-1]], name))
    return found
