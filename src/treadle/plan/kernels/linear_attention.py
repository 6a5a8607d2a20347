"""linear_attention: heads whose memory of earlier tokens is a matrix, a block of its columns at a time."""

from __future__ import annotations

from typing import ClassVar, Literal

from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass

MOST_VECTORS = 4
"""Vectors of columns in a block: their sums do not wait for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttentionSpec(KernelSpec):
    """Parameters. Pointers: y, the last state, q, k, v; then the first state, factors and rates, as far as there are
    such. The scratch holds a block of columns of a state. All is f32."""

    family: ClassVar[str] = "linear_attention"

    vectors: int
    """Vectors of columns in a block."""
    has_state: bool
    """There is a first state, else it is 0."""
    factors: Literal["none", "head", "key"]
    """A state is multiplied by no factor, by one for each head, or by one for each of its rows."""
    has_rates: bool
    """A token adds what its value differs in from what the state gives for its key, times a rate; else its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttentionArgs(KernelArgs[T]):
    """Arguments. A unit is a block of columns of the state of a head of keys and values."""

    units: T
    units_per_chunk: T
    tokens: T
    shared: T
    """Heads of keys and values."""
    readers: T
    """Heads of queries that read one state."""
    sharers: T
    """States that one head of queries reads."""
    key: T
    """Rows of a state."""
    value: T
    """Columns of a state."""
    blocks: T
    """Blocks of columns of a state."""
    rate_heads: T
    """Rates of a token, at least 1: one for each state, or one for all."""
