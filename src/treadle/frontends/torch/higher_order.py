"""Rules for PyTorch's higher-order ops, which run graphs that they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.calls import Importer
from treadle.frontends.torch.tensor import Box

RunInner = Callable[[Any, Sequence[Any]], Any]
"""(graph module, arguments) -> its outputs; adds its nodes to the graph that is being built."""

Rule = Callable[[Importer, Sequence[Any], RunInner], Any]


def _grad_mode(importer: Importer, args: Sequence[Any], inner: RunInner) -> Any:  # noqa: ARG001 - every rule has it
    """Takes (enabled, graph, operands); runs the graph, as treadle has no gradients to switch."""
    return inner(args[1], args[2:])


def _autocast(importer: Importer, args: Sequence[Any], inner: RunInner) -> Any:  # noqa: ARG001 - part of the signature
    """Takes (device, dtype, enabled, cache, graph, operands). Raises Unsupported where autocast is enabled."""
    if args[2]:
        raise Unsupported("autocast; cast the module with .to(dtype), or leave it in float32")
    return inner(args[4], args[5:])


def _cond(importer: Importer, args: Sequence[Any], inner: RunInner) -> Any:
    """Takes (condition, graph if true, graph if false, operands).

    A condition known now selects one graph; otherwise both are computed, and `where` selects the results.
    """
    condition, yes, no, operands = args[:4]
    if isinstance(condition, bool):
        return inner(yes if condition else no, operands)
    test = condition.value if isinstance(condition, Number) else condition.read()
    if test.data is not None:
        return inner(yes if bool(test.data.reshape(())) else no, operands)
    both = [inner(graph, operands) for graph in (yes, no)]
    results = []
    for left, right in zip(*both, strict=True):
        if not isinstance(left, Box) or not isinstance(right, Box):
            raise Unsupported("its branches return something that is no tensor")
        one, other = left.read(), right.read()
        if importer.b.shape(one) != importer.b.shape(other):
            raise Unsupported("its branches return tensors of different shapes")
        results.append(Box(importer.b.add("where", importer.b.reshape(test, []), one, other)))
    return results


RULES: dict[str, Rule] = {
    "cond": _cond,
    "wrap_with_autocast": _autocast,
    "wrap_with_set_grad_enabled": _grad_mode,
}
"""Higher-order op -> its rule."""
