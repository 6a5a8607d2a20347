"""Every core op, one line each: its shape rule, its NumPy reference, how many operands it takes."""

from treadle.ops import (
    arg_reduce,
    attention,
    call,
    cast,
    concat,
    conv,
    conv_transpose,
    cumsum,
    depth_to_space,
    einsum,
    elementwise,
    expand,
    gather,
    gather_reduce,
    matmul,
    non_zero,
    norm,
    one_hot,
    pad,
    pick_channels,
    pool,
    recurrent,
    reduce,
    reorder,
    reshape,
    resize,
    reverse_sequence,
    scatter,
    shape,
    sizes,
    softmax,
    split,
    top_k,
    transpose,
    trees,
    trilu,
)
from treadle.ops import slice as slice_op
from treadle.ops.op import OpDef

_SCALAR = tuple(
    OpDef(name, elementwise.scalar_infer(name), elementwise.scalar_evaluate(name), op.arity, op.arity)
    for name, op in elementwise.SCALAR_OPS.items()
)

_TENSOR = (
    OpDef("cast", cast.infer_cast, cast.evaluate_cast),
    OpDef("elementwise", elementwise.infer_elementwise, elementwise.evaluate_elementwise, 1, None),
    OpDef("identity", reshape.infer_identity, reshape.evaluate_reshaping("identity")),
    OpDef("matmul", matmul.infer_matmul, matmul.evaluate_matmul, 2, None),
    OpDef("attention", attention.infer_attention, attention.evaluate_attention, 3, None),
    OpDef("einsum", einsum.infer_einsum, einsum.evaluate_einsum, 1, None),
    OpDef("conv", conv.infer_conv, conv.evaluate_conv, 2, None),
    OpDef("conv_transpose", conv_transpose.infer_conv_transpose, conv_transpose.evaluate_conv_transpose, 2, 3),
    OpDef("max_pool", pool.infer_max_pool, pool.evaluate_max_pool),
    OpDef("avg_pool", pool.infer_avg_pool, pool.evaluate_avg_pool),
    OpDef("resize", resize.infer_resize, resize.evaluate_resize, 2, 4),
    OpDef("reduce_sum", reduce.infer_reduce, reduce.evaluate_reduce("reduce_sum"), 1, None),
    OpDef("reduce_mean", reduce.infer_reduce, reduce.evaluate_reduce("reduce_mean"), 1, None),
    OpDef("reduce_max", reduce.infer_reduce, reduce.evaluate_reduce("reduce_max"), 1, None),
    OpDef("reduce_min", reduce.infer_reduce, reduce.evaluate_reduce("reduce_min"), 1, None),
    OpDef("reduce_prod", reduce.infer_reduce, reduce.evaluate_reduce("reduce_prod"), 1, None),
    OpDef("argmax", arg_reduce.infer_arg_reduce, arg_reduce.evaluate_arg_reduce("argmax")),
    OpDef("argmin", arg_reduce.infer_arg_reduce, arg_reduce.evaluate_arg_reduce("argmin")),
    OpDef("cumsum", cumsum.infer_cumsum, cumsum.evaluate_cumsum),
    OpDef("lstm", recurrent.infer_lstm, recurrent.evaluate_lstm, 2, 6),
    OpDef("gru", recurrent.infer_gru, recurrent.evaluate_gru, 2, 5),
    OpDef("rnn", recurrent.infer_rnn, recurrent.evaluate_rnn, 2, 4),
    OpDef("softmax", softmax.infer_softmax, softmax.evaluate_softmax),
    OpDef("log_softmax", softmax.infer_softmax, softmax.evaluate_log_softmax),
    OpDef("layer_norm", norm.infer_layer_norm, norm.evaluate_layer_norm, 1, 3),
    OpDef("batch_norm", norm.infer_batch_norm, norm.evaluate_batch_norm, 5, 5),
    OpDef("instance_norm", norm.infer_instance_norm, norm.evaluate_instance_norm, 3, 3),
    OpDef("group_norm", norm.infer_group_norm, norm.evaluate_group_norm, 3, 3),
    OpDef("rms_norm", norm.infer_rms_norm, norm.evaluate_rms_norm, 1, 2),
    OpDef("lrn", norm.infer_lrn, norm.evaluate_lrn),
    OpDef("gather", gather.infer_gather, gather.evaluate_gather, 2, 2),
    OpDef("gather_elements", gather.infer_gather_elements, gather.evaluate_gather_elements, 2, 2),
    OpDef("gather_nd", gather.infer_gather_nd, gather.evaluate_gather_nd, 2, 2),
    OpDef("gather_reduce", gather_reduce.infer_gather_reduce, gather_reduce.evaluate_gather_reduce, 2, 3),
    OpDef("scatter_elements", scatter.infer_scatter_elements, scatter.evaluate_scatter_elements, 3, 3),
    OpDef("scatter_nd", scatter.infer_scatter_nd, scatter.evaluate_scatter_nd, 3, 3),
    OpDef("one_hot", one_hot.infer_one_hot, one_hot.evaluate_one_hot, 3, 3),
    OpDef("top_k", top_k.infer_top_k, top_k.evaluate_top_k, 2, 2),
    OpDef("non_zero", non_zero.infer_non_zero, non_zero.evaluate_non_zero),
    OpDef("concat", concat.infer_concat, concat.evaluate_concat, 1, None),
    OpDef("pick_channels", pick_channels.infer_pick_channels, pick_channels.evaluate_pick_channels, 1, None),
    OpDef("split", split.infer_split, split.evaluate_split, 1, 2),
    OpDef("slice", slice_op.infer_slice, slice_op.evaluate_slice, 3, 5),
    OpDef("pad", pad.infer_pad, pad.evaluate_pad, 2, 4),
    OpDef("transpose", transpose.infer_transpose, transpose.evaluate_transpose),
    OpDef("reshape", reshape.infer_reshape, reshape.evaluate_reshaping("reshape"), 2, 2),
    OpDef("flatten", reshape.infer_flatten, reshape.evaluate_reshaping("flatten")),
    OpDef("squeeze", reshape.infer_squeeze, reshape.evaluate_reshaping("squeeze"), 1, 2),
    OpDef("unsqueeze", reshape.infer_unsqueeze, reshape.evaluate_reshaping("unsqueeze"), 2, 2),
    OpDef(
        "reverse_sequence", reverse_sequence.infer_reverse_sequence, reverse_sequence.evaluate_reverse_sequence, 2, 2
    ),
    OpDef("expand", expand.infer_expand, expand.evaluate_expand, 2, 2),
    OpDef("tile", expand.infer_tile, expand.evaluate_tile, 2, 2),
    OpDef("depth_to_space", depth_to_space.infer_depth_to_space, depth_to_space.evaluate_depth_to_space),
    OpDef("space_to_depth", depth_to_space.infer_space_to_depth, depth_to_space.evaluate_space_to_depth),
    OpDef("trilu", trilu.infer_trilu, trilu.evaluate_trilu, 1, 2),
    OpDef("trees", trees.infer_trees, trees.evaluate_trees, 7, 7),
    OpDef("sizes", sizes.infer_sizes, sizes.evaluate_sizes, 0, 0),
    OpDef("shape", shape.infer_shape, shape.evaluate_shape),
    OpDef("size", shape.infer_size, shape.evaluate_size),
    OpDef("range", shape.infer_range, shape.evaluate_range, 3, 3),
    OpDef("constant_of_shape", shape.infer_constant_of_shape, shape.evaluate_constant_of_shape),
    OpDef("reorder", reorder.infer_reorder, None),
    OpDef("call", call.infer_call, None, 0, None),
)

OPS: dict[str, OpDef] = {definition.name: definition for definition in (*_SCALAR, *_TENSOR)}


def arity(op: str) -> tuple[int, int | None] | None:
    """(fewest, most) operands of `op`, most None for any number; None if no core op is called so."""
    definition = OPS.get(op)
    return None if definition is None else (definition.min_inputs, definition.max_inputs)
