"""From a rule to a function that users call: arguments become tensors, and the op goes into a graph or runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.compat.tensorflow import context, eager
from weft.compat.tensorflow.convert import constant_value, convert_to_tensor
from weft.compat.tensorflow.dtypes import as_dtype
from weft.compat.tensorflow.graph import Graph
from weft.compat.tensorflow.shape import TensorShape
from weft.compat.tensorflow.tensor import EagerTensor, Tensor, TensorLike
from weft.frontends.tensorflow.emitter import Emitter
from weft.frontends.tensorflow.parameters import Parameters
from weft.graph.value import Value

SPELLINGS = {"keep_dims": "keepdims", "reduction_indices": "axis", "dim": "axis", "filter": "filters", "value": "input"}
"""Names of parameters in TensorFlow 1, accepted where the op has the newer one."""

Part = tuple[str, int | None, Any]
"""A parameter, how many tensors it takes (None: it is an attribute, -1: a tensor that is absent), its value."""


class Op:
    """An op of the table: call it with tensors, arrays or numbers."""

    def __init__(self, name: str, rule: Callable[..., Any], note: str = "") -> None:
        self.name = name
        self.note = note
        self._rule = rule
        self._parameters = Parameters.of(rule)
        self._kinds, self._spread = self._parameters.kinds, self._parameters.spread
        self.__signature__ = self._parameters.signature
        self.__name__ = name
        self.__doc__ = rule.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result: a tensor, or a list of them. `name=` names the operation."""
        name = kwargs.pop("name", None)
        for old, new in SPELLINGS.items():
            if old in kwargs and old not in self._kinds and new in self._kinds:
                kwargs[new] = kwargs.pop(old)
        if len(args) > len(self._kinds) and self._spread is None and isinstance(args[-1], str):
            *args, name = args  # type: ignore[assignment]  # TensorFlow's last parameter is the name
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.__signature__}: {error}") from None
        bound.apply_defaults()
        hint = self._hint(bound.arguments)
        tensors: list[Any] = []
        plan: list[Part] = []
        for parameter, value in bound.arguments.items():
            kind, several = self._kinds[parameter]
            if kind is None:
                plan.append((parameter, None, attribute(value, f"{self.name}({parameter}=)")))
            elif value is None:
                plan.append((parameter, -1, None))
            else:
                operands = list(value) if several or parameter == self._spread else [value]
                plan.append((parameter, len(operands), None if several or parameter == self._spread else "one"))
                wanted = hint if kind == "Same" else None
                tensors.extend((kind, convert_to_tensor(operand, dtype_hint=wanted)) for operand in operands)
        return self._apply(tuple(plan), tensors, name)

    def _apply(self, plan: tuple[Part, ...], tensors: list[tuple[str, Any]], name: str | None) -> Any:
        symbolic = [tensor for _, tensor in tensors if isinstance(tensor, Tensor)]
        graph = context.current_graph()
        emit = self._emitter(plan)
        if graph is None and not symbolic:
            arrays = [(np.asarray(tensor), kind == "Shape") for kind, tensor in tensors]
            results = eager.execute((self.name, plan), emit, arrays)
            many = isinstance(results, list)
            return [EagerTensor(array) for array in results] if many else EagerTensor(results)
        graph = symbolic[0].graph if graph is None else graph
        inputs = [t if isinstance(t, Tensor) else _in_graph(graph, t) for _, t in tensors]
        op = graph.create_op(self.name.rpartition(".")[2].lstrip("_"), inputs, emit, name, attrs=dict(_attrs(plan)))
        op.call = (self.name, plan)
        many = op.attrs.get("list", False) or len(op.outputs) > 1
        return list(op.outputs) if many or self.name in ("split", "unstack") else op.outputs[0]

    def _emitter(self, plan: tuple[Part, ...]) -> Callable[[Emitter, Sequence[Value]], Any]:
        def emit(e: Emitter, values: Sequence[Value]) -> Any:
            rest = iter(values)
            spread: list[Value] = []
            given: dict[str, Any] = {}
            for parameter, count, value in plan:
                if count is None:
                    is_dtype = parameter in self._parameters.dtypes and value is not None
                    given[parameter] = as_dtype(value).core if is_dtype else value
                elif count < 0:
                    given[parameter] = None
                elif value == "one":
                    given[parameter] = next(rest)
                elif parameter == self._spread:
                    spread = [next(rest) for _ in range(count)]
                else:
                    given[parameter] = [next(rest) for _ in range(count)]
            return self._parameters.call(self._rule, e, given, spread)

        return emit

    def _hint(self, arguments: dict[str, Any]) -> Any:
        """The dtype that numbers among the operands take: that of the first operand which has one."""
        for parameter, value in arguments.items():
            kind, several = self._kinds[parameter]
            if kind == "Same" and value is not None:
                for operand in value if several or parameter == self._spread else [value]:
                    if isinstance(operand, (TensorLike, np.ndarray, np.generic)):
                        return operand.dtype  # type: ignore[union-attr]
        return None


def attribute(value: Any, where: str) -> Any:
    """An attribute as plain Python data that can be compared. Raises TypeError for what only a run can tell."""
    if isinstance(value, TensorLike):
        known = constant_value(value)
        if known is None:
            raise TypeError(f"{where}: wanted a value known while the graph is built, got {value!r}")
        return attribute(known, where)
    if isinstance(value, np.ndarray):
        return attribute(value.tolist(), where)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, TensorShape):
        return tuple(value.as_list())
    if isinstance(value, (list, tuple)):
        return tuple(attribute(item, where) for item in value)
    return value


def _attrs(plan: tuple[Part, ...]) -> dict[str, Any]:
    return {parameter: value for parameter, count, value in plan if count is None}


def _in_graph(graph: Graph, tensor: EagerTensor) -> Tensor:
    from weft.compat.tensorflow.convert import constant_in

    return constant_in(graph, np.asarray(tensor))
