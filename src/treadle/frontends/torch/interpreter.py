"""Interprets a TorchScript graph: ops on tensors become core nodes, everything else is computed in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from treadle.errors import TreadleError
from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.torch.branches import branch
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer, is_missing
from treadle.frontends.torch.counted import counted, is_long
from treadle.frontends.torch.dtypes import NUMBERED
from treadle.frontends.torch.frames import ARGUMENTS, Blocks, Env, Frame, Future, Part, Rounds
from treadle.frontends.torch.python import FUNCTIONS, NUMERIC
from treadle.frontends.torch.repeated import condition_depends_on_data, condition_depends_on_sizes, repeat
from treadle.frontends.torch.rest import add_rest
from treadle.frontends.torch.source import KEEPS_NO_STATE, inline, location, schema_of
from treadle.frontends.torch.stacks import FUNCTIONS as OF_STACKS
from treadle.frontends.torch.stacks import OF_LISTS, Joined, Stack, joined, listed
from treadle.frontends.torch.table import RULES
from treadle.frontends.torch.tensor import MISSING, Box, Missing
from treadle.graph.dim import is_expression

INSIDE: list[Any] = []
"""The result of a node whose block has been entered: its results follow."""

MOST_STEPS = 100_000
"""The largest number of loop iterations that a script may unroll to."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The object of a `with` statement that switches gradients; treadle has none to switch."""


class Raised(Fault):
    """The script raises an exception."""


class Interpreter:
    """Interprets one graph, inner graphs included; `importer` adds the nodes.

    `frames` are the blocks that it is inside of, outermost first, if it goes on where another one was.
    """

    def __init__(self, importer: Importer, frames: list[Frame] | None = None) -> None:
        self.importer = importer
        self._frames = frames or []
        self._forks = 0
        self._steps = 0

    def graph(self, graph: Any, args: Sequence[Any]) -> list[Any]:
        """Runs `graph` and returns its results."""
        self._enter_graph(graph, args)
        return self.run()

    def block(self, block: Any, env: Env, args: Sequence[Any], lists: Sequence[str]) -> list[Any]:
        """Runs a body and returns its results, then what it has appended to `lists`. Raises as Frame.results()."""
        frame = Frame(block, env)
        frame.watch(lists)
        self._enter(frame, args)
        return self.run()

    def run(self) -> list[Any]:
        """Runs what is left of all blocks and returns the results of the outermost one.

        What reads a size that depends on data, and all that follows it, becomes one node.
        """
        while True:
            frame = self._frames[-1]
            if frame.at < len(frame.nodes):
                node = frame.nodes[frame.at]
                try:
                    self._run(node, frame.env)
                except NeedsShapeError as need:
                    return self._defer(need, location(node))
                frame.at += 1
                continue
            self._frames.pop()
            results = frame.results()
            if not self._frames:
                return results
            self.importer.attempt(partial(location, frame.node), partial(self._leave, frame, results))

    def _defer(self, need: NeedsShapeError, place: str) -> list[Any]:
        """Has the rest made later, and returns its results."""
        outermost = self._frames[0]
        count = len(list(outermost.block.outputs())) + len(outermost.watched)
        found = self.importer.attempt(
            place, partial(add_rest, self.importer, Blocks(self._frames), need, place, run_blocks)
        )
        return [MISSING] * count if found is None or isinstance(found, Missing) else list(found)

    def _enter(self, frame: Frame, args: Sequence[Any]) -> None:
        frame.start(args)
        self._frames.append(frame)

    def _enter_graph(self, graph: Any, args: Sequence[Any], node: Any = None, scope: str = "") -> None:
        self.importer.made.keep_alive(graph)
        outer = self._frames[-1].env if self._frames else {}
        self._enter(Frame(graph, {ARGUMENTS: list(args)}, node, outer, scope=scope), args)

    def _leave(self, frame: Frame, results: list[Any]) -> None:
        """Goes on after a block: with another iteration, or behind the node whose block it is."""
        if frame.rounds is not None:
            going, *results = results
            step = frame.rounds.step + 1
            if isinstance(going, Missing):
                results = [MISSING] * len(results)
            elif going and step < frame.rounds.most:
                self._enter(replace(frame, rounds=Rounds(step, frame.rounds.most)), [step, *results])
                self._count_step()
                return
        elif frame.scope:
            results = [Future(results[0] if len(results) == 1 else results)]
        frame.finish(results)

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Unsupported(f"its loops have more than {MOST_STEPS} iterations")

    def _run(self, node: Any, env: Env) -> None:
        """Runs one node, or enters its block."""
        kind = node.kind()
        args = [env[value.debugName()] for value in node.inputs()]
        self.importer.b.name = self._name(kind, args)
        results = self.importer.attempt(partial(location, node), partial(self._node, node, kind, args, env))
        if results is INSIDE:
            return
        outputs = list(node.outputs())
        if isinstance(results, Missing):
            results = [MISSING] * len(outputs)
        env.update((value.debugName(), result) for value, result in zip(outputs, results, strict=True))

    def _name(self, kind: str, args: Sequence[Any]) -> str:
        """Returns the node's name: the forks around it, the module whose parameter it reads, the op."""
        words = [frame.scope for frame in self._frames if frame.scope]
        for argument in args:
            if isinstance(argument, Box) and argument.owner.startswith("the model's own tensor"):
                path = argument.owner.split("'")[1].rpartition(".")[0]
                words += [path] if path else []
                break
        return "/".join([*words, kind.partition("::")[2]])

    def _node(self, node: Any, kind: str, args: list[Any], env: Env) -> list[Any]:
        if any(isinstance(argument, Joined) for argument in args):
            return [joined(kind, args)]
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
            return self.importer.with_numbers(lambda: function(b, *args), args)
        name = kind.partition("::")[2]
        parsed = schema_of(node)
        makes = parsed is not None and any("Tensor" in str(part.type) for part in parsed.returns)
        if parsed is not None and (tensors or makes):
            given = [_from_script(parsed, n, a) for n, a in enumerate(args)]
            return self.importer.call(parsed, given, {}, partial(location, node))
        if name not in NUMERIC:
            raise Unsupported("treadle has no rule for it")
        if any(isinstance(argument, Number) for argument in args):
            return self.importer.with_numbers(lambda: self._of_numbers(name, args), args)
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
            return [self.importer.own(found, path)]
        if isinstance(found, torch.jit.ScriptModule):
            return [Part(found, path)]
        return [self.importer.attribute(found, path)]

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
        self._enter_graph(inline(args[0].module._c._get_method(node.s("name")).graph), args, node)
        return INSIDE

    def _fork(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        self._forks += 1
        self._enter_graph(inline(node.g("Subgraph")), args, node, f"fork_{self._forks}")
        return INSIDE

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
        self._enter(Frame(yes if condition else no, env, node, env), [])
        return INSIDE

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
        if going and self._may_follow_data(body, most, state, env):
            found = self._repeated(body, (most, going, state), env)
            if found is not None:
                return found
        if not going or most <= 0:
            return state
        self._count_step()
        self._enter(Frame(body, env, node, env, Rounds(0, most)), [0, *state])
        return INSIDE

    def _may_follow_data(self, body: Any, most: Any, state: list[Any], env: Env) -> bool:
        """Returns True if the number of iterations depends on data, which shows in sizes alone."""
        if is_expression(most):
            return self.importer.follows_data
        if not condition_depends_on_sizes(body):
            return False
        frame = Frame(body, env)
        frame.start([0, *state])
        graph = self.importer.b.graph
        before = len(graph.nodes)
        with self.importer.elsewhere(graph, Faults()):
            going, *_ = run_blocks(self.importer, Blocks([frame]).copied(lambda held: held))
        del graph.nodes[before:]
        return isinstance(going, Number)

    def _repeated(self, body: Any, loop: tuple[Any, Any, list[Any]], env: Env) -> list[Any] | None:
        """Adds a loop and returns its results; None if it has to be unrolled."""
        graph = self.importer.b.graph
        before = len(graph.nodes)
        try:
            return repeat(self.importer, loop, body, env, run_block)
        except NeedsShapeError:
            raise
        except (Fault, TreadleError):
            del graph.nodes[before:]
            return None

    def _raise(self, node: Any, args: list[Any], env: Env) -> list[Any]:  # noqa: ARG002
        raise Raised(f"the script raises {args[0]!r} for these inputs")

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


def run_block(importer: Importer, block: Any, env: Env, args: Sequence[Any], lists: Sequence[str]) -> list[Any]:
    """Runs a block with `importer` and returns its results, then what it has appended to `lists`."""
    return Interpreter(importer).block(block, env, args, lists)


def run_blocks(importer: Importer, state: Blocks) -> list[Any]:
    """Runs what is left in `state` and returns the results of the outermost block."""
    return Interpreter(importer, state.frames).run()


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
