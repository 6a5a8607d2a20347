"""Loops over a known number of iterations: as loops of the native core where unrolling would make a long graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle import dtypes
from treadle.errors import TreadleError
from treadle.frontends.core_bodies import knows_sizes, needs_python, same_forms
from treadle.frontends.faults import Fault
from treadle.frontends.torch.appended import may_be_values, put_stack
from treadle.frontends.torch.bodies import (
    Appended,
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
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import at_least, is_expression
from treadle.graph.shape import is_open
from treadle.graph.value import Value
from treadle.ops.op import Info

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
        appended: dict[str, Appended] = {}
        arguments = [Hole(0, Number), *map(next_hole, state)]
        made = scope.body(f"{name}.body", body, arguments, 1 + len(values), structure, appended)
        infos = [Info(dtypes.i64, ()), *(Info(value.known_dtype, b.shape(value)) for value in values)]
        infos = [*scope.infos(), *infos]
        graph = made.build(infos)
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
        or not (same_forms(stacked, stacked) and all(form.depth for form in appended.values()))
        or needs_python(graph)
        or (_is_open(most, infos) and not knows_sizes(graph))
        or not may_be_values(body, env, lists)
    ):
        del b.graph.nodes[before:]
        return None
    operands = [b.scalar(most, dtypes.i64), None, *values, *scope.values]
    found = b.add_loop(operands, loop_body(graph, len(scope.values)), len(values), most)
    for entries, value, item, form in zip(lists, found[len(values) :], stacked, appended.values(), strict=True):
        put_stack(b, env, entries, value, item, form.depth)
    return [filled(held, found, IN_LIST if lists else "") for held in state]


def _is_open(most: int, infos: Sequence[Info]) -> bool:
    """Returns True if a number of iterations or a size is an expression."""
    return is_expression(most) or any(info.shape is not None and is_open(info.shape) for info in infos)
