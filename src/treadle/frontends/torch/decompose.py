"""PyTorch's decompositions of ops that have no rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._guards import tracing
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.dtypes import example_of
from treadle.frontends.torch.exporter_warnings import without_exporter_warnings
from treadle.frontends.torch.open_trace import OpenTrace
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import is_expression
from treadle.graph.shape import is_open

BEYOND_CORE = frozenset({"dist", "grid_sampler_2d", "ldexp"})
"""Core ATen ops for which PyTorch nevertheless has a decomposition into ops with rules."""


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions, decomposition_table

    more = {op: function for op, function in decomposition_table.items() if _stem(op) in BEYOND_CORE}
    return {**more, **core_aten_decompositions()}


def _stem(op: Any) -> str:
    """Returns the name of an op, without its overload."""
    return op._opname if isinstance(op, torch._ops.OpOverload) else ""


@contextmanager
def _without_onednn() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def overload_of(schema: Any) -> Any:
    """Returns the op that `schema` describes, or None."""
    namespace, name = schema.name.split("::", 1)
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return None if packet is None else getattr(packet, schema.overload_name or "default", None)


def decomposition_of(op: Any) -> Callable[..., Any] | None:
    """Returns PyTorch's function of simpler ops that computes `op`, or None."""
    if op is None or not torch._C._dispatch_has_kernel(op.name()):
        return None
    found = _table().get(op)
    if found is not None:
        return found
    if isinstance(op, torch._ops.OpOverload) and op.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CompositeImplicitAutograd
    ):
        composed: Callable[..., Any] = op.decompose
        return composed
    return None


def decompose(schema: Any, given: Sequence[Any]) -> tuple[fx.GraphModule, list[Any]]:
    """Returns a graph of simpler ops for these arguments, and its inputs: the tensors and open sizes among them.

    Raises Unsupported if PyTorch has no decomposition.
    """
    op = overload_of(schema)
    function = decomposition_of(op)
    if function is None:
        raise Unsupported("treadle has no rule for it, and PyTorch no decomposition")
    leaves, spec = pytree.tree_flatten(list(given))
    if any(isinstance(leaf, Number) for leaf in leaves):
        raise Unsupported("it takes a number that is known only when the graph runs")
    varying = [isinstance(leaf, Box) or is_expression(leaf) for leaf in leaves]
    inputs = [leaf for leaf, varies in zip(leaves, varying, strict=True) if varies]
    names = [argument.name for argument in schema.arguments]
    positional = sum(not argument.kwarg_only for argument in schema.arguments)

    def traced(*fakes: Any) -> Any:
        rest = iter(fakes)
        full = [next(rest) if varies else leaf for leaf, varies in zip(leaves, varying, strict=True)]
        args = pytree.tree_unflatten(full, spec)
        return function(*args[:positional], **dict(zip(names[positional:], args[positional:], strict=True)))

    def trace(whole: bool) -> fx.GraphModule:
        """Traces the decomposition. With `whole`, composite ops are kept where possible, as they may have rules.

        oneDNN is disabled, because its fused ops have no rules. The tracing context is reset, because symbols of this
        trace must not become guards of a graph that torch.compile is capturing.
        """
        with tracing(None), torch.no_grad(), without_exporter_warnings(), _without_onednn():
            if sizes is not None:
                return sizes.trace(traced, examples, pre_dispatch=whole)
            module: fx.GraphModule = make_fx(traced, tracing_mode="fake", pre_dispatch=whole)(*examples)
        return module

    values = [leaf.read() for leaf in inputs if isinstance(leaf, Box)]
    if any(value.shape is None for value in values):
        raise NeedsShapeError
    sizes = OpenTrace() if len(values) < len(inputs) or any(is_open(value.static_shape) for value in values) else None
    try:
        examples = [_example(leaf, sizes) for leaf in inputs]
        module = next((made for made in map(trace, (True, False)) if op not in _targets(made)), None)
    except Exception as error:
        raise Unsupported(f"PyTorch cannot decompose it: {str(error).splitlines()[0]}") from error
    if module is None:
        raise Unsupported("treadle has no rule for it")
    if sizes is not None:
        sizes.assume()
    return module, inputs


def _example(leaf: Any, sizes: OpenTrace | None) -> Any:
    """Returns what stands for an input of a trace."""
    if not isinstance(leaf, Box):
        return leaf if sizes is None else sizes.number(leaf)
    value = leaf.read()
    make = example_of if sizes is None else sizes.example
    return make(value.known_dtype, value.static_shape)


def _targets(module: fx.GraphModule) -> set[Any]:
    return {node.target for node in module.graph.nodes if node.op == "call_function"}
