"""lstm, gru and rnn written out, one number at a time, as the papers have them (Hochreiter 1997, Cho 2014)."""

from __future__ import annotations

from math import exp, tanh

import numpy as np

from tests.ops.case import Case

Array = np.ndarray


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def recurrent(case: Case) -> list[Array]:
    """All states, the last state, and for lstm the last cell."""
    x, r, first, *more = (None if array is None else array.astype(np.float64) for array in case.inputs)
    time, batch, directions, _ = x.shape
    hidden = r.shape[2]
    place = 3 if case.op == "rnn" else 4
    told = case.inputs[place] if len(case.inputs) > place else None
    lengths = [time] * batch if told is None else told.tolist()
    peepholes = np.zeros((directions, 3, hidden))
    if len(case.inputs) > 5:
        peepholes = case.inputs[5].reshape(peepholes.shape)
    states = np.zeros((time, directions, batch, hidden))
    last = np.zeros((directions, batch, hidden)) if first is None else first.copy()
    cell = np.zeros_like(last)
    if case.op == "lstm" and more[0] is not None:
        cell = more[0].copy()
    bias = more[0] if case.op == "gru" and more and more[0] is not None else np.zeros((directions, hidden))
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
                    reset = np.array([_sigmoid(sum(gate(1, unit, before))) for unit in range(hidden)])
                for unit in range(hidden):
                    if case.op == "lstm":
                        i, o, f, g = (sum(gate(n, unit, before)) for n in range(4))
                        old, (p_i, p_o, p_f) = cell[d, row, unit], peepholes[d, :, unit]
                        new = _sigmoid(f + p_f * old) * old + _sigmoid(i + p_i * old) * tanh(g)
                        cell[d, row, unit] = new
                        last[d, row, unit] = _sigmoid(o + p_o * new) * tanh(new)
                    elif case.op == "gru":
                        z = _sigmoid(sum(gate(0, unit, before)))
                        if case.attrs["reset_after"]:
                            own, product = gate(2, unit, before)
                            n = tanh(own + reset[unit] * (product + bias[d, unit]))
                        else:
                            n = tanh(sum(gate(2, unit, reset * before)) + bias[d, unit])
                        last[d, row, unit] = (1 - z) * n + z * before[unit]
                    else:
                        total = sum(gate(0, unit, before))
                        apply = {"tanh": tanh, "sigmoid": _sigmoid, "relu": lambda v: max(v, 0.0)}
                        last[d, row, unit] = apply[case.attrs["activation"]](total)
                states[t, d, row] = last[d, row]
    return [states, last, cell] if case.op == "lstm" else [states, last]
