"""From a rule to a function that users call: arguments become tensors, and the op goes into a graph or runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.compat.calls import Met
from treadle.compat.tensorflow import context, eager, recall
from treadle.compat.tensorflow.convert import array_of, constant_in, convert_to_tensor
from treadle.compat.tensorflow.dtypes import as_dtype
from treadle.compat.tensorflow.graph import Graph
from treadle.compat.tensorflow.op_types import name_of
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor, constant_value
from treadle.compat.tensorflow.tensor_like import TensorLike
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.parameters import Parameters
from treadle.graph.value import Value
from treadle.ops.op import Array

SPELLINGS = {
    "keep_dims": "keepdims", "reduction_indices": "axis", "dim": "axis", "dimension": "axis", "squeeze_dims": "axis",
    "filter": "filters", "value": "input", "stride": "strides", "seq_axis": "axis",
}  # fmt: skip
"""Names of parameters in TensorFlow 1, accepted where the op has the newer one."""

ALONE = {"concat": "values", "nn.embedding_lookup": "params"}
"""Parameters of several tensors that may be one, which is not a list of its rows."""

Part = tuple[str, int | None, Any]
"""A parameter, how many tensors it takes (None: it is an attribute, -1: a tensor that is absent), its value or what it is."""


class Op:
    """An op of the table: call it with tensors, arrays or numbers."""

    def __init__(self, name: str, rule: Callable[..., Any], note: str = "") -> None:
        self.name = name
        self.note = note
        self._rule = rule
        self._parameters = Parameters.of(rule)
        self._kinds, self._variadic = self._parameters.kinds, self._parameters.variadic
        self.__signature__ = self._parameters.signature
        self.__name__ = name
        self.__doc__ = rule.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result: a tensor, or a list of them. `name=` names the operation."""
        name = kwargs.pop("name", None)
        if context.current_graph() is not None:
            return self._apply(*self._planned(args, kwargs, name))
        arrays: list[Array] = []
        form = recall.form_of(self.name, args, kwargs, arrays)
        known = None if form is None else recall.CALLS.get(form)
        if type(known) is recall.Call and known.fits():
            return self._given(known.run(arrays), known.many)
        if form is not None and known is not None and known is not Met.NEVER:
            return self._given(*recall.learn(form, args, kwargs, arrays, self._executed))
        result = self._apply(*self._planned(args, kwargs, name))
        if form is not None and known is None:
            recall.CALLS.put(form, Met.ONCE)
        return result

    def _planned(
        self, args: Sequence[Any], kwargs: dict[str, Any], name: str | None
    ) -> tuple[tuple[Part, ...], list[tuple[str, Any]], str | None]:
        """What the parameters are, the tensors among them with what they are for, and the name of the operation."""
        for old, new in SPELLINGS.items() if kwargs else ():
            if old in kwargs and old not in self._kinds and new in self._kinds:
                kwargs[new] = kwargs.pop(old)
        if len(args) > len(self._kinds) and self._variadic is None and isinstance(args[-1], str):
            *args, name = args  # TensorFlow's last parameter is the name
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.__signature__}: {error}") from None
        bound.apply_defaults()
        single = ALONE.get(self.name)
        if single is not None and not isinstance(bound.arguments[single], (list, tuple)):
            bound.arguments[single] = [bound.arguments[single]]
        hint = self._hint(bound.arguments)
        tensors: list[Any] = []
        plan: list[Part] = []
        for parameter, value in bound.arguments.items():
            kind, several = self._kinds[parameter]
            if kind is None and _only_a_run_tells(value):
                plan.append((parameter, 1, "attribute"))
                tensors.append(("Shape", convert_to_tensor(value)))
            elif kind is None:
                plan.append((parameter, None, attribute(value, f"{self.name}({parameter}=)")))
            elif value is None:
                plan.append((parameter, -1, None))
            else:
                operands = list(value) if several or parameter == self._variadic else [value]
                plan.append((parameter, len(operands), None if several or parameter == self._variadic else "one"))
                wanted = hint if kind == "Same" else None
                tensors.extend((kind, convert_to_tensor(operand, dtype_hint=wanted)) for operand in operands)
        return tuple(plan), tensors, name

    def _executed(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, eager.Emit, eager.Operands]:
        """A call that is made eagerly, as eager.execute() takes it."""
        plan, tensors, _ = self._planned(args, kwargs, None)
        return self._executable(plan, tensors)

    def _executable(
        self, plan: tuple[Part, ...], tensors: list[tuple[str, Any]]
    ) -> tuple[Any, eager.Emit, eager.Operands]:
        operands = [(np.asarray(tensor), kind == "Shape") for kind, tensor in tensors]
        return (self.name, plan), self._emitter(plan), operands

    def _apply(self, plan: tuple[Part, ...], tensors: list[tuple[str, Any]], name: str | None) -> Any:
        symbolic = [tensor for _, tensor in tensors if isinstance(tensor, Tensor)]
        graph = context.current_graph()
        if graph is None and not symbolic:
            results, many = eager.execute(*self._executable(plan, tensors))
            return self._given(results, many)
        emit = self._emitter(plan)
        graph = symbolic[0].graph if graph is None else graph
        inputs = [t if isinstance(t, Tensor) else _in_graph(graph, t) for _, t in tensors]
        attrs = _attrs(plan, inputs)
        kind = self.name.rpartition(".")[2].lstrip("_")
        op = graph.create_op(kind, inputs, emit, name or name_of(self.name, kind), attrs=attrs)
        op.call = (self.name, plan)
        many = op.attrs.get("list", False) or len(op.outputs) > 1
        return self._formed(list(op.outputs)) if many or self.name in ("split", "unstack") else op.outputs[0]

    def _emitter(self, plan: tuple[Part, ...]) -> Callable[[Emitter, Sequence[Value]], Any]:
        def emit(e: Emitter, values: Sequence[Value]) -> Any:
            rest = iter(values)
            variadic: list[Value] = []
            given: dict[str, Any] = {}
            for parameter, count, value in plan:
                if count is None:
                    is_dtype = parameter in self._parameters.dtypes and value is not None
                    given[parameter] = as_dtype(value).core if is_dtype else value
                elif count < 0:
                    given[parameter] = None
                elif value == "one":
                    given[parameter] = next(rest)
                elif value == "attribute":
                    given[parameter] = e.static(next(rest)).tolist()
                elif parameter == self._variadic:
                    variadic = [next(rest) for _ in range(count)]
                else:
                    given[parameter] = [next(rest) for _ in range(count)]
            return self._parameters.call(self._rule, e, given, variadic)

        return emit

    def _hint(self, arguments: dict[str, Any]) -> Any:
        """The dtype that arrays and numbers among the operands take.

        That of the first tensor; without one, that of the first operand, or of a whole list of operands.
        """
        first: Any = None
        for parameter, value in arguments.items():
            kind, several = self._kinds[parameter]
            if kind == "Same" and value is not None:
                operands = value if several or parameter == self._variadic else [value]
                for operand in operands:
                    if isinstance(operand, TensorLike):
                        return operand.dtype  # type: ignore[attr-defined]
                first = value if first is None and len(operands) else first
        try:
            return None if first is None else array_of(first).dtype
        except (TypeError, ValueError):
            return None  # told where it is converted

    def _given(self, results: Sequence[Array], many: bool) -> Any:
        """Arrays as eager tensors: one, or `many` in the form in which TensorFlow returns them."""
        return self._formed(list(map(EagerTensor, results))) if many else EagerTensor(results[0])

    def _formed(self, results: list[Any]) -> Any:
        """Several results in the form in which TensorFlow returns them."""
        form = FORMS.get(self.name)
        return results if form is None else form(*results)


class TopKV2(NamedTuple):
    """What tf.math.top_k returns."""

    values: Any
    indices: Any


FORMS: dict[str, Callable[..., Any]] = {
    "nn.top_k": TopKV2,
    "nn.moments": lambda *both: both,
    "nn.fused_batch_norm": lambda *three: three,
}
"""Ops whose results are not a list."""


def _only_a_run_tells(value: Any) -> bool:
    """Whether a value of the graph stands where a Python value is expected."""
    if isinstance(value, (list, tuple)):
        return any(_only_a_run_tells(item) for item in value)
    return isinstance(value, Tensor) and constant_value(value) is None


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


def _attrs(plan: tuple[Part, ...], inputs: Sequence[Tensor]) -> dict[str, Any]:
    """The attributes of an operation; the tensor for one that a run tells."""
    found: dict[str, Any] = {}
    place = 0
    for parameter, count, value in plan:
        if count is None or value == "attribute":
            found[parameter] = value if count is None else inputs[place]
        place += max(0, count or 0)
    return found


def _in_graph(graph: Graph, tensor: EagerTensor) -> Tensor:
    return constant_in(graph, np.asarray(tensor))
