"""The activation functions of LSTM, GRU and RNN as scalar programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.expr import Expr, Step

_PARAMETERS: dict[str, tuple[float | None, ...]] = {
    "affine": (None, None),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "relu": (),
    "scaledtanh": (None, None),
    "sigmoid": (),
    "softplus": (),
    "softsign": (),
    "tanh": (),
    "thresholdedrelu": (1.0,),
}
"""Function -> the defaults of its alpha and beta; None for one without a default."""


def functions_of(node: OnnxNode, defaults: Sequence[str], directions: int) -> tuple[Expr, ...] | None:
    """The functions of the node in the order of the operator; None if they are `defaults`, and nothing is clipped.

    `clip` limits the operands of the functions of gates, not that of the function of the finished cell. Raises
    Unsupported for directions with different functions, and where the result is not f32 or f64.
    """
    given = node.texts("activations")
    names = [name.lower() for name in given or tuple(defaults) * directions]
    if len(names) != len(defaults) * directions:
        raise Fault(f"attribute 'activations' must have {len(defaults) * directions} names, got {len(names)}")
    clip = node.number("clip", np.inf) if node.has("clip") else np.inf
    parameters = _parameters(node, names)
    if not clip > 0:
        raise Fault(f"attribute 'clip' must be above 0, got {clip}")
    if names == [name.lower() for name in defaults] * directions and clip == np.inf:
        return None
    each = len(defaults)
    first = list(zip(names[:each], parameters[:each], strict=True))
    if directions == 2 and first != list(zip(names[each:], parameters[each:], strict=True)):
        raise Unsupported("its directions must have the same activations")
    dtype = node.dtype()
    if dtype not in (dtypes.f32, dtypes.f64):
        raise Unsupported(
            f"activations other than {', '.join(defaults)} and clip need numbers of f32 or f64, got {dtype}"
        )
    limits = [clip if number < 2 else np.inf for number in range(each)]
    return tuple(
        _Program(dtype).function(name, given, limit) for (name, given), limit in zip(first, limits, strict=True)
    )


def _parameters(node: OnnxNode, names: Sequence[str]) -> list[tuple[float, ...]]:
    """Alpha and beta of each function: those stated, in order, then the defaults."""
    stated: list[list[float]] = []
    for attribute in ("activation_alpha", "activation_beta"):
        numbers = node.floats(attribute)
        stated.append([] if numbers is None else numbers.tolist())
    found: list[tuple[float, ...]] = []
    for name in names:
        if name not in _PARAMETERS:
            raise Fault(f"attribute 'activations' names {name!r}; wanted one of {', '.join(sorted(_PARAMETERS))}")
        values = []
        for label, own, default in zip(("alpha", "beta"), stated, _PARAMETERS[name], strict=False):
            value = own.pop(0) if own else default
            if value is None:
                raise Fault(f"activation {name} needs attribute 'activation_{label}'")
            values.append(float(value))
        found.append(tuple(values))
    return found


class _Program:
    """A scalar program of one operand, being built."""

    def __init__(self, dtype: DType) -> None:
        self._dtype = dtype
        self._steps: list[Step] = []

    def _add(self, op: str, *args: int, dtype: DType | None = None) -> int:
        self._steps.append(Step(op, args, dtype or self._dtype))
        return len(self._steps)

    def _number(self, value: float) -> int:
        self._steps.append(Step("const", (), self._dtype, value))
        return len(self._steps)

    def function(self, name: str, parameters: Sequence[float], clip: float) -> Expr:
        """The function `name` of an operand that is clipped to [-clip, clip]."""
        x = 0 if clip == np.inf else self._add("clip", 0, self._number(-clip), self._number(clip))
        numbers = [self._number(value) for value in parameters]
        result = self._applied(name, x, numbers)
        return Expr((self._dtype,), tuple(self._steps), (result,))

    def _applied(self, name: str, x: int, numbers: Sequence[int]) -> int:
        if name in ("relu", "sigmoid", "softplus", "tanh"):
            return self._add(name, x)
        if name == "softsign":
            return self._add("div", x, self._add("add", self._number(1.0), self._add("abs", x)))
        if name == "scaledtanh":
            return self._add("mul", numbers[0], self._add("tanh", self._add("mul", numbers[1], x)))
        if name in ("affine", "hardsigmoid"):
            line = self._add("add", self._add("mul", numbers[0], x), numbers[1])
            return line if name == "affine" else self._add("clip", line, self._number(0.0), self._number(1.0))
        nought = self._number(0.0)
        if name == "thresholdedrelu":
            return self._add("where", self._add("lt", x, numbers[0], dtype=dtypes.boolean), nought, x)
        below = self._add("mul", numbers[0], x if name == "leakyrelu" else self._add("expm1", x))
        return self._add("where", self._add("lt", x, nought, dtype=dtypes.boolean), below, x)
