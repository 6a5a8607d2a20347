"""Cases of lstm, gru and rnn: batches that do and do not fill blocks of rows, hidden units that do and do not fill
vectors, one and two directions, with and
without first states and lengths."""

import numpy as np

from tests.ops.case import Case, floats
from treadle.dtypes import f32
from treadle.graph.expr import Expr, Step

_FORWARD, _BACKWARD, _BOTH = (False,), (True,), (False, True)


_RELU = Expr((f32,), (Step("relu", (0,), f32),), (1,))
_SOFT = Expr((f32,), (Step("tanh", (0,), f32), Step("tanh", (1,), f32)), (2,))
_CLIPPED = Expr(
    (f32,),
    (
        Step("const", (), f32, -0.5),
        Step("const", (), f32, 0.5),
        Step("clip", (0, 1, 2), f32),
        Step("sigmoid", (3,), f32),
    ),
    (4,),
)


def _weights(key: str, *shape: int, dtype: type = np.float32) -> np.ndarray:
    return (floats(key, *shape, dtype=dtype) / np.sqrt(shape[-1])).astype(dtype)


def _case(
    op: str,
    name: str,
    sizes: tuple[int, int, int],
    reverse: tuple[bool, ...],
    *,
    first: bool = False,
    bias: bool = False,
    dtype: type = np.float32,
    constant: bool = True,
    lengths: tuple[int, ...] | None = None,
    peepholes: bool = False,
    scales: bool = False,
    **attrs: object,
) -> Case:
    time, batch, hidden = sizes
    gates, directions = {"lstm": 4, "gru": 3, "rnn": 1}[op], len(reverse)
    key = f"{op}/{name}"
    state = (directions, batch, hidden)
    inputs: list[np.ndarray | None] = [
        floats(key, time, batch, directions, gates * hidden, dtype=dtype),
        _weights(key, directions, gates * hidden, hidden, dtype=dtype),
        floats(f"{key}/h", *state, dtype=dtype) if first else None,
    ]
    if op == "lstm":
        inputs.append(floats(f"{key}/c", *state, dtype=dtype) if first else None)
    if op == "gru":
        inputs.append(floats(f"{key}/b", directions, hidden, dtype=dtype) if bias else None)
    if lengths is not None or peepholes or scales:
        inputs.append(None if lengths is None else np.array(lengths, np.int32))
    if peepholes or scales:
        inputs.append(floats(f"{key}/p", directions, 3 * hidden, dtype=dtype) if peepholes else None)
    held = frozenset({1}) if constant else frozenset()
    if scales:
        inputs[1] = np.rint(floats(key, directions, gates * hidden, hidden) * 40).clip(-128, 127).astype(np.int8)
        inputs.append((np.abs(_weights(f"{key}/s", directions, gates * hidden)) + 0.1).astype(np.float32) / 100)
        held |= {6}
    return Case(key, op, {"reverse": reverse, **attrs}, tuple(inputs), held, outputs=3 if op == "lstm" else 2)


CASES = [
    _case("lstm", "one_row", (7, 1, 32), _FORWARD),
    _case("lstm", "both", (5, 3, 19), _BOTH, first=True),
    _case("lstm", "backward", (4, 8, 16), _BACKWARD),
    _case("lstm", "many_rows", (3, 17, 40), _BOTH),
    _case("lstm", "one_unit", (3, 2, 1), _FORWARD),
    _case("lstm", "no_time", (0, 2, 5), _FORWARD, first=True),
    _case("lstm", "doubles", (4, 3, 21), _BOTH, first=True, dtype=np.float64),
    _case("lstm", "computed_weights", (3, 2, 5), _FORWARD, constant=False),
    _case("lstm", "own_functions", (4, 3, 19), _BOTH, first=True, functions=(_CLIPPED, _RELU, _SOFT)),
    _case("gru", "own_functions", (4, 3, 19), _BOTH, reset_after=False, functions=(_CLIPPED, _RELU)),
    _case("gru", "own_functions_after", (4, 3, 19), _FORWARD, bias=True, reset_after=True, functions=(_SOFT, _RELU)),
    _case("rnn", "own_function", (4, 3, 19), _FORWARD, activation="tanh", functions=(_SOFT,)),
    _case("gru", "one_row", (7, 1, 32), _FORWARD, reset_after=True),
    _case("gru", "after", (5, 3, 19), _BOTH, first=True, bias=True, reset_after=True),
    _case("gru", "before", (5, 3, 19), _BOTH, first=True, reset_after=False),
    _case("gru", "before_biased", (4, 9, 33), _BACKWARD, bias=True, reset_after=False),
    _case("gru", "doubles", (4, 3, 21), _BOTH, bias=True, reset_after=True, dtype=np.float64),
    _case("lstm", "bytes_of_one_row", (5, 1, 37), _BOTH, scales=True),
    _case("lstm", "bytes", (4, 7, 21), _BACKWARD, lengths=(4, 0, 3, 1, 2, 2, 4), peepholes=True, scales=True),
    _case("lstm", "lengths", (5, 4, 19), _BOTH, first=True, lengths=(5, 0, 3, 1)),
    _case("lstm", "peepholes", (4, 3, 18), _BOTH, first=True, peepholes=True),
    _case("lstm", "peepholes_and_lengths", (4, 2, 7), _BACKWARD, lengths=(2, 4), peepholes=True),
    _case("gru", "lengths", (5, 3, 8), _BACKWARD, reset_after=False, lengths=(2, 5, 4)),
    _case("rnn", "lengths", (5, 9, 20), _FORWARD, activation="tanh", lengths=(5, 4, 3, 2, 1, 0, 5, 5, 1)),
    _case("rnn", "tanh", (5, 3, 19), _BOTH, first=True, activation="tanh"),
    _case("rnn", "relu", (4, 1, 40), _FORWARD, activation="relu"),
    _case("rnn", "sigmoid", (4, 7, 8), _BACKWARD, activation="sigmoid"),
]
