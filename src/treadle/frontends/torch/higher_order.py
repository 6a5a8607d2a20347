"""Rules for PyTorch's higher-order ops, which run graphs that they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.bodies import CapturedBody
from treadle.frontends.torch.branches import branch
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.repeated import ANY_NUMBER, repeat
from treadle.frontends.torch.tensor import Box

RunInner = Callable[[Any, Sequence[Any]], Any]
"""(graph module, arguments) -> its outputs; adds its nodes to the graph that is being built."""

Rule = Callable[[Importer, Sequence[Any], RunInner], Any]


def _grad_mode(importer: Importer, args: Sequence[Any], inner: RunInner) -> Any:  # noqa: ARG001 - every rule has it
    """Takes (enabled, graph, operands); runs the graph, as treadle has no gradients to switch."""
    return inner(args[1], args[2:])


def _autocast(importer: Importer, args: Sequence[Any], inner: RunInner) -> Any:  # noqa: ARG001 - part of the signature
    """Takes (device, dtype, enabled, cache, graph, operands). Raises Unsupported where autocast is enabled."""
    if args[2]:
        raise Unsupported("autocast; cast the module with .to(dtype), or leave it in float32")
    return inner(args[4], args[5:])


def _cond(importer: Importer, args: Sequence[Any], inner: RunInner) -> Any:
    """Takes (condition, graph if true, graph if false, operands).

    A condition known now selects one graph; otherwise it becomes a branch, of which the run takes one side.
    """
    condition, yes, no, operands = args[:4]
    if isinstance(condition, bool):
        return inner(yes if condition else no, operands)
    test = condition.value if isinstance(condition, Number) else condition.read()
    if test.data is not None:
        return inner(yes if bool(test.data.reshape(())) else no, operands)
    env = _named(operands)
    return branch(importer, test, [CapturedBody(graph, tuple(env)) for graph in (yes, no)], env, _run_body)


def _while_loop(importer: Importer, args: Sequence[Any], inner: RunInner) -> Any:
    """Takes (graph of the condition, graph of an iteration, carried values, other operands).

    Both graphs take the carried values, then the others; an iteration returns the next carried values.
    """
    test, step, carried, others = args[:4]

    def iterate(into: Importer, body: CapturedBody, env: dict[str, Any], state: Sequence[Any], _: Any) -> list[Any]:
        rest = [env[name] for name in body.operands]
        scope = f"{into.b.name}/"
        after = list(into.run(step, [*state[1:], *rest], scope))
        return [_as_number(into, into.run(test, [*after, *rest], scope)), *after]

    env = _named(others)
    going = _as_number(importer, inner(test, [*carried, *others]))
    body = CapturedBody(step, tuple(env))
    return repeat(importer, (ANY_NUMBER, going, list(carried)), body, env, iterate)


def _named(operands: Sequence[Any]) -> dict[str, Any]:
    return {f"operand{number}": held for number, held in enumerate(operands)}


def _run_body(into: Importer, body: CapturedBody, env: dict[str, Any], _: Any, __: Any) -> list[Any]:
    """Runs a side of a branch, as RunBlock."""
    return list(into.run(body.module, [env[name] for name in body.operands], f"{into.b.name}/"))


def _as_number(importer: Importer, found: Any) -> Any:
    """Returns a condition, which a graph gives alone or as the only entry of a list, as a number of rank 0."""
    held = found[0] if isinstance(found, list | tuple) else found
    return Number(importer.b.reshape(held.read(), [])) if isinstance(held, Box) else held


RULES: dict[str, Rule] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "wrap_with_autocast": _autocast,
    "wrap_with_set_grad_enabled": _grad_mode,
}
"""Higher-order op -> its rule."""
