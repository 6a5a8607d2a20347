"""Has earlier kernels prefetch the weights of later ones.

A model's weights seldom stay in the caches from one run to the next, so each kernel would begin by waiting for its own.
A flat convolution leaves memory idle: each turn of its loop can prefetch some cache lines of a later call's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.graph.dim import ceil_div, hint_of, maximum, minimum
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.conv.direct import DirectConvArgs, DirectConvSpec, PrefetchArgs
from treadle.plan.target import LINE, Target

READERS = {
    "conv": ("l2", 2.0),
    "conv_winograd": ("l2", 2.0),
    "gemm": ("l3", 0.2),
    "gemv": ("l3", 0.2),
}
"""Kernels whose weights are prefetched -> the largest size of these, as a multiple of which cache.

A convolution waits for weights at its beginning, and the CPU itself prefetches the rest. Products of few rows wait all
the time.
"""

LEAST_BYTES = 1 << 16
"""Smaller weights are not prefetched: their kernels read them many times, and wait only for the first."""

_REACH = 6
"""The most calls from the one that prefetches to the one that reads: older lines may be evicted by then."""

_MOST_LINES = 8
"""Cache lines that a turn of some 100 cycles can prefetch without taking longer."""

_WORTH = 0.085
"""The least time of reading weights from memory, which cores share, as a part of the prefetching call's time: less
saves no more than the call loses."""


def insert_prefetches(calls: Sequence[Call], target: Target) -> None:
    """Has calls (in topological order) prefetch the large constants that later ones read. Results stay the same."""
    if not is_enabled("prefetch"):
        return
    worth_bytes_per_ns = _WORTH * target.machine.memory_shared_bytes_per_ns
    for number, call in enumerate(calls):
        if call.spec is None or call.spec.family not in READERS:
            continue
        cache, share = READERS[call.spec.family]
        most = share * (target.l2 if cache == "l2" else target.last_cache)
        for value in call.reads:
            if value.is_constant and LEAST_BYTES <= nbytes(value) <= most:
                before = calls[max(0, number - _REACH) : number]
                earlier = next((other for other in reversed(before) if hint_of(other.prefetch_channels)), None)
                if earlier is not None and nbytes(value) >= worth_bytes_per_ns * hint_of(earlier.cost):
                    _prefetch(earlier, value)


def _prefetch(call: Call, value: Value) -> None:
    """Has each turn of `call` prefetch a part of `value`; a call can do so for one value only."""
    spec, args = call.spec, call.args
    assert isinstance(spec, DirectConvSpec), "only direct convolutions prefetch for others"
    assert isinstance(args, DirectConvArgs)
    channels = maximum(1, call.prefetch_channels)
    channel_bytes = minimum(ceil_div(nbytes(value), channels), _MOST_LINES * LINE // spec.unroll)
    lines = ceil_div(channel_bytes * spec.unroll, LINE)
    call.spec = replace(spec, prefetches_constant=True)
    call.args = replace(args, prefetch=PrefetchArgs(channel_bytes=channel_bytes, turn_lines=lines))
    call.reads = (*call.reads, value)
    call.prefetch_channels = 0
