"""Interprets a TorchScript graph: ops on tensors become core nodes, everything else is computed in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.branches import branch, condition_depends_on_data, repeat
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer, is_missing
from treadle.frontends.torch.counted import counted, is_long
from treadle.frontends.torch.dtypes import NUMBERED
from treadle.frontends.torch.python import FUNCTIONS, NUMERIC
from treadle.frontends.torch.source import KEEPS_NO_STATE, inline, location, schema_of
from treadle.frontends.torch.stacks import FUNCTIONS as OF_STACKS
from treadle.frontends.torch.stacks import OF_LISTS, Stack, listed
from treadle.frontends.torch.table import RULES
from treadle.frontends.torch.tensor import MISSING, Box, Missing

MOST_STEPS = 100_000
"""The largest number of loop iterations that a script may unroll to."""

Env = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A module of the script, with its path from the outermost module."""

    module: Any
    path: str


@dataclass(frozen=True, slots=True)
class Setting:
    """The object of a `with` statement that switches gradients; treadle has none to switch."""


@dataclass(frozen=True, slots=True)
class Future:
    """The result of a fork, whose body is in the graph already."""

    result: Any


class Interpreter:
    """Interprets one graph, inner graphs included; `importer` adds the nodes."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer
        self._scopes: list[str] = []
        self._forks = 0
        self._steps = 0

    def graph(self, graph: Any, args: Sequence[Any]) -> list[Any]:
        """Runs `graph` and returns its results."""
        self.importer.keep_alive(graph)
        env: Env = {value.debugName(): argument for value, argument in zip(graph.inputs(), args, strict=True)}
        env[_ARGUMENTS] = list(args)
        self.nodes(graph, env)
        return [env[value.debugName()] for value in graph.outputs()]

    def block(self, block: Any, env: Env, args: Sequence[Any] = ()) -> list[Any]:
        """Runs a branch or one iteration of a loop and returns its results."""
        env.update((value.debugName(), argument) for value, argument in zip(block.inputs(), args, strict=True))
        self.nodes(block, env)
        return [env[value.debugName()] for value in block.outputs()]

    def nodes(self, block: Any, env: Env) -> None:
        """Runs the nodes of `block`."""
        for node in block.nodes():
            kind = node.kind()
            args = [env[value.debugName()] for value in node.inputs()]
            self.importer.b.name = self._name(kind, args)
            results = self.importer.attempt(location(node), partial(self._node, node, kind, args, env))
            outputs = list(node.outputs())
            if isinstance(results, Missing):
                results = [MISSING] * len(outputs)
            env.update((value.debugName(), result) for value, result in zip(outputs, results, strict=True))

    def _name(self, kind: str, args: Sequence[Any]) -> str:
        """Returns the node's name: the forks around it, the module whose parameter it reads, the op."""
        words = list(self._scopes)
        for argument in args:
            if isinstance(argument, Box) and argument.owner.startswith("the model's own tensor"):
                path = argument.owner.split("'")[1].rpartition(".")[0]
                words += [path] if path else []
                break
        return "/".join([*words, kind.partition("::")[2]])

    def _node(self, node: Any, kind: str, args: list[Any], env: Env) -> list[Any]:
        if any(isinstance(argument, Stack) for argument in args):
            if kind in OF_STACKS and isinstance(args[0], Stack) and (args[0].depth == 1 or kind in OF_LISTS):
                return [OF_STACKS[kind](self.importer.b, *args)]
            if kind not in _CARRIES_ON:
                args = listed(self.importer.b, env, args)
        handler = _PRIMS.get(kind)
        missing = any(isinstance(argument, Missing) for argument in args)
        if handler is not None and not (missing and kind in _READS_PARTS):
            return handler(self, node, args, env)
        if missing:
            return [MISSING] * node.outputsSize()
        return _many(node, self._call(node, kind, args))

    def _call(self, node: Any, kind: str, args: list[Any]) -> Any:
        b = self.importer.b
        tensors = any(isinstance(argument, Box) for argument in args)
        on_list = f"{kind}.t" if args and isinstance(args[0], list | dict) else kind
        function = FUNCTIONS.get(on_list) or FUNCTIONS.get(kind)
        if function is not None and not (kind == "aten::__contains__" and tensors):
            return function(b, *args)
        name = kind.partition("::")[2]
        parsed = schema_of(node)
        makes = parsed is not None and any("Tensor" in str(part.type) for part in parsed.returns)
        if parsed is not None and (tensors or makes):
            given = [_from_script(parsed, n, a) for n, a in enumerate(args)]
            try:
                return self.importer.call(parsed, given, {}, location(node))
            except TypeError:
                if any(isinstance(argument, Number) for argument in args):
                    raise Unsupported("it takes a number that is known only when the graph runs") from None
                raise
        if name not in NUMERIC:
            raise Unsupported("treadle has no rule for it")
        if any(isinstance(argument, Number) for argument in args):
            return self._of_numbers(name, args)
        try:
            return NUMERIC[name](*args)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Fault(f"{type(error).__name__}: {error}") from None

    def _of_numbers(self, name: str, args: list[Any]) -> Number:
        """Adds arithmetic on numbers that are known only when the graph runs."""
        rule = RULES.get({"__not__": "logical_not"}.get(name, name))
        if rule is None or any(isinstance(argument, list) for argument in args):
            raise Unsupported("it computes with a number that is known only when the graph runs")
        plain = [argument.value if isinstance(argument, Number) else argument for argument in args]
        return Number(rule(self.importer.b, *plain))

    def _constant(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002 - every handler has it
        found = node.output().toIValue()
        if isinstance(found, torch.Tensor):
            return [self.importer.constant(found, f"constant.{node.output().debugName()}")]
        return [list(found) if isinstance(found, list | tuple) else found]

    def _get_attr(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        part, name = args[0], node.s("name")
        if not isinstance(part, Part):
            raise Unsupported(f"it reads {name!r} of an object that is no module")
        found = getattr(part.module, name)
        path = f"{part.path}.{name}" if part.path else name
        if isinstance(found, torch.Tensor):
            return [self.importer.constant(found, path)]
        return [Part(found, path) if isinstance(found, torch.jit.ScriptModule) else found]

    def _create(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        kind = str(node.output().type())
        if not kind.startswith("__torch__.torch.autograd.grad_mode."):
            raise Unsupported(f"it makes an object of the class {kind}; treadle supports modules only")
        return [Setting()]

    def _set_attr(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        if not isinstance(args[0], Setting):
            raise Unsupported(KEEPS_NO_STATE.format(node.s("name")))
        return []

    def _call_method(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        """Runs a method called through an interface; other calls have been inlined."""
        graph = inline(args[0].module._c._get_method(node.s("name")).graph)
        return self.graph(graph, args)

    def _fork(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        self._forks += 1
        self._scopes.append(f"fork_{self._forks}")
        try:
            results = self.graph(inline(node.g("Subgraph")), args)
        finally:
            self._scopes.pop()
        return [Future(results[0] if len(results) == 1 else results)]

    def _wait(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        return [args[0] if isinstance(args[0], Missing) else args[0].result]

    def _if(self, node: Any, args: list[Any], env: Env) -> list[Any]:
        (condition,) = args
        yes, no = node.blocks()
        if isinstance(condition, Number) and condition.value.data is not None:
            condition = bool(condition.value.data)
        if isinstance(condition, Missing):
            return [MISSING] * node.outputsSize()
        if isinstance(condition, Number | Box):
            value = condition.value if isinstance(condition, Number) else condition.read()
            return branch(self.importer, value, (yes, no), env, run_block)
        return self.block(yes if condition else no, env)

    def _loop(self, node: Any, args: list[Any], env: Env) -> list[Any]:
        most, going, *state = args
        (body,) = node.blocks()
        if isinstance(most, Missing) or isinstance(going, Missing):
            return [MISSING] * node.outputsSize()
        if isinstance(most, Number) or isinstance(going, Number) or condition_depends_on_data(body):
            return repeat(self.importer, (most, going, state), body, env, run_block)
        if going and is_long(body, most, env):
            found = counted(self.importer, most, state, body, env, run_block)
            if found is not None:
                return found
        step = 0
        while going and step < most:
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise Unsupported(f"its loops have more than {MOST_STEPS} iterations")
            going, *state = self.block(body, env, [step, *state])
            if isinstance(going, Missing):
                return [MISSING] * node.outputsSize()
            step += 1
        return state

    def _raise(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        raise Fault(f"the script raises {args[0]!r} for these inputs")

    def _list(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        return [list(args)]

    def _unpack(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        if len(args[0]) != node.outputsSize():
            raise Fault(f"it unpacks {len(args[0])} values to {node.outputsSize()}")
        return list(args[0])

    def _dictionary(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        return [dict(zip(args[::2], args[1::2], strict=True))]

    def _tuple_index(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        return [args[0][args[1]]]

    def _same(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        return [args[0]]

    def _nothing(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        return [None] * node.outputsSize()

    def _isinstance(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        """Returns True if the value is of one of the types."""
        kinds = [str(kind) for kind in node.tys("types")]
        names = {bool: "bool", int: "int", float: "float", str: "str", type(None): "NoneType", Box: "Tensor"}
        return [names.get(type(args[0]), "?") in kinds]


def run_block(importer: Importer, block: Any, env: Env, args: Sequence[Any]) -> list[Any]:
    """Runs a block with `importer` and returns its results."""
    return Interpreter(importer).block(block, env, args)


def _many(node: Any, result: Any) -> list[Any]:
    """Returns `result` as a list with one entry for each output of the node."""
    count = node.outputsSize()
    if count == 1:
        return [result]
    return [result] * count if isinstance(result, Missing) else list(result or ())


def _from_script(schema: Any, number: int, argument: Any) -> Any:
    """Returns an argument as ATen takes it; in TorchScript element types are numbers."""
    if schema.arguments[number].name == "dtype" and isinstance(argument, int):
        return NUMBERED.get(argument, torch.complex64)
    if is_missing(argument):
        return MISSING
    return argument


_ARGUMENTS = ""
"""The name in an environment of the arguments of its graph, which the code that called it may hold too."""

_CARRIES_ON = frozenset({"prim::If", "prim::Loop"})
"""Nodes whose arguments are looked at by the nodes of their bodies."""

_READS_PARTS = frozenset({"prim::ListUnpack", "prim::TupleIndex", "prim::TupleUnpack"})
"""Nodes that read the parts of their argument, and so cannot run on a MISSING one."""

_PRIMS: dict[str, Callable[[Interpreter, Any, list[Any], Env], list[Any]]] = {
    "aten::wait": Interpreter._wait,
    "aten::warn": Interpreter._nothing,
    "prim::CallMethod": Interpreter._call_method,
    "prim::CreateObject": Interpreter._create,
    "prim::Enter": Interpreter._nothing,
    "prim::Exit": Interpreter._nothing,
    "prim::Constant": Interpreter._constant,
    "prim::DictConstruct": Interpreter._dictionary,
    "prim::GetAttr": Interpreter._get_attr,
    "prim::If": Interpreter._if,
    "prim::ListConstruct": Interpreter._list,
    "prim::ListUnpack": Interpreter._unpack,
    "prim::Loop": Interpreter._loop,
    "prim::Print": Interpreter._nothing,
    "prim::RaiseException": Interpreter._raise,
    "prim::SetAttr": Interpreter._set_attr,
    "prim::TupleConstruct": Interpreter._list,
    "prim::TupleIndex": Interpreter._tuple_index,
    "prim::TupleUnpack": Interpreter._unpack,
    "prim::Uninitialized": Interpreter._nothing,
    "prim::fork": Interpreter._fork,
    "prim::isinstance": Interpreter._isinstance,
    "prim::unchecked_cast": Interpreter._same,
}
