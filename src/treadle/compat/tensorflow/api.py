"""Ops as users call them: arguments become tensors, and the op is added to a graph or runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, NamedTuple

import numpy as np

from treadle.compat.calls import Uncached
from treadle.compat.tensorflow import context, eager, replay_cache
from treadle.compat.tensorflow.convert import array_of, constant_in, convert_to_tensor
from treadle.compat.tensorflow.dtypes import as_dtype
from treadle.compat.tensorflow.errors import InvalidArgumentError
from treadle.compat.tensorflow.graph import Graph
from treadle.compat.tensorflow.op_types import name_of
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor, constant_value
from treadle.compat.tensorflow.tensor_like import TensorLike
from treadle.dtypes import DType, string
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.parameters import Parameters
from treadle.frontends.tensorflow.table import Rule
from treadle.graph.value import Value
from treadle.ops.op import Array

SPELLINGS = {
    "keep_dims": "keepdims", "reduction_indices": "axis", "dim": "axis", "dimension": "axis", "squeeze_dims": "axis",
    "filter": "filters", "value": "input", "stride": "strides", "seq_axis": "axis",
}  # fmt: skip
"""TensorFlow 1's names of parameters, accepted where the op has the newer one."""

SINGLE_OR_LIST = {"concat": "values", "nn.embedding_lookup": "params"}
"""Parameters that take a list of tensors, where a single tensor is not a list of its rows."""

Argument = tuple[str, int | None, Any]
"""A parameter; its number of tensors (None: an attribute, -1: absent); its value, or how its tensors are passed."""


class Op:
    """An op of the table: call it with tensors, arrays or numbers."""

    def __init__(self, rule: Rule) -> None:
        self.name = rule.name
        self.note = rule.note
        self._rule = rule
        self._parameters = Parameters.of(rule.function)
        self._kinds, self._variadic = self._parameters.kinds, self._parameters.variadic
        self.__signature__ = self._parameters.signature
        self.__name__ = rule.name
        self.__doc__ = _documentation(rule.name, rule.function.__doc__, rule.note)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result, a tensor or a list of tensors. `name=` names the operation."""
        name = kwargs.pop("name", None)
        if context.current_graph() is not None:
            return self._execute(*self._bind(args, kwargs, name))
        arrays: list[Array] = []
        signature = replay_cache.signature_of(self.name, args, kwargs, arrays)
        cached = None if signature is None else replay_cache.CACHE.get(signature)
        if type(cached) is replay_cache.CachedCall and cached.fits():
            return self._eager_results(cached.run(arrays), cached.many)
        if signature is not None and cached is not None and cached is not Uncached.NEVER:
            return self._eager_results(*replay_cache.call_and_cache(signature, args, kwargs, arrays, self._bound_call))
        result = self._execute(*self._bind(args, kwargs, name))
        if signature is not None and cached is None:
            replay_cache.CACHE.put(signature, Uncached.ONCE)
        return result

    def _bind(
        self, args: Sequence[Any], kwargs: dict[str, Any], name: str | None
    ) -> tuple[tuple[Argument, ...], list[tuple[str, Any]], str | None]:
        """Bind the arguments.

        Returns them by parameter, the tensors among them with their kinds, and the name of the operation.
        """
        for old, new in SPELLINGS.items() if kwargs else ():
            if old in kwargs and old not in self._kinds and new in self._kinds:
                kwargs[new] = kwargs.pop(old)
        if len(args) > len(self._kinds) and self._variadic is None and isinstance(args[-1], str):
            *args, name = args  # the last parameter in TensorFlow is the name
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.__signature__}: {error}") from None
        bound.apply_defaults()
        single = SINGLE_OR_LIST.get(self.name)
        if single is not None and not isinstance(bound.arguments[single], (list, tuple)):
            bound.arguments[single] = [bound.arguments[single]]
        hint = self._hint(bound.arguments)
        tensors: list[Any] = []
        plan: list[Argument] = []
        for parameter, value in bound.arguments.items():
            kind, several = self._kinds[parameter]
            if kind is None and _is_symbolic(value):
                plan.append((parameter, 1, "attribute"))
                tensors.append(("Shape", convert_to_tensor(value)))
            elif kind is None:
                plan.append((parameter, None, attribute(value, f"{self.name}({parameter}=)")))
            elif value is None and self.__signature__.parameters[parameter].default is not Parameter.empty:
                plan.append((parameter, -1, None))
            else:
                operands = list(value) if several or parameter == self._variadic else [value]
                plan.append((parameter, len(operands), None if several or parameter == self._variadic else "one"))
                wanted = hint if kind == "Same" else None
                tensors.extend(self._operand(parameter, kind, operand, wanted) for operand in operands)
        return tuple(plan), tensors, name

    def _operand(self, parameter: str, kind: str, value: Any, hint: Any) -> tuple[str, Any]:
        """Return an operand as a tensor, with its kind. Raises InvalidArgumentError for text in place of numbers."""
        tensor = convert_to_tensor(value, dtype_hint=hint)
        if kind == "Shape" and tensor.dtype.core is string:
            raise InvalidArgumentError(None, None, f"{self.name}: {parameter} must be numbers, got string")
        return kind, tensor

    def _bound_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, eager.Emit, eager.Operands]:
        """Bind the arguments of an eager call, and return the arguments of eager.execute()."""
        plan, tensors, _ = self._bind(args, kwargs, None)
        return self._call_of(plan, tensors)

    def _call_of(
        self, plan: tuple[Argument, ...], tensors: list[tuple[str, Any]]
    ) -> tuple[Any, eager.Emit, eager.Operands]:
        operands = [(np.asarray(tensor), kind == "Shape") for kind, tensor in tensors]
        return (self.name, plan), self._emitter(plan), operands

    def _execute(self, plan: tuple[Argument, ...], tensors: list[tuple[str, Any]], name: str | None) -> Any:
        symbolic = [tensor for _, tensor in tensors if isinstance(tensor, Tensor)]
        graph = context.current_graph()
        if graph is None and not symbolic:
            results, many = eager.execute(*self._call_of(plan, tensors))
            return self._eager_results(results, many)
        emit = self._emitter(plan)
        graph = symbolic[0].graph if graph is None else graph
        inputs = [t if isinstance(t, Tensor) else _constant_of(graph, t) for _, t in tensors]
        attrs = _attrs(plan, inputs)
        kind = self.name.rpartition(".")[2].lstrip("_")
        op = graph.create_op(
            kind,
            inputs,
            emit,
            name or name_of(self.name, kind),
            result_types=lambda: self.result_types(plan, inputs),
            attrs=attrs,
        )
        op.call = (self.name, plan)
        many = op.attrs.get("list", False) or len(op.outputs) > 1
        return self._structured(list(op.outputs)) if many or self.name in ("split", "unstack") else op.outputs[0]

    def _emitter(self, plan: tuple[Argument, ...]) -> Callable[[Emitter, Sequence[Value]], Any]:
        def emit(e: Emitter, values: Sequence[Value]) -> Any:
            rest = iter(values)
            variadic: list[Value] = []
            given: dict[str, Any] = {}
            for parameter, count, value in plan:
                if count is None:
                    given[parameter] = self._stated(parameter, value)
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
            return self._parameters.call(self._rule.function, e, given, variadic)

        return emit

    def _stated(self, parameter: str, value: Any) -> Any:
        """Return an attribute as rules take it."""
        return as_dtype(value).core if parameter in self._parameters.dtypes and value is not None else value

    def result_types(self, plan: tuple[Argument, ...], inputs: Sequence[Tensor]) -> Sequence[DType]:
        """Return the element types of the results, for ranks and attributes that are not known."""
        rest = iter([tensor.dtype.core for tensor in inputs])
        given: dict[str, Any] = {}
        for parameter, count, value in plan:
            if count is None or count < 0:
                given[parameter] = self._stated(parameter, value)
            elif value is None:
                given[parameter] = [next(rest) for _ in range(count)]
            elif value == "one":
                given[parameter] = next(rest)
            else:
                next(rest)
        return self._rule.results(given)

    def _hint(self, arguments: dict[str, Any]) -> Any:
        """Return the dtype for arrays and numbers among the operands.

        It is that of the first tensor; without tensors that of the first operand, or of a whole list of operands.
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
            return None  # the conversion reports the error

    def _eager_results(self, results: Sequence[Array], many: bool) -> Any:
        """Return arrays as eager tensors: one, or `many` in the structure that TensorFlow returns."""
        return self._structured(list(map(EagerTensor, results))) if many else EagerTensor(results[0])

    def _structured(self, results: list[Any]) -> Any:
        """Return several results in the structure that TensorFlow returns."""
        result_type = RESULT_TYPES.get(self.name)
        return results if result_type is None else result_type(*results)


def _documentation(name: str, summary: str | None, note: str) -> str:
    """Return the docstring of an op: what its rule says, and where TensorFlow documents it."""
    public = name.rpartition(".")[2][:1] != "_"
    texts = [
        summary or "",
        f"See tf.{name} in TensorFlow's documentation." if public else "",
        f"Here: {note}." if note else "",
    ]
    return "\n\n".join(text for text in texts if text)


class TopKV2(NamedTuple):
    """The results of tf.math.top_k."""

    values: Any
    indices: Any


class Unique(NamedTuple):
    """What tf.unique returns."""

    y: Any
    idx: Any


class UniqueWithCounts(NamedTuple):
    """What tf.unique_with_counts returns."""

    y: Any
    idx: Any
    count: Any


RESULT_TYPES: dict[str, Callable[..., Any]] = {
    "nn.top_k": TopKV2,
    "unique": Unique,
    "unique_with_counts": UniqueWithCounts,
    "nn.moments": lambda *both: both,
    "nn.fused_batch_norm": lambda *three: three,
}
"""Ops with several results that are not a list."""


def _is_symbolic(value: Any) -> bool:
    """Return whether a tensor without a known value is passed where a Python value is expected."""
    if isinstance(value, (list, tuple)):
        return any(_is_symbolic(item) for item in value)
    return isinstance(value, Tensor) and constant_value(value) is None


def attribute(value: Any, where: str) -> Any:
    """Return an attribute as plain Python data that can be compared.

    Raises TypeError for a tensor without a known value.
    """
    if isinstance(value, TensorLike):
        cached = constant_value(value)
        if cached is None:
            raise TypeError(f"{where}: wanted a value known while the graph is built, got {value!r}")
        return attribute(cached, where)
    if isinstance(value, np.ndarray):
        return attribute(value.tolist(), where)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, TensorShape):
        return tuple(value.as_list())
    if isinstance(value, (list, tuple)):
        return tuple(attribute(item, where) for item in value)
    return value


def _attrs(plan: tuple[Argument, ...], inputs: Sequence[Tensor]) -> dict[str, Any]:
    """Return the attributes of an operation. One that is known only when the graph runs is its tensor."""
    found: dict[str, Any] = {}
    place = 0
    for parameter, count, value in plan:
        if count is None or value == "attribute":
            found[parameter] = value if count is None else inputs[place]
        place += max(0, count or 0)
    return found


def _constant_of(graph: Graph, tensor: EagerTensor) -> Tensor:
    return constant_in(graph, np.asarray(tensor))
