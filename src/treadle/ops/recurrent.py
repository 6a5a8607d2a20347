"""lstm, gru and rnn: the part of recurrent layers that steps through time.

x [time, batch, directions, gates * hidden] holds the gates' sums of inputs and biases already, a matmul for all
times at once. Each direction adds h @ r.T of the time before it, r [directions, gates * hidden, hidden]. The order of
gates is ONNX's: input, output, forget, cell for lstm; update, reset, hidden for gru.

Rows of a batch may have lengths, integers in [0, time]: a row's states after its length are 0, its last state is that
at its end, and a direction that goes backwards begins there.

r of an lstm may be whole numbers of i8: scales [directions, gates * hidden] then say what 1 is in each of its rows.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from treadle.dtypes import i8
from treadle.errors import ShapeError
from treadle.graph.expr import Expr
from treadle.graph.shape import StaticShape, text
from treadle.ops.elementwise import check_expr, evaluate_expr
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import (
    absent_or,
    dims,
    need_float,
    need_integer,
    operand,
    optional,
    present,
    result,
    same_dtype,
    widened,
)

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
"""Activations of an rnn."""

FUNCTIONS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh")}
"""What activates gates, the candidate, and a finished cell, unless the attribute `functions` has scalar programs for
all of them; an rnn has one function."""


def _functions(attrs: Attrs, *defaults: str) -> list[Callable[[Array], Array]]:
    own = attrs.get("functions")
    if own is None:
        return [ACTIVATIONS[name] for name in defaults]
    return [partial(_applied, expr) for expr in own]


def _applied(expr: Expr, x: Array) -> Array:
    return evaluate_expr(expr, [x.astype(expr.operands[0].numpy)])[0]


def infer_lstm(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """inputs: x, r, h (first state), c (first cell), lengths [batch], peepholes [directions, 3 * hidden] of the input,
    output and forget gate, scales of r; the last five may be None. attrs: reverse, a bool for each direction.

    Outputs: all states [time, directions, batch, hidden], last state and last cell [directions, batch, hidden].
    """
    found = _infer(attrs, _as_floats(inputs), 4, {2: "h", 3: "c"}, 4)
    directions, _, hidden = dims(found[1])
    _need_weights(inputs, 5, "peepholes", (directions, 3 * hidden))
    _need_weights(inputs, 6, "scales", (directions, 4 * hidden))
    return found[:n_outputs]


def infer_gru(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """inputs: x, r, h (first state), bias [directions, hidden], lengths [batch]; the last three may be None.

    attrs: reverse; reset_after: the reset gate scales h @ r.T + bias (the hidden gate's), not h. Outputs: all
    states, last state.
    """
    found = _infer(attrs, inputs, 3, {2: "h"}, 4)[:2]
    directions, _, hidden = dims(found[1])
    _need_weights(inputs, 3, "bias", (directions, hidden))
    return found[:n_outputs]


def infer_rnn(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """inputs: x, r, h (first state) or None, lengths or None. attrs: reverse; activation, one of ACTIVATIONS.

    Outputs: all states, last state.
    """
    if attrs["activation"] not in ACTIVATIONS:
        raise ShapeError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {attrs['activation']!r}")
    return _infer(attrs, inputs, 1, {2: "h"}, 3)[:2][:n_outputs]


def _as_floats(inputs: Sequence[Info | None]) -> Sequence[Info | None]:
    """The inputs of an lstm, r as the floats that it stands for if it has scales."""
    if optional(inputs, 6) is None:
        return inputs
    x, r = operand(inputs, 0, "x"), operand(inputs, 1, "r")
    if r.dtype != i8:
        raise ShapeError(f"r with scales must be i8, got {r.dtype}")
    return [x, result(x.dtype, dims(r)), *inputs[2:]]


def _infer(attrs: Attrs, inputs: Sequence[Info | None], gates: int, states: dict[int, str], lengths: int) -> list[Info]:
    x, r = operand(inputs, 0, "x"), operand(inputs, 1, "r")
    for expr in attrs.get("functions", ()):
        if expr.operands != (x.dtype,) or list(check_expr(expr)) != [x.dtype]:
            raise ShapeError(f"each of functions must take and give one {x.dtype}")
    named = [(name, optional(inputs, index)) for index, name in states.items()]
    dtype = same_dtype(("x", x), ("r", r), *named)
    need_float(x, "x")
    if len(dims(x)) != 4 or len(dims(r)) != 3:
        raise ShapeError(f"x must have rank 4 and r rank 3, got {text(dims(x))} and {text(dims(r))}")
    (time, batch, directions, wide), hidden = dims(x), dims(r)[2]
    if dims(r) != (directions, gates * hidden, hidden) or wide != gates * hidden:
        raise ShapeError(
            f"x [time, batch, directions, {gates} * hidden] is {text(dims(x))}, "
            f"but r [directions, {gates} * hidden, hidden] is {text(dims(r))}"
        )
    if len(attrs["reverse"]) != directions:
        raise ShapeError(f"reverse must tell of {directions} directions, got {attrs['reverse']}")
    state: StaticShape = (directions, batch, hidden)
    for name, info in named:
        if info is not None and dims(info) != state:
            raise ShapeError(f"{name} must be {text(state)}, got {text(dims(info))}")
    told = optional(inputs, lengths)
    if told is not None:
        need_integer(told, "lengths")
        if dims(told) != (batch,):
            raise ShapeError(f"lengths must be {text((batch,))}, got {text(dims(told))}")
    return [result(dtype, (time, *state)), result(dtype, state), result(dtype, state)]


def _need_weights(inputs: Sequence[Info | None], index: int, name: str, shape: StaticShape) -> None:
    found = optional(inputs, index)
    same_dtype(("x", inputs[0]), (name, found))
    if found is not None and dims(found) != shape:
        raise ShapeError(f"{name} must be {text(shape)}, got {text(dims(found))}")


def evaluate_lstm(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """c = sigmoid(f) * c + sigmoid(i) * tanh(g); h = sigmoid(o) * tanh(c).

    Peepholes add p * c of the time before to i and f, and of this time to o.
    """
    peepholes, scales = absent_or(arrays, 5), absent_or(arrays, 6)
    if scales is not None:
        steps = present(arrays, 1).astype(np.float64) * scales[:, :, np.newaxis]
        arrays = [arrays[0], steps, *arrays[2:]]
    functions = _functions(attrs, *FUNCTIONS["lstm"])

    def step(sums: Array, recurrent: Array, state: list[Array], direction: int) -> list[Array]:
        before, hidden = state[1], state[1].shape[-1]
        zeros = np.zeros(3 * hidden)
        p_i, p_o, p_f = np.split(zeros if peepholes is None else widened(peepholes)[direction], 3)
        gate, candidate, finish = functions
        i, o, f, g = np.split(sums + state[0] @ recurrent.T, 4, axis=-1)
        cell = gate(f + p_f * before) * before + gate(i + p_i * before) * candidate(g)
        return [gate(o + p_o * cell) * finish(cell), cell]

    return _run(attrs, arrays, (2, 3), 4, step)


def evaluate_gru(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """h = (1 - z) * n + z * h, n = tanh(x + r * (h @ rn.T + bias)), or tanh(x + (r * h) @ rn.T + bias)."""
    bias = absent_or(arrays, 3)
    gate, candidate = _functions(attrs, *FUNCTIONS["gru"])

    def step(sums: Array, recurrent: Array, state: list[Array], direction: int) -> list[Array]:
        (h,), hidden = state, state[0].shape[-1]
        added = 0 if bias is None else widened(bias)[direction]
        gates = gate(sums[:, : 2 * hidden] + h @ recurrent[: 2 * hidden].T)
        z, r = np.split(gates, 2, axis=-1)
        last = recurrent[2 * hidden :].T
        inner = r * (h @ last + added) if attrs["reset_after"] else (r * h) @ last + added
        n = candidate(sums[:, 2 * hidden :] + inner)
        return [(1 - z) * n + z * h]

    return _run(attrs, arrays, (2,), 4, step)


def evaluate_rnn(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """h = activation(x + h @ r.T)."""

    (function,) = _functions(attrs, attrs["activation"])

    def step(sums: Array, recurrent: Array, state: list[Array], direction: int) -> list[Array]:
        return [function(sums + state[0] @ recurrent.T)]

    return _run(attrs, arrays, (2,), 3, step)


_Step = Callable[[Array, Array, list[Array], int], list[Array]]


def _run(
    attrs: Attrs, arrays: Sequence[Array | None], states: tuple[int, ...], lengths: int, step: _Step
) -> list[Array]:
    x, r = present(arrays, 0), present(arrays, 1)
    time, batch, directions, _ = x.shape
    shape = (directions, batch, r.shape[2])
    told = absent_or(arrays, lengths)
    ends = np.full(batch, time) if told is None else told.astype(np.int64)
    if np.any((ends < 0) | (ends > time)):
        raise IndexError(f"lengths must be from 0 to {time}, got {ends.tolist()}")
    firsts = [absent_or(arrays, index) for index in states]
    lasts = [np.zeros(shape, x.dtype) if first is None else first.copy() for first in firsts]
    every = np.zeros((time, *shape), x.dtype)
    with np.errstate(all="ignore"):
        for direction, backwards in enumerate(attrs["reverse"]):
            state = [widened(last[direction]) for last in lasts]
            for turn in range(time):
                rows = np.flatnonzero(turn < ends)
                moments = ends[rows] - 1 - turn if backwards else np.full(len(rows), turn)
                before = [value[rows] for value in state]
                sums = widened(x[moments, rows, direction])
                for value, found in zip(state, step(sums, widened(r[direction]), before, direction), strict=True):
                    value[rows] = found
                every[moments, direction, rows] = state[0][rows]
            for last, value in zip(lasts, state, strict=True):
                last[direction] = value
    return [every, *lasts]
