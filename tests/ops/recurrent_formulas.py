"""lstm, gru and rnn written out, one number at a time, as the papers have them (Hochreiter 1997, Cho 2014)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, tanh

import numpy as np

from tests.ops.case import Case
from treadle.graph.expr import Expr

Array = np.ndarray


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


_SCALARS: dict[str, Callable[..., float]] = {
    "clip": lambda x, low, high: min(max(x, low), high),
    "relu": lambda x: max(x, 0.0),
    "sigmoid": _sigmoid,
    "tanh": tanh,
}


def _functions(case: Case) -> list[Callable[[float], float]]:
    """What activates gates, candidates and finished cells."""
    own = case.attrs.get("functions")
    if own is None:
        return [_SCALARS[case.attrs["activation"]]] if case.op == "rnn" else [_sigmoid, tanh, tanh]
    return [partial(_applied, expr) for expr in own]


def _applied(expr: Expr, x: float) -> float:
    values = [x]
    for step in expr.steps:
        arguments = (values[number] for number in step.args)
        values.append(float(step.value or 0.0) if step.op == "const" else _SCALARS[step.op](*arguments))
    return values[expr.results[0]]


def recurrent(case: Case) -> list[Array]:
    """All states, the last state, and for lstm the last cell."""
    x, r, first, *more = (None if array is None else array.astype(np.float64) for array in case.inputs)
    time, batch, directions, _ = x.shape
    hidden = r.shape[2]
    place = 3 if case.op == "rnn" else 4
    told = case.inputs[place] if len(case.inputs) > place else None
    lengths = [time] * batch if told is None else told.tolist()
    peepholes = np.zeros((directions, 3, hidden))
    if len(case.inputs) > 5 and case.inputs[5] is not None:
        peepholes = case.inputs[5].reshape(peepholes.shape)
    if len(case.inputs) > 6:
        r = r * case.inputs[6][:, :, None]
    states = np.zeros((time, directions, batch, hidden))
    last = np.zeros((directions, batch, hidden)) if first is None else first.copy()
    cell = np.zeros_like(last)
    if case.op == "lstm" and more[0] is not None:
        cell = more[0].copy()
    bias = more[0] if case.op == "gru" and more and more[0] is not None else np.zeros((directions, hidden))
    activate, candidate, finish = (_functions(case) * 3)[:3]
    for d, backwards in enumerate(case.attrs["reverse"]):
        for row in range(batch):
            for t in range(lengths[row])[:: -1 if backwards else 1]:
                before = last[d, row].copy()

                def gate(
                    n: int, unit: int, source: Array, d: int = d, t: int = t, row: int = row
                ) -> tuple[float, float]:
                    at = n * hidden + unit
                    return x[t, row, d, at], sum(r[d, at, j] * source[j] for j in range(hidden))

                if case.op == "gru":
                    reset = np.array([activate(sum(gate(1, unit, before))) for unit in range(hidden)])
                for unit in range(hidden):
                    if case.op == "lstm":
                        i, o, f, g = (sum(gate(n, unit, before)) for n in range(4))
                        old, (p_i, p_o, p_f) = cell[d, row, unit], peepholes[d, :, unit]
                        new = activate(f + p_f * old) * old + activate(i + p_i * old) * candidate(g)
                        cell[d, row, unit] = new
                        last[d, row, unit] = activate(o + p_o * new) * finish(new)
                    elif case.op == "gru":
                        z = activate(sum(gate(0, unit, before)))
                        if case.attrs["reset_after"]:
                            own, product = gate(2, unit, before)
                            n = candidate(own + reset[unit] * (product + bias[d, unit]))
                        else:
                            n = candidate(sum(gate(2, unit, reset * before)) + bias[d, unit])
                        last[d, row, unit] = (1 - z) * n + z * before[unit]
                    else:
                        last[d, row, unit] = activate(sum(gate(0, unit, before)))
                states[t, d, row] = last[d, row]
    return [states, last, cell] if case.op == "lstm" else [states, last]
