"""Python functions rebuilt from their rewritten source, for facades that rewrite control flow."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

BODY = "__treadle_body"
"""The name of a definition passed to `rebuilt`. The function's own name may mean something else among its globals."""


def definition_of(function: types.FunctionType) -> ast.FunctionDef | None:
    """Return the `def` of a function, with the line numbers of its file; None for a lambda.

    Decorators and annotations are removed, and defaults replaced by None: `rebuilt` takes those of the function. Raises
    OSError, TypeError or SyntaxError if the source cannot be read.
    """
    code = function.__code__  # given a wrapper, inspect.getsource returns the source of the wrapped function
    tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
        return None  # a lambda or a comprehension on the line of a `def`
    first = definition.decorator_list[0] if definition.decorator_list else definition
    ast.increment_lineno(tree, code.co_firstlineno - first.lineno)
    definition.decorator_list, definition.returns, definition.name = [], None, BODY
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    _clear_defaults(definition.args)
    return definition


def definition_of_lambda(function: types.FunctionType) -> ast.FunctionDef | None:
    """Return a `def` that does what a lambda does, with the line numbers of its file; None if it is none, or not found.

    Defaults are replaced by None: `rebuilt` takes those of the function. Raises OSError or SyntaxError if the file
    cannot be read.
    """
    code = function.__code__
    if code.co_name != "<lambda>":
        return None
    lines, _ = inspect.findsource(code)
    found = [
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.Lambda) and _contains(node.body, code)
    ]
    if not found:
        return None
    chosen = max(found, key=lambda node: (node.lineno, node.col_offset))  # the others contain it
    _clear_defaults(chosen.args)
    body = ast.copy_location(ast.Return(chosen.body), chosen.body)
    return ast.copy_location(made_definition(BODY, chosen.args, [body]), chosen)


def _clear_defaults(arguments: ast.arguments) -> None:
    """Replace defaults by None."""
    arguments.defaults = [ast.Constant(value=None) for _ in arguments.defaults]
    arguments.kw_defaults = [None if d is None else ast.Constant(value=None) for d in arguments.kw_defaults]


def made_definition(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    """Return a `def` without decorators, annotations and type parameters."""
    more: list[Any] = [[]] if "type_params" in ast.FunctionDef._fields else []
    return ast.FunctionDef(name, arguments, body, [], None, None, *more)


def _contains(node: ast.expr, code: types.CodeType) -> bool:
    """Return whether all instructions of `code` that have a place come from within `node`."""
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    places = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
    return bool(places) and all(begin <= (a, c) and (b, d) <= end for a, b, c, d in places)


def rebuilt(function: types.FunctionType, definition: ast.FunctionDef, helpers: dict[str, Callable[..., Any]]) -> Any:
    """Compile `definition` (named BODY) with `helpers` in scope.

    Globals, closure and defaults are those of `function`.
    """
    free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells = {name: types.CellType(helper) for name, helper in helpers.items()} | free
    given = ast.arguments([], [ast.arg(name) for name in cells], None, [], [], None, [])
    outer = made_definition("__treadle_outer", given, [definition])
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, definition)], []))
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    outer_code = next(each for each in code.co_consts if isinstance(each, types.CodeType))
    inner = next(c for c in outer_code.co_consts if isinstance(c, types.CodeType) and c.co_name == BODY)
    result = types.FunctionType(
        inner.replace(co_name=function.__code__.co_name),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in inner.co_freevars),
    )
    result.__kwdefaults__ = function.__kwdefaults__
    return result
