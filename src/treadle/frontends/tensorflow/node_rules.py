"""Rules for nodes of TensorFlow's files: which input and attribute of a node is which parameter of an op of `table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.node import Node
from treadle.frontends.tensorflow.parameters import Parameters
from treadle.frontends.tensorflow.table import RULES
from treadle.graph.value import Value


@dataclass(frozen=True, slots=True)
class NodeRule:
    """How the nodes of one op in files become calls of a rule of `table`.

    `rule` is a name in `table`. `inputs` are the parameters that the node's inputs stand for, in order; `*name` takes
    all that remain. `attrs` are the attributes to read, `attr=parameter` where the names differ. `dtype` gives the
    element types of the results: an attribute that holds one, a name of treadle (`=i32`), or both (`Tidx=i32`), the
    latter for nodes without the attribute; one word for each result, the last one for all that follow. `results` are
    the names of the outputs of ops with several. `fixed` are parameters whose default in files differs from the rule's.
    `only` are attributes that are not read, with the values allowed for them. `rank` is the rank of all tensors of the
    rule's kind Same, where the rule accepts other ranks too.
    """

    rule: str
    inputs: str
    attrs: str = ""
    dtype: str = "T"
    results: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    rank: int | None = None

    def reads(self) -> dict[str, str]:
        """Return the attributes to read, each with the parameter it stands for."""
        pairs = (text.partition("=") for text in self.attrs.split())
        return {name: parameter or name for name, _, parameter in pairs}

    def emit(self, e: Emitter, node: Node, values: Sequence[Value]) -> list[Value]:
        """Return the results of `node` for `values`.

        Raises Fault, ShapeError or ValueError if they do not fit the op.
        """
        function = RULES[self.rule].function
        parameters = PARAMETERS[self.rule]
        for name, allowed in self.only.items():
            if node.has(name) and node.attr(name) not in allowed:
                raise Unsupported(f"its attribute {name} is {node.attr(name)!r}; wanted one of {list(allowed)}")
        given: dict[str, Any] = {}
        variadic: list[Value] = []
        for name, part in assign_inputs(self.inputs.split(), values):
            kind, takes_many = parameters.kinds[name]
            if kind == "Same" and self.rank is not None:
                _check_ranks(e, name, part, self.rank)
            if name == parameters.variadic:
                variadic = part
            elif kind is None:
                given[name] = e.static(part[0]).tolist()
            else:
                given[name] = part if takes_many else part[0]
        given.update(self.fixed)
        for name, parameter in self.reads().items():
            if node.has(name):
                given[parameter] = attribute(node, name)
        ordered = {name: given[name] for name in parameters.signature.parameters if name in given}
        results = parameters.call(function, e, ordered if parameters.variadic else given, variadic)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def dtype_of(self, node: Node, index: int) -> DType:
        """Return the element type of result `index` of `node`; float32 if the node does not declare it."""
        return result_dtype(node, self.dtype, index)


PARAMETERS: dict[str, Parameters] = {name: Parameters.of(rule.function) for name, rule in RULES.items()}


def _check_ranks(e: Emitter, name: str, values: Sequence[Value], rank: int) -> None:
    """Raise Fault for a tensor of another rank."""
    for value in values:
        e.expect_rank(value, rank)
        if e.rank(value) != rank:
            raise Fault(f"{name}: wanted rank {rank}, got shape {list(e.shape(value))}")


def result_dtype(node: Node, specs: str, index: int) -> DType:
    """Return the element type of result `index`, by `specs` with one word for each result (see NodeRule)."""
    kinds = specs.split()
    return dtype_by_spec(node, kinds[min(index, len(kinds) - 1)])


def dtype_by_spec(node: Node, spec: str) -> DType:
    """Return the element type that one word of `NodeRule.dtype` stands for."""
    name, _, preset = spec.partition("=")
    return node.dtype(name) if not preset or node.has(name) else dtypes.BY_NAME[preset]


def attribute(node: Node, name: str) -> Any:
    """Return an attribute in the representation that rules take."""
    value = node.attr(name)
    if name == "padding" and value == "EXPLICIT":
        numbers = node.attr("explicit_paddings", [])
        return [numbers[at : at + 2] for at in range(0, len(numbers), 2)]
    return value


def assign_inputs(names: Sequence[str], values: Sequence[Value]) -> list[tuple[str, list[Value]]]:
    """Distribute `values` over the parameters `names`. Raises Fault for a wrong number of values."""
    variadics = [name for name in names if name[0] == "*"]
    count = len(values) - len(names) + 1
    if count < 0 if variadics else len(values) != len(names):
        wanted = f"{len(names) - 1} or more" if variadics else str(len(names))
        raise Fault(f"wanted {wanted} inputs ({', '.join(names)}), got {len(values)}")
    results: list[tuple[str, list[Value]]] = []
    at = 0
    for name in names:
        size = count if name[0] == "*" else 1
        results.append((name.lstrip("*"), list(values[at : at + size])))
        at += size
    return results
