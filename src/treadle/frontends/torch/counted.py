"""Loops over a known number of iterations: as loops of the native core where unrolling would make a long graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from treadle import dtypes
from treadle.errors import TreadleError
from treadle.frontends.core_bodies import needs_python, same_forms
from treadle.frontends.faults import Fault
from treadle.frontends.torch.bodies import (
    Hole,
    RunBlock,
    Scope,
    filled,
    loop_body,
    next_hole,
    same_structure,
    with_holes,
)
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.stacks import Stack
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import at_least, is_expression
from treadle.graph.template import Form
from treadle.graph.value import Value

MOST_UNROLLED = 1000
"""A loop is unrolled if that makes no more nodes of the script."""

IN_LIST = "a tensor that a loop carries, and which may be in a list"


def is_long(body: Any, most: int, env: dict[str, Any]) -> bool:
    """Returns True if `most` iterations of a loop should not be unrolled, and nothing but their number ends it.

    Loops inside it count with their iterations, as far as `env` has the number.
    """
    again = next(iter(body.outputs())).node()
    if again.kind() != "prim::Constant" or not again.output().toIValue():
        return False
    return is_expression(most) or most * _unrolled(body, env) > MOST_UNROLLED


def _unrolled(block: Any, env: dict[str, Any]) -> int:
    """Returns how many nodes `block` has once the loops inside it are unrolled."""
    total = 0
    for node in block.nodes():
        rounds = 1
        if node.kind() == "prim::Loop":
            count = next(iter(node.inputs()))
            known = count.toIValue() if count.node().kind() == "prim::Constant" else env.get(count.debugName())
            rounds = max(1, known) if type(known) is int and known < MOST_UNROLLED else 1
        total += 1 + rounds * sum(_unrolled(inner, env) for inner in node.blocks())
    return total


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def counted(
    importer: Importer, most: int, first: list[Any], body: Any, env: dict[str, Any], run_block: RunBlock
) -> list[Any] | None:
    """Adds a loop of the native core and returns its results: the values that it carries, which begin as `first`.

    Empty lists of `env` to which each iteration appends tensors or lists of them, and which it does not read, become
    stacks. Returns None if the loop has to be unrolled: an iteration needs its number as a Python value, a carried
    value is no tensor or changes its shape, or a list is read or changed in another way.
    """
    b, name = importer.b, importer.b.name
    before = len(b.graph.nodes)
    if not at_least(most, 0) or not all(isinstance(held, Box | Number) for held in first):
        return None
    try:
        scope = Scope(importer, env, [body], run_block)
        if scope.missing:
            return None
        values: list[Value] = []
        state = [with_holes(held, values) for held in first]
        structure: list[Any] = []
        appended: dict[str, int] = {}
        arguments = [Hole(0, Number), *map(next_hole, state)]
        template = scope.template(f"{name}.body", body, arguments, 1 + len(values), structure, appended)
        forms: list[Form] = [(dtypes.i64, ()), *((value.known_dtype, b.shape(value)) for value in values)]
        graph = template.build([*scope.forms(), *forms])
    except (Fault, TreadleError, TypeError, RuntimeError):  # rules raise TypeError for numbers that only a run knows
        del b.graph.nodes[before:]
        return None
    finally:
        b.name = name
    after, stacked = graph.outputs[1 : 1 + len(values)], graph.outputs[1 + len(values) :]
    lists = [env[known] for known in appended]
    if (
        not same_structure(structure[1 : 1 + len(state)], state)
        or not same_forms(values, after)
        or not same_forms(stacked, stacked)
        or needs_python(graph)
        or any(entries or _holders(env, entries) > 1 or _is_read(body, env, entries) for entries in lists)
    ):
        del b.graph.nodes[before:]
        return None
    operands = [b.scalar(most, dtypes.i64), None, *values, *scope.values]
    found = b.add_loop(operands, loop_body(graph, len(scope.values)), len(values), most)
    for entries, value, depth in zip(lists, found[len(values) :], appended.values(), strict=True):
        names = [known for known, held in env.items() if held is entries]
        rounds, each, *rest = b.shape(value)
        env.update(dict.fromkeys(names, Stack(b.reshape(value, [rounds * each, *rest]), depth)))
    return [filled(held, found, IN_LIST if lists else "") for held in state]


def _is_read(body: Any, env: dict[str, Any], entries: list[Any]) -> bool:
    """Returns True if `body` does more with the list `entries` than append to it, or has two names for it.

    A body sees what one iteration has appended, not what those before have.
    """
    names = {known for known, held in env.items() if held is entries}
    reads = {value.debugName() for value in body.outputs()}
    used: set[str] = set()
    for node in _nodes(body):
        inputs = [value.debugName() for value in node.inputs()]
        used.update(inputs)
        reads.update(inputs[1:] if node.kind() == "aten::append" else inputs)
        reads.update(value.debugName() for block in node.blocks() for value in block.outputs())
    return bool(names & reads) or len(names & used) > 1


def _holders(env: dict[str, Any], entries: list[Any]) -> int:
    """Returns how many lists or dictionaries of `env` hold the list `entries`, plus 1."""

    def holds(held: Any) -> bool:
        parts = held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
        return any(part is entries or holds(part) for part in parts)

    return 1 + sum(1 for held in env.values() if holds(held))
