"""LSTM, GRU and RNN layers: in each, one matmul for the inputs of all times, then the steps.

Weights are PyTorch's: for each layer and direction w_ih [gates * hidden, width], w_hh [gates * hidden, hidden], and
with biases b_ih and b_hh [gates * hidden]. The core ops have another order of gates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.rule import Rule
from treadle.graph.value import Value

ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""For each gate of the core op, the number of PyTorch's gate."""


def recurrent(op: str, activation: str = "") -> Rule:
    """Returns the rule of a layer stack.

    It maps (x, first states, weights, ...) to all states, the last state, and for lstm the last cell.
    """

    def rule(
        b: Builder,
        x: Value,
        hx: Value | Sequence[Value],
        params: Sequence[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool = False,
    ) -> list[Value]:
        if train and dropout:
            raise Unsupported("it drops states between layers, as in training: call .eval() on the module")
        directions, each = 1 + bidirectional, 4 if has_biases else 2
        if len(params) != num_layers * directions * each:
            raise Unsupported("its states are projected (proj_size), which treadle has no kernel for")
        unbatched = b.rank(x) == 2
        if unbatched:
            x = b.reshape(x, [b.shape(x)[0], 1, b.shape(x)[1]])
        elif batch_first:
            x = b.transpose(x, (1, 0, 2))
        states = [hx] if isinstance(hx, Value) else list(hx)
        if unbatched:
            states = [b.reshape(state, [b.shape(state)[0], 1, b.shape(state)[1]]) for state in states]
        lasts: list[list[Value]] = [[] for _ in states]
        for layer in range(num_layers):
            begin = layer * directions
            weights = [params[(begin + d) * each : (begin + d + 1) * each] for d in range(directions)]
            first = [b.slice(state, 0, begin, begin + directions) for state in states]
            x, *last = _layer(b, op, activation, x, first, weights)
            for kept, state in zip(lasts, last, strict=True):
                kept.append(state)
        ends = [last[0] if len(last) == 1 else b.add("concat", *last, axis=0) for last in lasts]
        if unbatched:
            return [b.reshape(value, [b.shape(value)[0], b.shape(value)[2]]) for value in (x, *ends)]
        return [b.transpose(x, (1, 0, 2)) if batch_first else x, *ends]

    return rule


def cell(op: str, activation: str = "") -> Rule:
    """Returns the rule of one step.

    It maps (x [N, width] or [width], state [N, hidden] or both states) to the next state or states.
    """

    def rule(
        b: Builder, x: Value, hx: Value | Sequence[Value], w_ih: Value, w_hh: Value, *biases: Value | None
    ) -> Value | list[Value]:
        states = [hx] if isinstance(hx, Value) else list(hx)
        shape = b.shape(states[0])
        wide = b.reshape(x, [1, *([1] if b.rank(x) == 1 else []), *b.shape(x)])
        first = [b.reshape(state, [1, *([1] if len(shape) == 1 else []), *shape]) for state in states]
        given = [w_ih, w_hh, *(bias for bias in biases if bias is not None)]
        _, *last = _layer(b, op, activation, wide, first, [given])
        found = [b.reshape(state, shape) for state in last]
        return found if op == "lstm" else found[0]

    return rule


def _layer(
    b: Builder, op: str, activation: str, x: Value, first: Sequence[Value], weights: Sequence[Sequence[Value]]
) -> list[Value]:
    """Runs one layer over x [time, batch, width].

    Returns all states [time, batch, directions * hidden], then the last ones.
    """
    time, batch, _ = b.shape(x)
    hidden, directions, gates = b.shape(first[0])[2], len(weights), len(ORDERS[op])
    ordered = [[_ordered(b, op, value, hidden) for value in each] for each in weights]
    sums = b.matmul(x, _joined(b, [each[0] for each in ordered]), transpose_b=True)
    r = _joined(b, [b.reshape(each[1], [1, gates * hidden, hidden]) for each in ordered])
    operands: list[Value | None] = [r, *first]
    attrs: dict[str, object] = {"reverse": (False, True)[:directions]}
    if len(weights[0]) == 4:
        bias = [_bias(b, op, each[2], each[3], hidden) for each in ordered]
        sums = b.add("add", sums, _joined(b, bias))
        if op == "gru":
            last = [b.reshape(b.slice(each[3], 0, 2 * hidden, 3 * hidden), [1, hidden]) for each in ordered]
            operands.append(_joined(b, last))
    if op == "gru":
        attrs["reset_after"] = True
    if op == "rnn":
        attrs["activation"] = activation
    sums = b.reshape(sums, [time, batch, directions, gates * hidden])
    states, *last_states = b.add_many(op, [sums, *operands], 1 + len(first), **attrs)
    wide = b.reshape(b.transpose(states, (0, 2, 1, 3)), [time, batch, directions * hidden])
    return [wide, *last_states]


def _bias(b: Builder, op: str, of_input: Value, of_state: Value, hidden: int) -> Value:
    """Returns the bias that is added at once; gru's hidden gate scales its part of b_hh, which is separate."""
    if op == "gru":
        added = b.slice(of_state, 0, 0, 2 * hidden)
        of_state = b.add("concat", added, b.full(0, of_state.known_dtype, (hidden,)), axis=0)
    return b.add("add", of_input, of_state)


def _ordered(b: Builder, op: str, value: Value, hidden: int) -> Value:
    """Returns `value` [gates * hidden, ...] with the gates in the order of the core op."""
    order = ORDERS[op]
    if order == tuple(range(len(order))):
        return value
    if value.data is not None:
        parts = np.split(value.data, len(order))
        return b.constant(np.concatenate([parts[gate] for gate in order]))
    return b.add("concat", *(b.slice(value, 0, gate * hidden, (gate + 1) * hidden) for gate in order), axis=0)


def _joined(b: Builder, parts: Sequence[Value]) -> Value:
    return parts[0] if len(parts) == 1 else b.add("concat", *parts, axis=0)
