"""Runs a graph with open sizes: lowered once, its calls bound to numbers in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.kernel_runner import run_calls
from treadle.codegen.target import detect
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import evaluate, is_assumed
from treadle.passes.base import PassContext
from treadle.passes.choose_kernels import choose_kernels
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.searches import FUNCTIONS
from treadle.passes.pipeline import optimize
from treadle.passes.specialize import specialize_open
from treadle.plan.bound import bound_call

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
        return all(is_assumed(guard, sizes, FUNCTIONS) for guard in self.facts.guards)

    def run(self, inputs: Mapping[str, Array], **sizes: int) -> list[Array]:
        """The outputs for `inputs` of these sizes. Shapes of values are bound for good: one run for each instance."""
        assert self.holds(**sizes), [str(g) for g in self.facts.guards if not is_assumed(g, sizes, FUNCTIONS)]
        calls = [bound_call(call, sizes, FUNCTIONS) for call in self.calls]
        values = {value for call in calls for value in (*call.writes, *call.reads)}
        values |= {*self.graph.inputs, *self.graph.outputs, *self.aliases}
        values |= {value for value, _ in self.aliases.values()}
        for value in values:
            value.shape = tuple(evaluate(dim, sizes, FUNCTIONS) for dim in value.static_shape)
        ctx = LowerContext(self.graph, detect())
        ctx.aliases = {
            value: (base, evaluate(offset, sizes, FUNCTIONS)) for value, (base, offset) in self.aliases.items()
        }
        found = run_calls(self.graph, calls, ctx, inputs, target=detect())
        return [found[value.name] for value in self.graph.outputs]
