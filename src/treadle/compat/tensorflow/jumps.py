"""Lowering of `break`, `continue`, `return` and `else` in loops to flags and `if` statements (see `autograph`).

    while test:                  broke = False
        ...                      while not broke and test:
        if c: break        ->        ...
        more()                       if c: broke = True
                                     if not broke: more()

A `return` inside a loop sets a flag and stores its value; after the loop the function returns it. Loops with a jump out
of a `try` or `match` are not changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from treadle.compat.tensorflow.liveness import LOOPS, SCOPES, mark

VALUE, RETURNED = "_treadle_value", "_treadle_returned"

Node = TypeVar("Node", bound=ast.AST)

Lowered = tuple[list[ast.stmt], set[str]]
"""Statements, and the flags that they may set."""


@dataclass(slots=True)
class Loop:
    """The innermost loop: the flags that its `break` and its `continue` set."""

    broke: str
    skipped: str


@dataclass(slots=True)
class Lowering:
    """Lowers the jumps in the loops of one function."""

    count: int = 0
    returns: bool = False

    def function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the body of a function without jumps in its loops, annotated with liveness."""
        made, _ = self._block(body, None, inside=False)
        if self.returns:
            made.insert(0, _set(RETURNED, to=False, at=body[0]))
        mark(made)
        return made

    def _block(self, statements: Sequence[ast.stmt], loop: Loop | None, *, inside: bool) -> Lowered:
        """Lower the statements of a block. With `inside` a `return` sets flags."""
        made: list[ast.stmt] = []
        flags: set[str] = set()
        for number, statement in enumerate(statements):
            found, own = self._statement(statement, loop, inside=inside)
            made += found
            flags |= own
            rest = statements[number + 1 :]
            if isinstance(statement, (ast.Break, ast.Continue, ast.Return)):
                return made, flags
            if own and not inside and loop is None:
                made.append(_at(ast.If(named(RETURNED), [ast.Return(named(VALUE))], []), statement))
                self.returns, flags = True, set()
            elif own and rest:
                others, more = self._block(rest, loop, inside=inside)
                made.append(_at(ast.If(_none_of(own), others, []), rest[0]))
                return made, flags | more
        return made, flags

    def _statement(self, node: ast.stmt, loop: Loop | None, *, inside: bool) -> Lowered:
        if isinstance(node, (ast.Break, ast.Continue)) and loop is not None:
            flag = loop.broke if isinstance(node, ast.Break) else loop.skipped
            return [_set(flag, to=True, at=node)], {flag}
        if isinstance(node, ast.Return) and inside:
            value = node.value or ast.Constant(value=None)
            keep = _at(ast.Assign([named(VALUE, store=True)], value), node)
            return [keep, _set(RETURNED, to=True, at=node)], {RETURNED}
        if isinstance(node, LOOPS) and not _jumps_out_of_try(node):
            return self._loop(node, loop, inside=inside)
        if isinstance(node, ast.If):
            node.body, flags = self._block(node.body, loop, inside=inside)
            node.orelse, more = self._block(node.orelse, loop, inside=inside)
            return [node], flags | more
        if isinstance(node, ast.With):
            node.body, flags = self._block(node.body, loop, inside=inside or _returns_early(node))
            return [node], flags
        return [node], set()

    def _loop(self, node: ast.While | ast.For, loop: Loop | None, *, inside: bool) -> Lowered:
        self.count += 1
        own = Loop(f"_treadle_broke_{self.count}", f"_treadle_skipped_{self.count}")
        body, flags = self._block(node.body, own, inside=True)
        before = [_set(flag, to=False, at=node) for flag in (own.broke, own.skipped) if flag in flags]
        if own.skipped in flags:
            body.insert(0, _set(own.skipped, to=False, at=node))
        node.body = body
        stops = sorted(flags - {own.skipped})
        if stops and isinstance(node, ast.While):
            node.test = _at(ast.BoolOp(ast.And(), [_none_of(stops), node.test]), node.test)
        elif stops:
            node.treadle_stops = stops  # type: ignore[union-attr]
        otherwise, more = self._block(node.orelse, loop, inside=inside)
        node.orelse = []
        if otherwise and stops:
            otherwise = [_at(ast.If(_none_of(stops), otherwise, []), otherwise[0])]
        left = flags - {own.broke, own.skipped}
        if isinstance(node, ast.While) and _is_infinite(node) and left and own.broke not in flags and not inside:
            self.returns = True  # only the return ends the loop
            return [*before, node, _at(ast.Return(named(VALUE)), node)], set()
        return [*before, node, *otherwise], left | more


def _is_infinite(node: ast.While) -> bool:
    test = node.test
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    return isinstance(parts[-1], ast.Constant) and bool(parts[-1].value)


def _descendants(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside a node, except those inside functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, SCOPES):
            yield from _descendants(child)


def _jumps_out_of_try(node: ast.AST) -> bool:
    """Return whether a loop contains a jump out of a `try`."""
    tries = (inner for inner in _descendants(node) if isinstance(inner, (ast.Try, ast.TryStar)))
    return any(
        isinstance(jump, (ast.Break, ast.Continue, ast.Return)) for inner in tries for jump in _descendants(inner)
    )


def _returns_early(node: ast.With) -> bool:
    """Return whether a `with` contains a `return` that is not its last statement."""
    found = [inner for inner in _descendants(node) if isinstance(inner, ast.Return)]
    return bool(found) and found != [node.body[-1]]


def named(name: str, *, store: bool = False) -> ast.Name:
    """Return a variable, to be read or stored."""
    return ast.Name(name, ast.Store() if store else ast.Load())


def _set(name: str, *, to: bool, at: ast.stmt) -> ast.stmt:
    return _at(ast.Assign([named(name, store=True)], ast.Constant(value=to)), at)


def _none_of(flags: Sequence[str] | set[str]) -> ast.expr:
    """Return `not (a or b)`."""
    names: list[ast.expr] = [named(flag) for flag in sorted(flags)]
    return ast.UnaryOp(ast.Not(), names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names))


def _at(node: Node, where: ast.AST) -> Node:
    return ast.fix_missing_locations(ast.copy_location(node, where))
