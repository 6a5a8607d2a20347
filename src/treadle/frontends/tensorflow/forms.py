"""How the nodes of TensorFlow's files become calls of rules: which input and attribute is which parameter."""

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
class Form:
    """The form that an op has in files.

    `rule` is a name in `table`. `inputs` are the parameters that the node's inputs stand for, in order; `*name` takes
    as many as are left. `attrs` are the attributes that are read, `attr=parameter` where the names differ. `dtype` says
    what the results are: an attribute that holds an element type, a name of treadle (`=i32`), or both, the latter where
    the attribute is not stated (`Tidx=i32`); one for each result, the last one for all that follow. `results` are names
    of the outputs, where there is more than one. `fixed` are parameters whose default in files is not the rule's; `only`
    are attributes that are not read, and the values that they may have; `rank` is that of all tensors of the rule's
    kind Same, where the rule takes others too.
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
        """The attributes that are read, and the parameter that each one is."""
        pairs = (text.partition("=") for text in self.attrs.split())
        return {name: parameter or name for name, _, parameter in pairs}

    def emit(self, e: Emitter, node: Node, values: Sequence[Value]) -> list[Value]:
        """The results of `node` on `values`. Raises Fault, ShapeError or ValueError if they do not fit the op."""
        function = RULES[self.rule].function
        parameters = PARAMETERS[self.rule]
        for name, allowed in self.only.items():
            if node.has(name) and node.attr(name) not in allowed:
                raise Unsupported(f"its attribute {name} is {node.attr(name)!r}; wanted one of {list(allowed)}")
        given: dict[str, Any] = {}
        spread: list[Value] = []
        for name, part in divided(self.inputs.split(), values):
            kind, takes_many = parameters.kinds[name]
            if kind == "Same" and self.rank is not None and any(e.rank(value) != self.rank for value in part):
                raise Fault(f"{name}: wanted rank {self.rank}, got shape {list(e.shape(part[0]))}")
            if name == parameters.spread:
                spread = part
            elif kind is None:
                given[name] = e.static(part[0]).tolist()
            else:
                given[name] = part if takes_many else part[0]
        given.update(self.fixed)
        for name, parameter in self.reads().items():
            if node.has(name):
                given[parameter] = attribute(node, name)
        ordered = {name: given[name] for name in parameters.signature.parameters if name in given}
        found = parameters.call(function, e, ordered if parameters.spread else given, spread)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def dtype_of(self, node: Node, index: int) -> DType:
        """What result `index` of `node` is; float32 where the node does not say."""
        return result_dtype(node, self.dtype, index)


PARAMETERS: dict[str, Parameters] = {name: Parameters.of(rule.function) for name, rule in RULES.items()}


def result_dtype(node: Node, specs: str, index: int) -> DType:
    """What result `index` of `node` is, of `specs` one word a result; the last stands for all that follow too."""
    kinds = specs.split()
    return stated_dtype(node, kinds[min(index, len(kinds) - 1)])


def stated_dtype(node: Node, spec: str) -> DType:
    """The element type that `spec` (see Form) stands for."""
    name, _, preset = spec.partition("=")
    return node.dtype(name) if not preset or node.has(name) else dtypes.BY_NAME[preset]


def attribute(node: Node, name: str) -> Any:
    """An attribute as rules take it."""
    value = node.attr(name)
    if name == "padding" and value == "EXPLICIT":
        numbers = node.attr("explicit_paddings", [])
        return [numbers[at : at + 2] for at in range(0, len(numbers), 2)]
    return value


def divided(names: Sequence[str], values: Sequence[Value]) -> list[tuple[str, list[Value]]]:
    """`values` for each of the parameters `names`. Raises Fault for a wrong number of them."""
    several = [name for name in names if name[0] == "*"]
    count = len(values) - len(names) + 1
    if count < 0 if several else len(values) != len(names):
        wanted = f"{len(names) - 1} or more" if several else str(len(names))
        raise Fault(f"wanted {wanted} inputs ({', '.join(names)}), got {len(values)}")
    found: list[tuple[str, list[Value]]] = []
    at = 0
    for name in names:
        size = count if name[0] == "*" else 1
        found.append((name.lstrip("*"), list(values[at : at + size])))
        at += size
    return found
