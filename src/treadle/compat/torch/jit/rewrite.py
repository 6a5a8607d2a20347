"""Rewrites a function's source into a generator that is suspended at calls, waits, and conditions on tensors.

`f(x)` becomes `(yield from call(f, x))`, `if c:` becomes `if (yield from truth(c)):`, `raise e` becomes
`raise raised(e)`, and comprehensions become functions of their own, as a generator cannot yield from inside them. The
rest stays as it is.
"""

from __future__ import annotations

import ast
import builtins
import dis
import types
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from treadle.compat.source import definition_of, made_definition, rebuilt
from treadle.compat.torch.jit.code import names_of

CALL, TRUTH, RAISED = "__treadle_call", "__treadle_truth", "__treadle_raised"


class ScriptError(RuntimeError):
    """A function cannot be scripted; the message says which line and why."""


class Error(Exception):
    """A script has raised an exception. It is one of the class that the script names, too."""


def raised(error: Any) -> Any:
    """Returns an exception of a script as an Error, also of its own class where Python can make that."""
    made = error() if isinstance(error, type) else error
    if isinstance(made, Error) or not isinstance(made, Exception):
        return made
    own: Any = type(made)
    kind: Any = _kind_of_raised(own)
    try:
        found: Exception = kind.__new__(kind, *made.args)
    except TypeError:
        return made
    found.args = made.args
    found.__dict__.update(made.__dict__)
    return found


@cache
def _kind_of_raised(kind: Any) -> Any:
    return type(kind.__name__, (Error, kind), {"__module__": kind.__module__})


class _Rewrite(ast.NodeTransformer):
    """Rewrites the body of one function."""

    def __init__(self, where: str, owner: str) -> None:
        self.where = where
        self.owner = owner.lstrip("_")  # the class whose private names are mangled
        self.before: list[ast.stmt] = []  # functions for the comprehensions of the current statement
        self.count = 0

    def _yielding(self, helper: str, args: list[ast.expr], keywords: list[ast.keyword], at: ast.expr) -> ast.expr:
        call = ast.Call(ast.Name(helper, ast.Load()), args, keywords)
        return ast.fix_missing_locations(ast.copy_location(ast.YieldFrom(call), at))

    def _mangled(self, name: str) -> str:
        private = self.owner and name.startswith("__") and not name.endswith("__") and not name.startswith("__treadle")
        return f"_{self.owner}{name}" if private else name

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        node.attr = self._mangled(node.attr)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        node.id = self._mangled(node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals"):
            return node
        return self._yielding(CALL, [node.func, *node.args], node.keywords, node)

    def _truth(self, test: ast.expr) -> ast.expr:
        return self._yielding(TRUTH, [test], [], test)

    def visit_If(self, node: ast.If) -> Any:
        return self._statement(node, test=True)

    def visit_While(self, node: ast.While) -> Any:
        return self._statement(node, test=True)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        node.test = self._truth(node.test)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        return self._statement(node, test=True)

    def visit_Raise(self, node: ast.Raise) -> Any:
        found = self._statement(node)
        if node.exc is not None:
            node.exc = ast.Call(ast.Name(RAISED, ast.Load()), [node.exc], [])
            ast.fix_missing_locations(ast.copy_location(node.exc, node))
        return found

    def _statement(self, node: Any, *, test: bool = False) -> Any:
        """Returns the statement, preceded by the functions that its comprehensions became."""
        outer, self.before = self.before, []
        self.generic_visit(node)
        if test:
            node.test = self._truth(node.test)
        made, self.before = self.before, outer
        return [*made, node] if made else node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name, old in ast.iter_fields(node):
            if isinstance(old, list) and old and isinstance(old[0], ast.stmt):
                new: list[ast.stmt] = []
                for statement in old:
                    made = self.visit(statement)
                    new.extend(made if isinstance(made, list) else [made])
                setattr(node, name, new)
            elif isinstance(old, list):
                setattr(node, name, [self.visit(each) if isinstance(each, ast.AST) else each for each in old])
            elif isinstance(old, ast.AST):
                setattr(node, name, self.visit(old))
        return node

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt) and type(node) not in (ast.If, ast.While, ast.Assert, ast.Raise, ast.FunctionDef):
            refused = (ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.AsyncFor, ast.AsyncWith)
            if isinstance(node, refused):
                self._refuse(node, type(node).__name__)
            return self._statement(node)
        return super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self._refuse(node, "a function inside a scripted function")

    def visit_Yield(self, node: ast.Yield) -> Any:
        self._refuse(node, "yield")

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        self._refuse(node, "yield from")

    def visit_Await(self, node: ast.Await) -> Any:
        self._refuse(node, "await")

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def _refuse(self, node: ast.stmt | ast.expr, what: str) -> None:
        raise ScriptError(f"{self.where}, line {node.lineno}: torch.jit.script does not take {what}; move it outside")

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        add = ast.Expr(_method("append", [node.elt]))
        return self._comprehension(node, ast.List([], ast.Load()), add)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        return self._comprehension(node, ast.Set([ast.Starred(ast.Tuple([], ast.Load()), ast.Load())]),
                                   ast.Expr(_method("add", [node.elt])))  # fmt: skip

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._comprehension(node, ast.List([], ast.Load()), ast.Expr(_method("append", [node.elt])))

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        target = ast.Subscript(ast.Name("__treadle_made", ast.Load()), node.key, ast.Store())
        return self._comprehension(node, ast.Dict([], []), ast.Assign([target], node.value))

    def _comprehension(self, node: Any, empty: ast.expr, add: ast.stmt) -> ast.expr:
        """Returns a call of a new function that builds the result in loops."""
        self.count += 1
        name = f"__treadle_comprehension{self.count}"
        first = self.visit(node.generators[0].iter)
        inner: ast.stmt = add
        for index, part in reversed(list(enumerate(node.generators))):
            for test in reversed(part.ifs):
                inner = ast.If(test, [inner], [])
            source = ast.Name("__treadle_source", ast.Load()) if index == 0 else part.iter
            inner = ast.For(part.target, source, [inner], [])
        store, load = ast.Name("__treadle_made", ast.Store()), ast.Name("__treadle_made", ast.Load())
        outer, self.before = self.before, []
        for statement in (inner, add, node):
            ast.copy_location(statement, node)
        ast.fix_missing_locations(inner)
        made = self.visit(inner)
        nested, self.before = self.before, outer
        body = [ast.Assign([store], empty), *nested, *(made if isinstance(made, list) else [made]), ast.Return(load)]
        never = ast.If(ast.Constant(value=False), [ast.Expr(ast.Yield(None))], [])
        arguments = ast.arguments([], [ast.arg("__treadle_source")], None, [], [], None, [])
        function = made_definition(name, arguments, [never, *body])
        self.before.append(ast.fix_missing_locations(ast.copy_location(function, node)))
        call = ast.Call(ast.Name(name, ast.Load()), [first], [])
        return ast.fix_missing_locations(ast.copy_location(ast.YieldFrom(call), node))


def require_names(function: types.FunctionType) -> None:
    """Raises ScriptError if a function reads a name that is defined nowhere, as PyTorch does when it is scripted."""
    code = function.__code__
    missing = names_of(code).globals_.difference(function.__globals__, vars(builtins), [function.__name__])
    for name, line in _names_read(code) if missing else ():
        if name in missing:
            raise ScriptError(f"undefined value {name}: {code.co_filename}, {function.__qualname__}, line {line}")


def _names_read(code: types.CodeType) -> Iterator[tuple[str, int | None]]:
    """Yields the global names that code reads, also in comprehensions and lambdas inside it, with their lines."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval, None if instruction.positions is None else instruction.positions.lineno
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_read(inner)


def _method(name: str, args: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name("__treadle_made", ast.Load()), name, ast.Load()), args, [])


def generator_of(function: types.FunctionType, helpers: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Returns `function`, recompiled from its source, as a generator function.

    `helpers` are what CALL, TRUTH and RAISED name in it. It shares globals, closure and defaults with the original.
    Raises ScriptError if the source cannot be read or cannot be scripted.
    """
    where = f"{function.__code__.co_filename}, {function.__qualname__}"
    try:
        definition = definition_of(function)
    except (OSError, TypeError, SyntaxError) as error:
        raise ScriptError(
            f"{where}: torch.jit.script needs the function's source, which cannot be read: {error}"
        ) from None
    if definition is None:
        raise ScriptError(f"{where}: torch.jit.script takes functions written with def, and modules")
    around = function.__qualname__.split(".")[-2:-1]
    rewrite = _Rewrite(where, "".join(around).replace("<locals>", ""))
    rewrite.generic_visit(definition)
    never = ast.If(ast.Constant(value=False), [ast.Expr(ast.Yield(None))], [])
    definition.body.insert(0, ast.fix_missing_locations(ast.copy_location(never, definition.body[0])))
    made: Callable[..., Any] = rebuilt(function, definition, helpers)
    return made
