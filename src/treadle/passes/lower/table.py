"""Which lowering serves which op. An op that is missing, or whose lowering returns None, runs by its NumPy
reference."""

from collections.abc import Callable

from treadle.graph.dim import equals
from treadle.graph.node import Node
from treadle.ops.cumulative import CUMULATIVE
from treadle.ops.elementwise import SCALAR_OPS
from treadle.passes.lower.arg_reduce import lower_arg_reduce
from treadle.passes.lower.attention import lower_attention, lower_packed_attention
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.block_matmul import lower_block_matmul
from treadle.passes.lower.branch import lower_branch
from treadle.passes.lower.concat import lower_concat
from treadle.passes.lower.conv.lower import lower_conv
from treadle.passes.lower.cumulative import lower_cumulative
from treadle.passes.lower.data_stage import lower_data_stage
from treadle.passes.lower.depth_to_space import lower_depth_to_space, lower_space_to_depth
from treadle.passes.lower.elementwise import lower_elementwise, lower_scalar
from treadle.passes.lower.expand import lower_expand, lower_tile
from treadle.passes.lower.gather import lower_gather, lower_gather_elements, lower_gather_nd
from treadle.passes.lower.gather_reduce import lower_gather_reduce
from treadle.passes.lower.inverse import lower_inverse
from treadle.passes.lower.library_gemm import lower_matmul_by_provider
from treadle.passes.lower.linear_attention import lower_linear_attention
from treadle.passes.lower.loop import lower_loop
from treadle.passes.lower.non_max_suppression import lower_non_max_suppression
from treadle.passes.lower.non_zero import lower_non_zero
from treadle.passes.lower.norm import (
    lower_batch_norm,
    lower_group_norm,
    lower_instance_norm,
    lower_layer_norm,
    lower_rms_norm,
)
from treadle.passes.lower.one_hot import lower_one_hot
from treadle.passes.lower.pad import lower_pad
from treadle.passes.lower.pick_channels import lower_pick_channels
from treadle.passes.lower.pool import lower_avg_pool, lower_max_pool
from treadle.passes.lower.range import lower_range
from treadle.passes.lower.recurrent import lower_gru, lower_lstm, lower_rnn
from treadle.passes.lower.reduce import lower_reduce
from treadle.passes.lower.reorder import lower_reorder
from treadle.passes.lower.reshape import lower_reshape
from treadle.passes.lower.resize import lower_resize
from treadle.passes.lower.reverse_sequence import lower_reverse_sequence
from treadle.passes.lower.roi_align import lower_roi_align
from treadle.passes.lower.scatter import lower_scatter_elements, lower_scatter_nd
from treadle.passes.lower.search_sorted import lower_search_sorted
from treadle.passes.lower.sizes import lower_sizes
from treadle.passes.lower.slice import lower_slice
from treadle.passes.lower.softmax import lower_softmax
from treadle.passes.lower.split import lower_split
from treadle.passes.lower.spread import lower_spread
from treadle.passes.lower.top_k import lower_top_k
from treadle.passes.lower.transpose import lower_transpose
from treadle.passes.lower.trees import lower_trees
from treadle.passes.lower.trilu import lower_trilu
from treadle.plan.call import Call

Lowering = Callable[[Node, LowerContext], list[Call] | None]

LOWERINGS: dict[str, Lowering] = {
    "branch": lower_branch,
    "loop": lower_loop,
    "data_stage": lower_data_stage,
    "max_pool": lower_max_pool,
    "avg_pool": lower_avg_pool,
    "reorder": lower_reorder,
    "conv": lower_conv,
    "transpose": lower_transpose,
    "sizes": lower_sizes,
    "range": lower_range,
    "slice": lower_slice,
    "split": lower_split,
    "concat": lower_concat,
    "pick_channels": lower_pick_channels,
    "expand": lower_expand,
    "tile": lower_tile,
    "depth_to_space": lower_depth_to_space,
    "space_to_depth": lower_space_to_depth,
    "spread": lower_spread,
    "reshape": lower_reshape,
    "flatten": lower_reshape,
    "squeeze": lower_reshape,
    "unsqueeze": lower_reshape,
    "identity": lower_reshape,
    "matmul": lower_matmul_by_provider,
    "attention": lower_attention,
    "packed_attention": lower_packed_attention,
    "linear_attention": lower_linear_attention,
    "inverse": lower_inverse,
    "lstm": lower_lstm,
    "gru": lower_gru,
    "rnn": lower_rnn,
    "elementwise": lower_elementwise,
    **dict.fromkeys(SCALAR_OPS, lower_scalar),
    "cast": lower_scalar,
    "gather": lower_gather,
    "gather_elements": lower_gather_elements,
    "gather_nd": lower_gather_nd,
    "gather_reduce": lower_gather_reduce,
    "scatter_elements": lower_scatter_elements,
    "scatter_nd": lower_scatter_nd,
    "pad": lower_pad,
    "resize": lower_resize,
    "one_hot": lower_one_hot,
    "reverse_sequence": lower_reverse_sequence,
    "trilu": lower_trilu,
    "trees": lower_trees,
    "roi_align": lower_roi_align,
    "block_matmul": lower_block_matmul,
    **dict.fromkeys(CUMULATIVE, lower_cumulative),
    "search_sorted": lower_search_sorted,
    "top_k": lower_top_k,
    "non_zero": lower_non_zero,
    "non_max_suppression": lower_non_max_suppression,
    "argmax": lower_arg_reduce,
    "argmin": lower_arg_reduce,
    "reduce_sum": lower_reduce,
    "reduce_mean": lower_reduce,
    "reduce_max": lower_reduce,
    "reduce_min": lower_reduce,
    "reduce_prod": lower_reduce,
    "softmax": lower_softmax,
    "log_softmax": lower_softmax,
    "layer_norm": lower_layer_norm,
    "rms_norm": lower_rms_norm,
    "group_norm": lower_group_norm,
    "instance_norm": lower_instance_norm,
    "batch_norm": lower_batch_norm,
}

_TAKES_EMPTY = {"transpose", "slice", "split", "gather", "reshape", "flatten", "squeeze", "unsqueeze", "identity"}
"""Ops whose calls have no chunks at sizes at which their results are empty."""


def is_empty(node: Node) -> bool:
    """Whether no result of `node` has elements: as far as it is known where lowering takes sizes of 0, else assumed."""
    shapes = [value.static_shape for value in node.outputs]
    if node.op in _TAKES_EMPTY:
        return all(any(equals(dim, 0) for dim in shape) for shape in shapes)
    return all(0 in shape for shape in shapes)
