"""Weights are asked for by an earlier kernel, so that they are near when the one that reads them begins.

A model's weights seldom stay in the caches from one run to the next: each kernel would begin by waiting for its own. A
flat convolution leaves memory idle, and can ask for some lines of a later call's weights in each turn of its loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import nbytes
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec, UntypedSpec
from treadle.plan.target import LINE, Target

READERS = {
    "conv": ("l2", 2.0),
    "conv_strassen": ("l2", 2.0),
    "conv_winograd": ("l2", 2.0),
    "gemm": ("l3", 0.2),
    "gemv": ("l3", 0.2),
}
"""Kernels that read their weights whole: how large these may be to be asked for, as a multiple of which cache.

Convolutions wait for weights at their beginning, and the CPU itself fetches the rest. Products of few rows wait all the
time.
"""

LEAST_BYTES = 1 << 16
"""Smaller weights are there soon enough: their kernels read them many times over."""

_REACH = 6
"""Calls between the one that asks and the one that reads: what was asked for earlier than that may be gone again."""

_MOST_LINES = 8
"""A turn of some 100 cycles can ask for so many lines without taking longer."""

_BYTES_WORTH_NS = 0.85
"""Bytes for each ns that the asking call takes, at least: asking makes it 1 % slower, and so many bytes save as
much."""


def insert_prefetches(calls: Sequence[Call], target: Target) -> None:
    """Have calls (in topological order) ask for the large constants that later ones read. What they compute stays."""
    if not is_enabled("prefetch"):
        return
    for number, call in enumerate(calls):
        if call.spec is None or call.spec.family not in READERS:
            continue
        cache, share = READERS[call.spec.family]
        most = share * (target.l2 if cache == "l2" else target.last_cache)
        for value in call.reads:
            if value.is_constant and LEAST_BYTES <= nbytes(value) <= most:
                before = calls[max(0, number - _REACH) : number]
                asking = next((earlier for earlier in reversed(before) if earlier.steps), None)
                if asking is not None and nbytes(value) >= _BYTES_WORTH_NS * asking.cost:
                    _ask(asking, value)


def _ask(call: Call, value: Value) -> None:
    """Have each turn of `call` ask for its share of `value`; it can do so for one value only."""
    assert isinstance(call.spec, UntypedSpec), "calls with steps have kernels"
    assert isinstance(call.args, tuple)
    unroll = call.spec["unroll"]
    share = min(-(-nbytes(value) // call.steps), _MOST_LINES * LINE // unroll)
    call.spec = KernelSpec.of(call.spec.family, **{**dict(call.spec.params), "later": True})
    call.reads = (*call.reads, value)
    call.args = (*call.args, share, -(-share * unroll // LINE))
    call.steps = 0
