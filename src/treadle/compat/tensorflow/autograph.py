"""Rewrites Python functions for tf.function: `if`, `while` and `for` over tensors become tf.cond and tf.while_loop.

A statement becomes functions of the names that it assigns to, and a call of a helper (`statements`; `expressions` for
expressions). The helper does what Python would if the condition is a Python value, and adds an op if it is a tensor.

    if c: y = f(x)                     def then(y): y = f(x); return (y,)
    else: y = g(x)           ->        def other(y): y = g(x); return (y,)
                                       (y,) = if_(c, then, other, ...)

`break`, `continue` and `return` in loops become flags first (`jumps`). Assignments to `d["k"]` and `a.b` are made
inside the functions (`targets`). Names that inner functions read are declared `nonlocal` in them, so that an inner
function sees the value of the iteration or branch that calls it. Callees are rewritten too, except those of Python,
NumPy and treadle. Left to Python are loops with a jump out of a `try` and functions without source; there the truth of
a tensor is an error that says what to use.
"""

from __future__ import annotations

import ast
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from treadle.compat.source import definition_of, definition_of_lambda, made_definition, rebuilt
from treadle.compat.tensorflow import control_checks, expressions, statements
from treadle.compat.tensorflow.jumps import VALUE, Lowering, named
from treadle.compat.tensorflow.liveness import LOOPS, assigned, own_nodes, read_by_inner_scopes
from treadle.compat.tensorflow.targets import Targets

_STATEMENTS = ("if_", "returned_if", "initialized", "while_", "for_", "chosen")
_NAMES = ("Names", "value_or_undefined", "undefined")
_EXPRESSIONS = ("both", "either", "both_in_turn", "either_in_turn", "negated", "equal", "unequal")
_OF_OTHERS = frozenset((*sys.stdlib_module_names, "numpy", "treadle")) - {"__main__"}
_conversions: weakref.WeakKeyDictionary[types.FunctionType, Any] = weakref.WeakKeyDictionary()


def convert_callee(function: Any) -> Any:
    """Return the function to call in place of `function`: if it is a user's, with its statements rewritten."""
    if isinstance(function, (type, types.BuiltinFunctionType)) and function in expressions.BUILTINS:
        return expressions.BUILTINS[function]
    if isinstance(function, types.MethodType):
        return types.MethodType(convert_callee(function.__func__), function.__self__)
    if not isinstance(function, types.FunctionType) or str(function.__module__).partition(".")[0] in _OF_OTHERS:
        return function
    if function not in _conversions:
        made = convert(function)
        _conversions[function] = None if made is function else made
    return _conversions[function] or function


HELPERS: dict[str, Callable[..., Any]] = {
    f"__treadle_{name}": getattr(module, name)
    for module, names in ((statements, _STATEMENTS), (control_checks, _NAMES), (expressions, _EXPRESSIONS))
    for name in names
}
HELPERS["__treadle_called"] = convert_callee

_REFUSED = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr, ast.AsyncFor, ast.AsyncWith,
    ast.Match,
)  # fmt: skip
_JUMPS = (ast.Break, ast.Continue, ast.Return)


def do_not_convert(function: Any = None) -> Any:
    """Exclude a function from rewriting. It is a decorator, with or without parentheses.

    See tf.autograph.experimental.do_not_convert in TensorFlow's documentation.
    """
    if function is None:
        return do_not_convert
    if isinstance(function, types.FunctionType):
        _conversions[function] = None
    return function


def convert(function: Any) -> Any:
    """Return `function` with its statements rewritten, or `function` itself if that is impossible."""
    if not isinstance(function, types.FunctionType) or set(HELPERS) & set(function.__code__.co_freevars):
        return function  # a function with helpers was defined inside a rewritten one, and is rewritten itself
    try:
        definition = definition_of(function) or definition_of_lambda(function)
    except (OSError, TypeError, SyntaxError):
        return function
    if definition is None or any(_is_unconvertible(node) for node in ast.walk(definition)):
        return function
    where = f"{function.__code__.co_filename}, {function.__qualname__}"
    definition.body = _Rewriter(where).function(definition)
    return rebuilt(function, ast.fix_missing_locations(definition), HELPERS)


def _is_unconvertible(node: ast.AST) -> bool:
    """Return whether a function that contains this node is not rewritten."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    private = name.startswith("__") and not name.endswith("__")  # Python changes such names inside classes
    return isinstance(node, _REFUSED) or private or name in ("super", "locals", "__class__")


def contains_jump(nodes: Sequence[ast.AST], kinds: tuple[type[ast.AST], ...] = _JUMPS) -> bool:
    """Return whether statements contain a jump out of them."""
    return any(isinstance(node, kinds) for node in own_nodes(nodes))


def always_returns(block: Sequence[ast.stmt]) -> bool:
    """Return whether every path through the block returns or raises."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise))


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function: str) -> None:
        self._function_text = function
        self._count = 0
        self._shared: frozenset[str] = frozenset()
        """The names of the function that its inner functions read."""

    def function(self, node: ast.FunctionDef) -> list[ast.stmt]:
        """Return the rewritten body of a function."""
        around = self._shared
        parameters = {inner.arg for inner in ast.walk(node.args) if isinstance(inner, ast.arg)}
        own = {*assigned(node.body), *parameters}
        self._shared = frozenset(own & read_by_inner_scopes(node.body))
        body = self.block(Lowering().function(node.body), tail=True)
        # An annotation without a value makes a name local where only the functions of statements assign to it.
        local = [ast.AnnAssign(named(name, store=True), ast.Constant(None), None, 1) for name in sorted(self._shared)]
        self._shared = around
        return [*(ast.copy_location(each, node) for each in local), *body]

    def block(self, body: Sequence[ast.stmt], *, tail: bool) -> list[ast.stmt]:
        """Rewrite statements. `tail` says that the function returns after them."""
        made: list[ast.stmt] = []
        for number, statement in enumerate(body):
            if tail and isinstance(statement, ast.If) and contains_jump([statement], (ast.Return,)):
                return [*made, *self._rewrite_returning_if(statement, list(body[number + 1 :]))]
            found = self.visit(statement)
            made.extend(found if isinstance(found, list) else [found])
        return made

    def _rewrite_returning_if(self, node: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite an `if` that contains a `return`, with the statements after it moved into its branches."""
        end = rest if always_returns(rest) else [*rest, ast.Return(ast.Constant(value=None))]
        no_targets = Targets(())
        given = assigned([*node.body, *node.orelse])
        needed = sorted(_live(node, given) - {VALUE})
        branches = []
        for branch, name in zip((node.body, node.orelse), control_checks.BRANCHES, strict=True):
            arguments_of_check = (named("__treadle_staged"), ast.Constant(value=name))
            check = _call(
                "initialized", *arguments_of_check, self._assigned(needed, no_targets, node), no_targets.values(needed)
            )
            branches.append(
                branch
                if always_returns(branch)
                else [*branch, ast.copy_location(ast.Expr(check), node), *deepcopy(end)]
            )
        names = assigned([*branches[0], *branches[1]])
        functions = [
            self._make_function(names, no_targets, self.block(branch, tail=True), node, "__treadle_staged")
            for branch in branches
        ]
        parts = [self.visit(node.test), *(named(f.name) for f in functions), ast.Constant(value=statements.RESULT)]
        call = _call("returned_if", *parts, self._where(node), no_targets.values(names))
        return [*functions, ast.copy_location(ast.Return(call), node)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        around, self._function_text = self._function_text, f"{self._function_text}.<locals>.{node.name}"
        node.body = self.function(node)
        self._function_text = around
        return node

    def visit_If(self, node: ast.If) -> Any:
        if contains_jump([*node.body, *node.orelse]):
            return self._keep_in_python(node)
        names = assigned([*node.body, *node.orelse])
        targets = Targets.of([*node.body, *node.orelse], names)
        branches = [self._block_function(names, targets, branch, node) for branch in (node.body, node.orelse)]
        parts = [
            self.visit(node.test),
            *(named(branch.name) for branch in branches),
            self._assigned(names, targets, node),
        ]
        return [*branches, *_assign(names, targets, _call("if_", *parts, targets.values(names)), node)]

    def visit_While(self, node: ast.While) -> Any:
        if contains_jump(node.body) or node.orelse:
            return self._keep_in_python(node)
        names = assigned(node.body)
        targets = Targets.of(node.body, names)
        test = self._make_function(names, targets, [ast.Return(self.visit(node.test))], node)
        body = self._block_function(names, targets, node.body, node)
        how = (self._assigned(names, targets, node), targets.values(names))
        return [test, body, *_assign(names, targets, _call("while_", named(test.name), named(body.name), *how), node)]

    def visit_For(self, node: ast.For) -> Any:
        if contains_jump(node.body) or node.orelse:
            return self._keep_in_python(node)
        names = list(dict.fromkeys([*assigned(node.body), *assigned([node.target])]))
        targets = Targets.of(node.body, names)
        step = ast.copy_location(ast.Assign([node.target], named("__treadle_item")), node)
        body = self._block_function(names, targets, [step, *node.body], node, first="__treadle_item")
        continues = self._make_function(names, targets, [ast.Return(self.visit(_continues(node)))], node)
        target = ast.Constant(value=node.target.id if isinstance(node.target, ast.Name) else "")
        how = (target, self._assigned(names, targets, node), targets.values(names))
        call = _call("for_", self.visit(node.iter), named(body.name), named(continues.name), *how)
        return [body, continues, *_assign(names, targets, call, node)]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.func = ast.copy_location(_call("called", node.func), node.func)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        name = ast.Constant(value=ast.unparse(node.test))
        branches = (_thunk(self.visit(node.body)), _thunk(self.visit(node.orelse)))
        return ast.copy_location(_call("chosen", self.visit(node.test), *branches, name, self._where(node)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        values: list[ast.expr] = [self.visit(value) for value in node.values]
        found, helper = values[-1], "both" if isinstance(node.op, ast.And) else "either"
        for value, later in zip(reversed(values[:-1]), reversed(node.values[1:]), strict=True):
            if any(isinstance(part, (ast.Call, ast.Subscript)) for part in ast.walk(later)):
                helper = helper.partition("_")[0] + "_in_turn"  # it may fail if the first operand is false
            found = _call(helper, value, _thunk(found))
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

    def _keep_in_python(self, node: ast.If | ast.While | ast.For) -> ast.stmt:
        """Keep the statement and rewrite the statements inside it."""
        if getattr(node, "treadle_stops", None):
            node.body.append(ast.If(ast.UnaryOp(ast.Not(), _continues(node)), [ast.Break()], []))
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
        else:
            node.test = self.visit(node.test)
        node.body, node.orelse = self.block(node.body, tail=False), self.block(node.orelse, tail=False)
        return node

    def _block_function(
        self, names: Sequence[str], targets: Targets, body: Sequence[ast.stmt], at: ast.stmt, first: str = ""
    ) -> ast.FunctionDef:
        """Return `body` as a function that takes and returns the names and targets it assigns."""
        result = ast.Return(targets.values(names))
        return self._make_function(names, targets, [*self.block(body, tail=False), result], at, first)

    def _make_function(
        self, names: Sequence[str], targets: Targets, body: Sequence[ast.stmt], at: ast.stmt, first: str = ""
    ) -> ast.FunctionDef:
        self._count += 1
        shared = [name for name in names if name in self._shared]
        given = [first] if first else []
        given += [f"__treadle_new_{name}" if name in shared else name for name in names]
        given += targets.names
        arguments = ast.arguments([], [ast.arg(name) for name in given], None, [], [], None, [])
        begin: list[ast.stmt] = [ast.Nonlocal(shared)] if shared else []
        begin += [ast.Assign([named(name, store=True)], named(f"__treadle_new_{name}")) for name in shared]
        begin += [*_unset(names), *targets.set()]
        made = made_definition(f"__treadle_part{self._count}", arguments, [*begin, *body])
        return ast.fix_missing_locations(ast.copy_location(made, at))

    def _assigned(self, names: Sequence[str], targets: Targets, node: ast.stmt) -> ast.expr:
        """Return the names and targets that a statement assigns, as an argument of its helper.

        Targets count as live.
        """
        live = _live(node, names)
        flags = (*(name in live for name in names), *(True for _ in targets.all))
        options = isinstance(node, LOOPS) and any(map(_sets_options, own_nodes(node.body)))
        return _call(
            "Names", _tuple((*names, *targets.all)), _tuple(flags), self._where(node), ast.Constant(value=options)
        )

    def _where(self, node: ast.stmt | ast.expr) -> ast.expr:
        return ast.Constant(value=f"{self._function_text}, line {node.lineno}")


def _call(helper: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(named(f"__treadle_{helper}"), list(arguments), [])


def _tuple(values: Sequence[str | bool]) -> ast.expr:
    return ast.Tuple([ast.Constant(value=value) for value in values], ast.Load())


def _thunk(expression: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), expression)


def _live(node: ast.stmt, names: Sequence[str]) -> set[str]:
    """Return the names that are read after a statement; all of them in a class, where that is unknown."""
    return set(names) & set(getattr(node, "treadle_live", names))


def _sets_options(node: ast.AST) -> bool:
    return "set_loop_options" in (getattr(node, "id", ""), getattr(node, "attr", ""))


def _continues(node: ast.AST) -> ast.expr:
    """Return the condition under which a `for` continues: none of its flags is set."""
    flags: list[ast.expr] = [ast.UnaryOp(ast.Not(), named(flag)) for flag in getattr(node, "treadle_stops", ())]
    return ast.BoolOp(ast.And(), flags) if len(flags) > 1 else flags[0] if flags else ast.Constant(value=True)


def _assign(names: Sequence[str], targets: Targets, call: ast.Call, at: ast.stmt) -> list[ast.stmt]:
    """Assign what the helper returns to names and targets. Names that it leaves undefined are deleted."""
    given = [*names, *targets.names]
    if not given:
        return [ast.copy_location(ast.Expr(call), at)]
    assigned_to = ast.Tuple([named(name, store=True) for name in given], ast.Store())
    deletions: list[ast.stmt] = [ast.Delete([ast.Name(name, ast.Del())]) for name in targets.names]
    made = [ast.Assign([assigned_to], call), *targets.set(), *deletions, *_unset(names)]
    return [ast.fix_missing_locations(ast.copy_location(statement, at)) for statement in made]


def _unset(names: Sequence[str]) -> list[ast.stmt]:
    """Delete the names that are undefined."""
    return [stated for name in names for stated in ast.parse(f"if {name} is __treadle_undefined: del {name}").body]
