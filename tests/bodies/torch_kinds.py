"""Loops and branches on data, in TorchScript files and in graphs that torch.compile captures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import treadle
from tests.bodies.kinds import SIZE, WIDE, Kind, Run, as_task, given, products, transposes, weights

Lines = list[str]
"""Lines of a function's body that change x."""
Wrap = Callable[[int, Lines], Lines]


def indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


def counted(level: int, lines: Lines, *, limit: str = "once") -> Lines:
    return [f"for i{level} in range(int({limit}.item())):", *indented(lines)]


def while_loop(level: int, lines: Lines, *, limit: str = "once") -> Lines:
    i = f"i{level}"
    begin = f"{i} = torch.zeros([], dtype=torch.int64)"
    return [begin, f"while bool({i} < {limit}):", *indented([*lines, f"{i} = {i} + 1"])]


FINDS = "x = x[x.sum(1) < 1e30]"
PRODUCT = ["x = torch.tanh(x @ w)"]
TURNS = ["x = torch.tanh(1.5 * x.t())"]
OF_TWO_RANKS = [
    "if bool(yes):", "    y = x.unsqueeze(0)", "else:", "    y = x", f"x = torch.tanh(y.reshape({SIZE}, {SIZE}) @ w)",
]  # fmt: skip


def loop_that_finds(level: int, lines: Lines) -> Lines:
    return while_loop(level, [FINDS, *lines])


def turning(level: int, lines: Lines) -> Lines:
    return while_loop(level, [*lines, "x = x.t()"])


def branch(level: int, lines: Lines) -> Lines:
    return ["if bool(yes):", *indented(lines), "else:", "    x = torch.neg(x)"]


def branch_of_sizes(level: int, lines: Lines) -> Lines:
    return ["if bool(yes):", *indented([FINDS, *lines]), "else:", "    x = torch.cat([x, x])"]


def script(wrap: Wrap, innermost: Lines, depth: int, *, own: int = 1, rows: int = SIZE) -> Run:
    """Returns a script of `depth` bodies around `innermost`, which itself is one of them if `own` is 1."""
    lines = innermost
    for level in range(2, 2 + depth - own):
        lines = wrap(level, lines)
    arguments = ", ".join(f"{name}: Tensor" for name in ("x", "w", "n", "once", "yes"))
    source = "\n".join([f"def f({arguments}) -> Tensor:", *indented([*lines, "return x"]), ""])
    session = treadle.Session(torch.jit.CompilationUnit(source).f)
    return partial(run_session, session, given()[:rows])


def run_session(session: treadle.Session, x: Any, count: int, **options: Any) -> list[Any]:
    feeds = {"x": x, "w": weights(), "n": np.array(count), "once": np.array(1), "yes": np.array(True)}
    names = {port.name for port in session.inputs}
    return list(session.run({name: value for name, value in feeds.items() if name in names}, **options).values())


Function = Callable[..., Any]
"""(x, n, once, yes, w) -> x."""

CAPTURED = 8
"""How deep bodies may be that PyTorch captures: beyond that, it runs into Python's limit of recursion."""
FOUND = 3
"""How deep bodies of scripts may be that find sizes: the time to make them multiplies by level."""


def captured_loop(inner: Function | None) -> Function:
    """A while_loop around `inner`; without it, of products."""
    from torch._higher_order_ops.while_loop import while_loop as loop

    def function(x: Any, n: Any, once: Any, yes: Any, w: Any) -> Any:
        limit = n if inner is None else once

        def step(i: Any, x: Any) -> Any:
            return i + 1, torch.tanh(x @ w) if inner is None else inner(x, n, once, yes, w)

        return loop(lambda i, _: i < limit, step, (torch.zeros([], dtype=torch.int64), x))[1]

    return function


def captured_branch(inner: Function) -> Function:
    def function(x: Any, n: Any, once: Any, yes: Any, w: Any) -> Any:
        return torch.cond(yes, lambda x: inner(x, n, once, yes, w), torch.neg, (x,))

    return function


def compiled(wrap: Callable[[Any], Function], depth: int, *, own: int = 1) -> Run:
    """Returns a program of torch.compile."""
    function = captured_loop(None)
    for _ in range(depth - own):
        function = wrap(function)
    fast = torch.compile(function, backend="treadle", fullgraph=True)

    def call(count: int) -> Any:
        numbers = torch.tensor(count), torch.tensor(1), torch.tensor(True)
        with torch.no_grad():
            return fast(torch.from_numpy(given()), *numbers, torch.from_numpy(weights())).numpy()

    return as_task(call)


Named = partial(Kind, step="tanh")
"""A kind whose nodes are named by what they compute."""

KINDS = {
    "TorchScript for": Named(partial(script, counted, counted(1, PRODUCT, limit="n")), products),
    "TorchScript while": Named(partial(script, while_loop, while_loop(1, PRODUCT, limit="n")), products),
    "TorchScript while that finds sizes": Named(
        partial(script, loop_that_finds, while_loop(1, [FINDS, *PRODUCT], limit="n")), products, FOUND
    ),
    "TorchScript while whose variable changes its shape": Named(
        partial(script, turning, while_loop(1, TURNS, limit="n"), rows=WIDE[0]), transposes, FOUND
    ),
    "TorchScript while around branches of two ranks": Named(
        partial(script, while_loop, while_loop(1, OF_TWO_RANKS, limit="n")), products
    ),
    "TorchScript if": Named(partial(script, branch, while_loop(1, PRODUCT, limit="n"), own=0), products, other="neg"),
    "TorchScript if whose sides find sizes": Named(
        partial(script, branch_of_sizes, while_loop(1, PRODUCT, limit="n"), own=0), products, FOUND, other="cat"
    ),
    "torch.compile while_loop": Named(partial(compiled, captured_loop), products, CAPTURED, gives_way=False),
    "torch.compile cond": Named(
        partial(compiled, captured_branch, own=0), products, CAPTURED, gives_way=False, other="neg"
    ),
}
