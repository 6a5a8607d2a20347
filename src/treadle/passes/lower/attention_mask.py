"""Which epilogues of scores may hide keys from queries: a mask is added, or picks between scores and a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from treadle.graph.expr import Expr, Step

_MOST = 1024.0
"""Scores are scaled by no more than this, so that none is as far from 0 as what is hidden."""

_HIDING = ("add", "sub", "where")

_Value = Literal["free", "score", "other"]
"""What does not depend on the product of query and key; the product, scaled, capped, shifted or hidden; or any other
value."""


def can_hide(epilogue: Expr | None) -> bool:
    """Whether operands of `epilogue` may hide keys, and all that it does to other scores is scale, cap or shift them.

    The kernel finds what is hidden from the epilogue of 0, which says nothing of other functions of the score.
    """
    if epilogue is None or len(epilogue.operands) == 1 or any(step.op == "given" for step in epilogue.steps):
        return False
    values: list[_Value] = ["score" if number == 0 else "free" for number in range(len(epilogue.operands))]
    for step in epilogue.steps:
        factors = [_factor(epilogue, arg) for arg in step.args]
        values.append(_value_of(step, [values[arg] for arg in step.args], factors))
    (result,) = epilogue.results
    return values[result] == "score" and any(step.op in _HIDING for step in epilogue.steps)


def _factor(epilogue: Expr, number: int) -> float:
    """The size of the value `number` if it is constant, else 0."""
    if number < len(epilogue.operands):
        return 0.0
    step = epilogue.steps[number - len(epilogue.operands)]
    return abs(float(step.value)) if step.op == "const" and step.value is not None else 0.0


def _value_of(step: Step, args: Sequence[_Value], factors: Sequence[float]) -> _Value:
    if all(arg == "free" for arg in args):
        return "free"
    if step.op == "where":
        return "score" if args[0] == "free" and "other" not in args else "other"
    if step.op == "tanh":  # it brings scores nearer to 0
        return args[0]
    if sorted(args) != ["free", "score"]:
        return "other"
    shifts = step.op in ("add", "sub")
    shrinks = step.op == "div" and args[0] == "score" and factors[1] * _MOST >= 1
    scales = step.op == "mul" and 0 < max(factors) <= _MOST
    return "score" if shifts or shrinks or scales else "other"
