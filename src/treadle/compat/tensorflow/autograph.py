"""tf.function's view of Python: `if`, `while` and `for` over tensors become tf.cond and tf.while_loop.

A statement becomes functions of the names that it assigns to, called by a helper (`staging`; `expressions` for what stands in
them): as Python would where the condition is a Python value, in the graph where it is a tensor.

    if c: y = f(x)                     def then(y): y = f(x); return (y,)
    else: y = g(x)           ->        def other(y): y = g(x); return (y,)
                                       (y,) = if_(c, then, other, ...)

`break`, `continue` and `return` in loops become flags first (`jumps`). What a statement assigns to beside names, `d["k"]`
and `a.b`, is set and read in the functions. Functions that the function calls are rewritten too, except those of Python,
NumPy and treadle. Left to Python are loops that a jump leaves out of a `try`, statements with functions inside that read what
they assign, and functions whose source is not to be had: a tensor's truth is an error there that says what to do.
"""

from __future__ import annotations

import ast
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from treadle.compat.source import definition_of, rebuilt
from treadle.compat.tensorflow import agreement, expressions, staging
from treadle.compat.tensorflow.jumps import VALUE, Lowering, named
from treadle.compat.tensorflow.liveness import LOOPS, SCOPES, assigned, own
from treadle.compat.tensorflow.places import Places

_STATEMENTS = ("if_", "returned_if", "initialized", "while_", "for_", "chosen")
_NAMES = ("Names", "value_of", "undefined")
_EXPRESSIONS = ("both", "either", "both_in_turn", "either_in_turn", "negated", "equal", "unequal")
_OF_OTHERS = frozenset((*sys.stdlib_module_names, "numpy", "treadle")) - {"__main__"}
_converted: weakref.WeakKeyDictionary[types.FunctionType, Any] = weakref.WeakKeyDictionary()


def called(function: Any) -> Any:
    """What is called in place of `function`: the same with its statements rewritten, if it is a user's."""
    if isinstance(function, (type, types.BuiltinFunctionType)) and function in expressions.BUILTINS:
        return expressions.BUILTINS[function]
    if isinstance(function, types.MethodType):
        return types.MethodType(called(function.__func__), function.__self__)
    if not isinstance(function, types.FunctionType) or str(function.__module__).partition(".")[0] in _OF_OTHERS:
        return function
    if function not in _converted:
        made = converted(function)
        _converted[function] = None if made is function else made
    return _converted[function] or function


HELPERS: dict[str, Callable[..., Any]] = {
    f"__treadle_{name}": getattr(module, name)
    for module, names in ((staging, _STATEMENTS), (agreement, _NAMES), (expressions, _EXPRESSIONS))
    for name in names
}
HELPERS["__treadle_called"] = called

_REFUSED = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr, ast.AsyncFor, ast.AsyncWith, ast.Match,
)  # fmt: skip
_JUMPS = (ast.Break, ast.Continue, ast.Return)


def do_not_convert(function: Any = None) -> Any:
    """The function with its statements left to Python; also as a decorator with parentheses."""
    if function is None:
        return do_not_convert
    if isinstance(function, types.FunctionType):
        _converted[function] = None
    return function


def converted(function: Any) -> Any:
    """`function` with its statements over tensors in the graph; itself where that cannot be."""
    if not isinstance(function, types.FunctionType) or set(HELPERS) & set(function.__code__.co_freevars):
        return function  # the latter: it was defined inside one that has been rewritten, and so has it
    try:
        definition = definition_of(function)
    except (OSError, TypeError, SyntaxError):
        return function
    if definition is None or any(_stays(node) for node in ast.walk(definition)):
        return function
    where = f"{function.__code__.co_filename}, {function.__qualname__}"
    definition.body = _Rewrite(where).block(Lowering().function(definition.body), tail=True)
    return rebuilt(function, ast.fix_missing_locations(definition), HELPERS)


def _stays(node: ast.AST) -> bool:
    """Whether a function with this in it is left as it is."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    private = name.startswith("__") and not name.endswith("__")  # means something else inside its class
    return isinstance(node, _REFUSED) or private or name in ("super", "locals", "__class__")


def jumps(nodes: Sequence[ast.AST], kinds: tuple[type[ast.AST], ...] = _JUMPS) -> bool:
    """Whether statements leave what is around them."""
    return any(isinstance(node, kinds) for node in own(nodes))


def keeps(nodes: Sequence[ast.AST], names: Sequence[str]) -> bool:
    """Whether functions made in statements read names that these assign to: they would see other variables in a part."""
    scopes = [inner for node in nodes for inner in ast.walk(node) if isinstance(inner, (*SCOPES, ast.GeneratorExp))]
    read = {inner.id for scope in scopes for inner in ast.walk(scope) if isinstance(inner, ast.Name)}
    own = {inner.arg for scope in scopes for inner in ast.walk(scope) if isinstance(inner, ast.arg)}
    return bool((read - own) & set(names))


def always_returns(block: Sequence[ast.stmt]) -> bool:
    """Whether every way through the block returns or raises."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise))


class _Rewrite(ast.NodeTransformer):
    def __init__(self, function: str) -> None:
        self._function_text = function
        self._count = 0

    def block(self, statements: Sequence[ast.stmt], *, tail: bool) -> list[ast.stmt]:
        """Statements anew; `tail`: the function returns behind them."""
        made: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            if tail and isinstance(statement, ast.If) and jumps([statement], (ast.Return,)):
                return [*made, *self._returning(statement, list(statements[number + 1 :]))]
            found = self.visit(statement)
            made.extend(found if isinstance(found, list) else [found])
        return made

    def _returning(self, node: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        """An `if` in which something returns, with what follows it put into its ways."""
        end = rest if always_returns(rest) else [*rest, ast.Return(ast.Constant(value=None))]
        none = Places(())
        given = assigned([*node.body, *node.orelse])
        needed = sorted(_live(node, given) - {VALUE})
        ways = []
        for way, branch in zip((node.body, node.orelse), agreement.BRANCHES, strict=True):
            there = (named("__treadle_staged"), ast.Constant(value=branch))
            check = _call("initialized", *there, self._names(needed, none, node), none.values(needed))
            ways.append(
                way if always_returns(way) else [*way, ast.copy_location(ast.Expr(check), node), *deepcopy(end)]
            )
        names = assigned([*ways[0], *ways[1]])
        functions = [self._part(names, none, self.block(way, tail=True), node, "__treadle_staged") for way in ways]
        parts = [self.visit(node.test), *(named(f.name) for f in functions), ast.Constant(value=staging.RESULT)]
        call = _call("returned_if", *parts, self._where(node), none.values(names))
        return [*functions, ast.copy_location(ast.Return(call), node)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        around, self._function_text = self._function_text, f"{self._function_text}.<locals>.{node.name}"
        node.body = self.block(Lowering().function(node.body), tail=True)
        self._function_text = around
        return node

    def visit_If(self, node: ast.If) -> Any:
        if jumps([*node.body, *node.orelse]):
            return self._in_place(node)
        names = assigned([*node.body, *node.orelse])
        if keeps([*node.body, *node.orelse], names):
            return self._in_place(node)
        places = Places.of([*node.body, *node.orelse], names)
        ways = [self._function(names, places, way, node) for way in (node.body, node.orelse)]
        parts = [self.visit(node.test), *(named(way.name) for way in ways), self._names(names, places, node)]
        return [*ways, *_assign(names, places, _call("if_", *parts, places.values(names)), node)]

    def visit_While(self, node: ast.While) -> Any:
        if jumps(node.body) or node.orelse:
            return self._in_place(node)
        names = assigned(node.body)
        if keeps(node.body, names):
            return self._in_place(node)
        places = Places.of(node.body, names)
        test = self._part(names, places, [ast.Return(self.visit(node.test))], node)
        body = self._function(names, places, node.body, node)
        how = (self._names(names, places, node), places.values(names))
        return [test, body, *_assign(names, places, _call("while_", named(test.name), named(body.name), *how), node)]

    def visit_For(self, node: ast.For) -> Any:
        if jumps(node.body) or node.orelse:
            return self._in_place(node)
        names = list(dict.fromkeys([*assigned(node.body), *assigned([node.target])]))
        if keeps(node.body, names):
            return self._in_place(node)
        places = Places.of(node.body, names)
        step = ast.copy_location(ast.Assign([node.target], named("__treadle_item")), node)
        body = self._function(names, places, [step, *node.body], node, first="__treadle_item")
        goes_on = self._part(names, places, [ast.Return(self.visit(_going(node)))], node)
        target = ast.Constant(value=node.target.id if isinstance(node.target, ast.Name) else "")
        how = (target, self._names(names, places, node), places.values(names))
        call = _call("for_", self.visit(node.iter), named(body.name), named(goes_on.name), *how)
        return [body, goes_on, *_assign(names, places, call, node)]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.func = ast.copy_location(_call("called", node.func), node.func)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        name = ast.Constant(value=ast.unparse(node.test))
        ways = (_later(self.visit(node.body)), _later(self.visit(node.orelse)))
        return ast.copy_location(_call("chosen", self.visit(node.test), *ways, name, self._where(node)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        values: list[ast.expr] = [self.visit(value) for value in node.values]
        found, helper = values[-1], "both" if isinstance(node.op, ast.And) else "either"
        for value, later in zip(reversed(values[:-1]), reversed(node.values[1:]), strict=True):
            if any(isinstance(part, (ast.Call, ast.Subscript)) for part in ast.walk(later)):
                helper = helper.partition("_")[0] + "_in_turn"  # it may fail where the first part does not hold
            found = _call(helper, value, _later(found))
        return ast.copy_location(found, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ast.copy_location(_call("negated", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1 and all(isinstance(each, (ast.Name, ast.Constant)) for each in node.comparators):
            sides = [node.left, *node.comparators]
            pairs = [ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)]
            return self.visit_BoolOp(ast.copy_location(ast.BoolOp(ast.And(), list[ast.expr](pairs)), node))
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            helper = "equal" if isinstance(node.ops[0], ast.Eq) else "unequal"
            return ast.copy_location(_call(helper, node.left, node.comparators[0]), node)
        return node

    def _in_place(self, node: ast.If | ast.While | ast.For) -> ast.stmt:
        """The statement itself, with what is inside it anew."""
        if getattr(node, "treadle_stops", None):
            node.body.append(ast.If(ast.UnaryOp(ast.Not(), _going(node)), [ast.Break()], []))
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
        else:
            node.test = self.visit(node.test)
        node.body, node.orelse = self.block(node.body, tail=False), self.block(node.orelse, tail=False)
        return node

    def _function(
        self, names: Sequence[str], places: Places, body: Sequence[ast.stmt], at: ast.stmt, first: str = ""
    ) -> ast.FunctionDef:
        """`body` as a function of what it assigns to, which it returns."""
        result = ast.Return(places.values(names))
        return self._part(names, places, [*self.block(body, tail=False), result], at, first)

    def _part(
        self, names: Sequence[str], places: Places, body: Sequence[ast.stmt], at: ast.stmt, first: str = ""
    ) -> ast.FunctionDef:
        self._count += 1
        given = [*([first] if first else []), *names, *places.names]
        arguments = ast.arguments([], [ast.arg(name) for name in given], None, [], [], None, [])
        more: list[Any] = [[]] if "type_params" in ast.FunctionDef._fields else []
        begin = [*_unset(names), *places.set()]
        made = ast.FunctionDef(f"__treadle_part{self._count}", arguments, [*begin, *body], [], None, None, *more)
        return ast.fix_missing_locations(ast.copy_location(made, at))

    def _names(self, names: Sequence[str], places: Places, node: ast.stmt) -> ast.expr:
        """What a statement assigns to, for its helper: the places are read behind it."""
        live = _live(node, names)
        flags = (*(name in live for name in names), *(True for _ in places.all))
        options = isinstance(node, LOOPS) and any(map(_sets_options, own(node.body)))
        return _call(
            "Names", _tuple((*names, *places.all)), _tuple(flags), self._where(node), ast.Constant(value=options)
        )

    def _where(self, node: ast.stmt | ast.expr) -> ast.expr:
        return ast.Constant(value=f"{self._function_text}, line {node.lineno}")


def _call(helper: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(named(f"__treadle_{helper}"), list(arguments), [])


def _tuple(values: Sequence[str | bool]) -> ast.expr:
    return ast.Tuple([ast.Constant(value=value) for value in values], ast.Load())


def _later(expression: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), expression)


def _live(node: ast.stmt, names: Sequence[str]) -> set[str]:
    """Which of the names are read behind a statement; all where that is not known, in a class."""
    return set(names) & set(getattr(node, "treadle_live", names))


def _sets_options(node: ast.AST) -> bool:
    return "set_loop_options" in (getattr(node, "id", ""), getattr(node, "attr", ""))


def _going(node: ast.AST) -> ast.expr:
    """Whether a `for` goes on: none of the flags that end it is set."""
    flags: list[ast.expr] = [ast.UnaryOp(ast.Not(), named(flag)) for flag in getattr(node, "treadle_stops", ())]
    return ast.BoolOp(ast.And(), flags) if len(flags) > 1 else flags[0] if flags else ast.Constant(value=True)


def _assign(names: Sequence[str], places: Places, call: ast.Call, at: ast.stmt) -> list[ast.stmt]:
    """The names and places are what the helper returns; names that it leaves undefined are deleted."""
    given = [*names, *places.names]
    if not given:
        return [ast.copy_location(ast.Expr(call), at)]
    targets = ast.Tuple([named(name, store=True) for name in given], ast.Store())
    gone: list[ast.stmt] = [ast.Delete([ast.Name(name, ast.Del())]) for name in places.names]
    made = [ast.Assign([targets], call), *places.set(), *gone, *_unset(names)]
    return [ast.fix_missing_locations(ast.copy_location(statement, at)) for statement in made]


def _unset(names: Sequence[str]) -> list[ast.stmt]:
    """Delete the names that stand for none."""
    return [stated for name in names for stated in ast.parse(f"if {name} is __treadle_undefined: del {name}").body]
