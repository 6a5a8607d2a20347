"""The context that lowerings write to, the partition into chunks, and the cost model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from treadle.graph.dim import DimExpr, at_least, ceil_div, computed, hint_of, is_expression, real_maximum
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.passes.lower import searches
from treadle.passes.lower.subnormals import may_flush, without_subnormals
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelArgs, KernelSpec
from treadle.plan.packed import held_once
from treadle.plan.plan import Plan
from treadle.plan.target import Target
from treadle.provider import Provider

Array = np.ndarray[Any, Any]

_RESIDENT_SHARE = 0.5
"""The part of a cache that a model's weights may fill and stay resident from one run to the next: some kernels pack
them in a larger form, and activations use the cache too."""


def stay_in(cache: int, weights: int) -> bool:
    """Whether a cache of `cache` bytes holds `weights` bytes of weights from one run to the next."""
    return weights <= _RESIDENT_SHARE * cache


def bytes_of_weights(graph: Graph) -> int:
    """The bytes of the constants of `graph` and of the bodies in it."""
    bodies = (attr for node in graph.nodes for attr in node.attrs.values() if isinstance(attr, Graph))
    return sum(nbytes(value) for value in graph.constants()) + sum(map(bytes_of_weights, bodies))


class LowerContext:
    """The state of one lowering: the target, what mathematics may be used, who multiplies matrices (None: treadle's
    kernels), where the weights are, aliases and new constants."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        math: str = "fast",
        provider: Provider | None = None,
        *,
        weight_bytes: int | None = None,
        plans: Mapping[Node, tuple[Plan, ...]] | None = None,
        batch_invariant: bool = False,
    ) -> None:
        self.graph = graph
        self.provider = provider
        self.target = target
        self.machine = target.machine
        self.math = math
        self.batch_invariant = batch_invariant or math == "exact"
        """Whether no result may depend on how many images or rows are computed with it."""
        weights = bytes_of_weights(graph) if weight_bytes is None else weight_bytes
        self.streamed_weights = not stay_in(target.last_cache, weights)
        """Whether no cache holds the model's weights from one run to the next."""
        self.weights_leave_l2 = not stay_in(target.l2, weights)
        """Whether L2 does not hold them."""
        self.aliases: dict[Value, tuple[Value, int]] = {}
        self.in_place: set[Value] = set()
        """Values that are written straight into what a concatenation makes of them, image by image."""
        self._packed: dict[tuple[Value, str], Value] = {}
        self._done: set[Node] = set()
        self._plans = plans or {}

    def plans_of_bodies(self, node: Node) -> tuple[Plan, ...]:
        """Returns the plans of the node's bodies; none if they cannot be planned."""
        return self._plans.get(node, ())

    def done(self, node: Node) -> None:
        """Records that an earlier node's call computes `node` too."""
        self._done.add(node)

    def is_done(self, node: Node) -> bool:
        """Whether an earlier node's call computes `node` too."""
        return node in self._done

    def alias(self, value: Value, of: Value, offset: int = 0) -> None:
        """Let `value` lie in the memory of `of`, `offset` bytes from its start; no call is needed for it."""
        self.aliases[value] = (of, offset)

    def constant(self, data: Array, name: str) -> Value:
        """A new constant, such as a row of zeros."""
        return self.graph.constant(np.asarray(data, order="C"), name)

    def packed(self, source: Value, how: str, suffix: str, pack: Callable[[Array], Array]) -> Value:
        """The constant `source` packed by `pack`, named after it with `suffix`.

        It is packed once for all nodes that read `source` packed as `how` describes, and stored once for all plans.
        """
        packed = self._packed.get((source, how))
        if packed is None:
            assert source.data is not None, "only constants are packed at compile time"
            data = np.asarray(pack(source.data), order="C")
            packed = self._packed[source, how] = self.constant(held_once(data, source.data), f"{source.name}.{suffix}")
        return packed

    def packed_factor(self, source: Value, how: str, suffix: str, pack: Callable[[Array], Array]) -> Value:
        """As `packed`, for weights and what is added to their products: subnormal numbers count as 0 in fast math."""
        if not may_flush(self.math):
            return self.packed(source, how, suffix, pack)
        return self.packed(source, f"{how} flushed", suffix, lambda data: without_subnormals(pack(data)))

    def temporary(self, like: str, dtype: Any, shape: tuple[int, ...]) -> Value:
        """A value that lives between two calls of one node."""
        return self.graph.value(like, dtype, shape)

    def flops_ns(self, flops: float, bytes_: float, efficiency: float = 0.7) -> float:
        """Estimated time of `flops` fp32 operations and `bytes_` of traffic on one core."""
        per_ns = self.target.vector_bytes / 4 * self.machine.flops_per_lane_ns * efficiency
        return self.machine.call_ns + real_maximum(flops / per_ns, self.moved_ns(bytes_))

    def moved_ns(self, bytes_: float) -> float:
        """Estimated time in which one core reads and writes `bytes_` in all, which kernels hand to each other."""
        machine = self.machine
        is_near = hint_of(bytes_) <= self.target.last_cache
        return bytes_ / (machine.l3_bytes_per_ns if is_near else machine.memory_bytes_per_ns)

    def partition(self, units: int, ns_per_unit: float, multiple: int = 1) -> tuple[int, int]:
        """Returns (chunks, units per chunk) for `units` units of work, as `partition` does for this machine."""
        return partition(units, ns_per_unit, self.machine.usual_chunk_ns, multiple)

    def call(
        self,
        node: Node,
        spec: KernelSpec,
        writes: tuple[Value, ...],
        reads: tuple[Value, ...],
        *,
        args: KernelArgs[int],
        chunks: int = 1,
        flops: float = 0.0,
        traffic: float | None = None,
        cost: float | None = None,
        scratch: int = 0,
        prefetch_channels: int = 0,
        offsets: dict[int, int] | None = None,
    ) -> Call:
        """A call of a generated kernel, its cost estimated unless given."""
        moved = sum(nbytes(value) for value in (*writes, *reads)) if traffic is None else traffic
        return Call(
            node=node.name,
            op=node.op,
            writes=writes,
            reads=reads,
            spec=pinned_spec(spec),
            args=args,
            chunks=chunks,
            cost=self.flops_ns(flops, moved) if cost is None else cost,
            scratch=scratch,
            flops=flops,
            traffic=moved,
            prefetch_channels=prefetch_channels,
            offsets=offsets or {},
        )


def pinned_spec(spec: KernelSpec) -> KernelSpec:
    """`spec` with every expression replaced by its number for the sample sizes, under a guard: specs shape code."""
    changes = {field.name: getattr(spec, field.name) for field in fields(spec)}
    pinned = {name: _pinned(value) for name, value in changes.items()}
    return replace(spec, **pinned) if any(pinned[name] is not changes[name] for name in pinned) else spec


def _pinned(value: Any) -> Any:
    if isinstance(value, DimExpr):
        return int(value)
    if isinstance(value, tuple):
        items = tuple(_pinned(item) for item in value)
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def nbytes(value: Value) -> int:
    """The bytes of `value` in memory, in its physical layout."""
    shape = value.static_shape if value.layout is None else value.layout.physical(value.static_shape)
    return elements(shape) * value.known_dtype.size


def partition(units: int, ns_per_unit: float, usual_chunk_ns: float, multiple: int = 1) -> tuple[int, int]:
    """Returns (chunks, units per chunk) for `units` units of work; a chunk of a long op takes about `usual_chunk_ns`.

    There are about as many chunks as the work is worth, with little load imbalance. The partition depends on the work
    alone, never on thread settings. Units per chunk is a multiple of `multiple`; the last chunk may be short. Without
    units there are no chunks.
    """
    if not (is_expression(units) and at_least(units, 0)) and units <= 0:
        return 0, 1
    args = units, ns_per_unit, usual_chunk_ns, multiple
    per_chunk = computed("units_per_chunk", searches.units_per_chunk, args, least=1)
    return ceil_div(units, per_chunk), per_chunk
