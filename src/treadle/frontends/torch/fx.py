"""Interprets FX graphs of ATen ops: ops on tensors become core nodes, Python values are computed at once."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import fx

from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer, is_missing
from treadle.frontends.torch.frames import Swap, copied
from treadle.frontends.torch.higher_order import RULES
from treadle.frontends.torch.rest import add_rest
from treadle.frontends.torch.scalars import item
from treadle.frontends.torch.symbols import power, truncated
from treadle.frontends.torch.tensor import MISSING, NOT_COMPUTED, Box, NotComputed
from treadle.graph.dim import is_expression, maximum, minimum
from treadle.graph.reals import root
from treadle.graph.shape import elements, strides_of

_IGNORED = frozenset({
    "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size",
})  # fmt: skip
"""Ops without effect on results: checks that have been made already, or that treadle cannot make."""

_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def run(importer: Importer, module: fx.GraphModule, args: Sequence[Any], scope: str = "") -> Any:
    """Runs `module` for `args`, one per placeholder; returns Boxes, Python values, and MISSING after a fault."""
    placeholders = (node for node in module.graph.nodes if node.op == "placeholder")
    state = _Program(module, list(module.graph.nodes), dict(zip(placeholders, args, strict=False)), scope)
    found = _go_on(importer, state)
    return found if isinstance(_result_of(module), list | tuple) or len(found) != 1 else found[0]


@dataclass(slots=True)
class _Program:
    """A graph that is run: its nodes, the results of those before number `at`, and the prefix of names."""

    module: fx.GraphModule
    nodes: list[fx.Node]
    env: dict[fx.Node, Any]
    scope: str
    at: int = 0

    def copied(self, swap: Swap) -> _Program:
        """Returns a copy, as of State."""
        rest = set(self.nodes[self.at :])
        read = {node: held for node, held in self.env.items() if not rest.isdisjoint(node.users)}
        return replace(self, env=copied(read, swap, {}))


def _result_of(module: fx.GraphModule) -> Any:
    return next(node for node in module.graph.nodes if node.op == "output").args[0]


def _go_on(importer: Importer, state: _Program) -> list[Any]:
    """Runs the remaining nodes and returns the results of the graph.

    What reads a size that depends on data, and all that follows it, becomes one node, if the graph is the outermost.
    """
    module, env, scope = state.module, state.env, state.scope
    for number in range(state.at, len(state.nodes)):
        node = state.nodes[number]
        if node.op == "output":
            found = _read(node.args[0], env)
            return found if isinstance(found, list) else [found]
        if node.op == "placeholder":
            continue
        if _is_only_checked(node):
            env[node] = NOT_COMPUTED
            continue
        importer.b.name = f"{scope}{node.name}"
        try:
            env[node] = importer.attempt(location(node), partial(_node, importer, module, node, env, scope))
        except NeedsShapeError as need:
            if scope:
                raise
            state.at = number
            place = location(node)
            made = importer.attempt(place, partial(add_rest, importer, state, need, place, _go_on))
            count = len(_result_of(module)) if isinstance(_result_of(module), list | tuple) else 1
            return made if isinstance(made, list) else [MISSING] * count
    return []


def _is_only_checked(node: fx.Node) -> bool:
    """Returns True for a size, or a condition on sizes, that only checks read, which have no effect on results."""
    return (
        bool(node.users)
        and all(getattr(user.target, "_opname", "") in _IGNORED or _is_only_checked(user) for user in node.users)
        and (not isinstance(node.meta.get("val"), torch.Tensor))
        and node.op == "call_function"
    )


def location(node: fx.Node) -> str:
    """Returns the place of a node for messages: its name, op, and the line of the program."""
    found = _LINE.findall(node.stack_trace or "")
    line = f" at {found[-1][0]}:{found[-1][1]}" if found else ""
    return f"node {node.name!r} ({_name(node.target)}){line}"


def _name(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target._opname}.{target._overloadname}"
    return getattr(target, "__name__", str(target))


def _read(argument: Any, env: Mapping[fx.Node, Any]) -> Any:
    """Returns `argument` with the results of nodes in place of the nodes."""
    if isinstance(argument, fx.Node):
        return env[argument]
    if isinstance(argument, list | tuple):
        return [_read(entry, env) for entry in argument]
    if isinstance(argument, dict):
        return {name: _read(entry, env) for name, entry in argument.items()}
    if isinstance(argument, slice):
        return slice(*(_read(part, env) for part in (argument.start, argument.stop, argument.step)))
    return argument


def _node(importer: Importer, module: fx.GraphModule, node: fx.Node, env: Mapping[fx.Node, Any], scope: str) -> Any:
    if node.op == "get_attr":
        found: Any = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return importer.constant(found, str(node.target)) if isinstance(found, torch.Tensor) else found
    if node.op != "call_function":
        raise Unsupported(f"treadle takes graphs of ATen ops; this is {node.op} of {node.target}")
    args, kwargs = _read(node.args, env), _read(node.kwargs, env)
    if is_missing([*args, *kwargs.values()]):
        return MISSING
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return _overload(importer, target, args, kwargs, node)
    if isinstance(target, torch._ops.HigherOrderOperator):
        rule = RULES.get(target.name())
        if rule is None:
            raise Unsupported("treadle has no rule for it")
        return rule(importer, args, lambda inner, given: run(importer, inner, given, f"{scope}{node.name}/"))
    return python(target, args, kwargs)


def python(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Returns the result of a Python function on Python values (sizes, items of lists), or of a named tuple's class."""
    if isinstance(target, type) and issubclass(target, tuple):
        return list(args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args)
    if any(isinstance(value, NotComputed) for value in (*args, *kwargs.values())):
        return NOT_COMPUTED
    values = [value.value for value in (*args, *kwargs.values()) if isinstance(value, Number)]
    if values:
        raise NeedsShapeError(*values, what="it computes with a number that is known only when the graph runs")
    if any(isinstance(value, Box) for value in (*args, *kwargs.values())):
        raise Unsupported("it computes with a tensor as a Python value")
    if any(map(is_expression, args)):
        target = _ON_SIZES.get(getattr(target, "__name__", "").removeprefix("_"), target)
    return target(*args, **kwargs)


_ON_SIZES: dict[str, Callable[..., Any]] = {
    "pow": power,
    "sym_float": lambda size: size,
    "sym_int": truncated,
    "trunc": truncated,
    "sym_ite": lambda condition, one, other: one if condition else other,
    "sym_max": maximum,
    "sym_min": minimum,
    "sym_not": operator.not_,
    "sym_sqrt": root,
}
"""PyTorch's functions of symbolic numbers, by name -> those for expressions."""


def _overload(importer: Importer, target: Any, args: list[Any], kwargs: dict[str, Any], node: fx.Node) -> Any:
    name = target._opname
    if target.namespace not in ("aten", "prims"):
        raise Unsupported("treadle has no rule for it; register a decomposition, or keep it out of the compiled region")
    if name in _IGNORED:
        return None
    if name.startswith("sym_") and isinstance(args[0], Box):
        return symbolic(importer, name, args)
    if name == "size":
        return symbolic(importer, "sym_size", args)
    if name in ("item", "_local_scalar_dense"):
        return item(importer.b, args[0].read())
    return importer.call(target._schema, args, kwargs, location(node))


def symbolic(importer: Importer, name: str, args: Sequence[Any]) -> Any:
    """Returns the size, number of elements, strides or offset of a tensor; treadle's tensors are contiguous.

    Raises NeedsShapeError if it depends on data.
    """
    shape = importer.b.shape(args[0].held())
    if name == "sym_size":
        return shape[args[1]] if len(args) > 1 else list(shape)
    if name == "sym_numel":
        return elements(shape)
    if name == "sym_storage_offset":
        return 0
    strides = list(strides_of(shape))
    return strides[args[1]] if len(args) > 1 else strides
