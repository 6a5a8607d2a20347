"""attention and packed_attention: out = softmax(epilogue(q @ k.T)) @ v."""

from __future__ import annotations

from typing import ClassVar

from treadle.plan.kernel_spec import KernelArgs, Lengths, T
from treadle.plan.kernels.epilogue import EpilogueSpec
from treadle.records import dataclass

KEY_VECTORS = 4
"""Vectors of keys that a single query is multiplied by at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec(EpilogueSpec):
    """Parameters. Pointers: out, q, k, v, operands of the epilogue; then with `sink` the scores of sinks, with `packed`
    the offsets of the texts.

    The epilogue is applied to transposed scores: rows of its operands are keys, columns are queries. Scratch: greatest
    scores [lanes], queries [depth, lanes], scores [keys, lanes] and result [width, lanes] of one block of queries; with
    `bf16_dot`, then those of v. Of a single query: a panel of keys [depth, KEY_VECTORS vectors]; then scores, as many
    as whole panels have, of it or with `shared_keys` of each query that shares the keys.
    """

    family: ClassVar[str] = "attention"

    bf16_dot: bool
    """q, k and v are bf16; `dtype` is f32, the depth and strides of q and k count pairs of bf16, those of v
    elements."""
    edge: int
    """Vectors of the last block of queries if it is not full, else 0. Where the number of queries is open, it may have
    fewer."""
    open_queries: bool
    """The kernel serves any number of queries."""
    ragged: bool
    """The last vector of the last block of queries is not full."""
    single_query: str
    """Whether a matrix has one query only: always, sometimes, or never in this form."""
    shared_keys: bool
    """Keys and values are the same along the last batch dimension, and a matrix may have a single query."""
    key_rows: tuple[int, ...]
    """The heights of register blocks of scores, the larger first: one, or two that differ by one."""
    open_keys: bool
    """The kernel serves any number of keys: blocks may overlap, and keys that are fewer than a block are done one by
    one."""
    hides: bool
    """The epilogue may hide keys from queries: the last ones that no query of a block sees are not multiplied. Any
    number of keys is served, as with `open_keys`."""
    width_rows: tuple[int, ...]
    """The one or two heights of register blocks of the result."""
    q_source: str
    """How queries lie in memory: see `copy_panel`."""
    k_source: str
    """How keys lie in memory, likewise; empty unless there may be a single query."""
    whole_tiles: bool
    """Queries and width are multiples of the lanes."""
    unit_depth: bool
    """The depth stride of k is 1."""
    unit_column: bool
    """The column stride of v is 1."""
    whole_depth: bool
    """The depth is a multiple of UNROLL."""
    whole_keys: bool
    """The steps over the keys are a multiple of UNROLL."""
    batch_rank: int
    """Number of batch dimensions."""
    safe: bool
    """Queries whose scores are all -inf get 0."""
    packed: bool
    """The rows of q, k and v are those of several texts, one after another; the first batch dimension counts texts. A
    query is multiplied by the keys of its own text."""
    sink: bool
    """Each matrix has the score of one more key, whose row of v is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionArgs(KernelArgs[T]):
    """Arguments. Strides are in elements. A unit is a block of queries of one matrix of the batch."""

    queries: T
    """Queries of one matrix; with `packed`, rows of all texts."""
    keys: T
    """Keys of one matrix; with `packed`, the most rows that a text may have."""
    depth: T
    """Elements of a row of q and k."""
    width: T
    """Elements of a row of v."""
    key_blocks: T
    """Register blocks that cover the keys. With `packed`, the kernel counts those of each text itself."""
    large_key_blocks: T
    """The first ones, which have key_rows[0] rows; the others have key_rows[-1]."""
    width_blocks: T
    """Register blocks that cover the width."""
    large_width_blocks: T
    """The first ones, which have width_rows[0] rows; the others have width_rows[-1]."""
    query_blocks: T
    """Units of one matrix of the batch."""
    units: T
    units_per_chunk: T
    q_row: T
    q_depth: T
    k_row: T
    k_depth: T
    v_row: T
    v_column: T
    out_row: T
    epilogue_rows: tuple[T, ...]
    """Strides of the epilogue's operands from key to key."""
    sizes: tuple[T, ...]
    """Of the batch dimensions."""
    q_batch: tuple[T, ...]
    """Strides of q along the batch dimensions."""
    k_batch: tuple[T, ...]
    """Strides of k along the batch dimensions."""
    v_batch: tuple[T, ...]
    """Strides of v along the batch dimensions."""
    out_batch: tuple[T, ...]
    """Strides of out along the batch dimensions."""
    epilogue_batch: tuple[tuple[T, ...], ...]
    """Strides of each operand of the epilogue along the batch dimensions."""
    sink_batch: tuple[T, ...]
    """Strides of the scores of sinks along the batch dimensions."""

    @classmethod
    def tuple_lengths(cls, spec: AttentionSpec) -> Lengths:
        rank, operands = spec.batch_rank, len(spec.kinds)
        return {
            "epilogue_rows": operands,
            "sizes": rank,
            "q_batch": rank,
            "k_batch": rank,
            "v_batch": rank,
            "out_batch": rank,
            "epilogue_batch": (operands, rank),
            "sink_batch": rank if spec.sink else 0,
        }
