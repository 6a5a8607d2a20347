"""Runs a graph with open sizes: lowered once, its calls bound to numbers in Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tests.kernel_runner import run_calls
from treadle.codegen.target import detect
from treadle.graph.dim import Atom, DimExpr, RealExpr
from treadle.graph.facts import Facts, Guard
from treadle.graph.graph import Graph
from treadle.passes.base import PassContext
from treadle.passes.choose_kernels import choose_kernels
from treadle.passes.lower.base import LowerContext, partition
from treadle.passes.pipeline import optimize
from treadle.passes.specialize import specialize_open
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs

_OPS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "units_per_chunk": lambda *args: partition(*args)[1],
}

Array = np.ndarray[Any, Any]


class OpenSizes:
    """A graph whose inputs have named dimensions, optimised and lowered once for the sample sizes `hints`."""

    def __init__(self, graph: Graph, **hints: int) -> None:
        self.facts = Facts()
        self.graph = specialize_open(graph, self.facts, hints)
        optimize(self.graph, PassContext(detect()))
        lowered = choose_kernels(self.graph, detect(), "fast")
        self.calls, self.aliases = lowered.calls, lowered.aliases

    @property
    def families(self) -> list[str]:
        """The kernel family of each call; "python" for functions."""
        return [call.spec.family if call.spec is not None else "python" for call in self.calls]

    def holds(self, **sizes: int) -> bool:
        """Whether the calls serve these sizes."""
        return all(_is_assumed(guard, sizes) for guard in self.facts.guards)

    def run(self, inputs: Mapping[str, Array], **sizes: int) -> list[Array]:
        """The outputs for `inputs` of these sizes. Shapes of values are bound for good: one run for each instance."""
        assert self.holds(**sizes), [str(g) for g in self.facts.guards if not _is_assumed(g, sizes)]
        calls = [_bound(call, sizes) for call in self.calls]
        values = {value for call in calls for value in (*call.writes, *call.reads)}
        values |= {*self.graph.inputs, *self.graph.outputs, *self.aliases}
        values |= {value for value, _ in self.aliases.values()}
        for value in values:
            value.shape = tuple(_number(dim, sizes) for dim in value.static_shape)
        ctx = LowerContext(self.graph, detect())
        ctx.aliases = {value: (base, _number(offset, sizes)) for value, (base, offset) in self.aliases.items()}
        found = run_calls(self.graph, calls, ctx, inputs, target=detect())
        return [found[value.name] for value in self.graph.outputs]


def _bound(call: Call, sizes: dict[str, int]) -> Call:
    offsets = {number: _number(offset, sizes) for number, offset in call.offsets.items()}
    numbers = {name: _number(getattr(call, name), sizes) for name in ("chunks", "scratch")}
    return replace(call, args=_numbers(call.args, sizes), offsets=offsets, **numbers)


def _numbers(args: Any, sizes: dict[str, int]) -> Any:
    if isinstance(args, tuple):
        return tuple(_numbers(arg, sizes) for arg in args)
    if isinstance(args, KernelArgs):
        return replace(args, **{name: _numbers(getattr(args, name), sizes) for name in args.__dataclass_fields__})
    return _number(args, sizes)


def _number(size: Any, sizes: dict[str, int]) -> Any:
    """What `size` is for `sizes` of the symbols."""
    if isinstance(size, RealExpr):
        return _OPS[size.op](*(_number(arg, sizes) for arg in size.args))
    if not isinstance(size, DimExpr):
        return size
    return sum(number * math.prod(_factor(atom, sizes) for atom in product) for product, number in size.terms)


def _factor(atom: Atom, sizes: dict[str, int]) -> int:
    if atom.op == "symbol":
        return sizes[atom.args[0]]
    return int(_OPS[atom.op](*(_number(arg, sizes) for arg in atom.args)))


def _is_assumed(guard: Guard, sizes: dict[str, int]) -> bool:
    left, right = _number(guard.left, sizes), _number(guard.right, sizes)
    answers = {"zero": left == 0, "negative": left < 0, "less": left < right, "less_equal": left <= right}
    return bool(answers[guard.op] == guard.holds)
