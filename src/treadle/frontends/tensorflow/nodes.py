"""The ops of TensorFlow's files that treadle runs, one line each."""

from __future__ import annotations

from treadle.frontends.tensorflow.list_table import LISTS, ListRule
from treadle.frontends.tensorflow.node_rules import NodeRule
from treadle.frontends.tensorflow.part_rules import PART_RULES, PREFIX, PartRule

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Erfc": "erfc", "Exp": "exp", "Expm1": "expm1",
    "Floor": "floor", "Inv": "reciprocal", "Log": "log", "Log1p": "log1p",
    "Neg": "negative", "Reciprocal": "reciprocal", "Rint": "round", "Round": "round", "Rsqrt": "rsqrt",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Sqrt": "sqrt",
    "Square": "square", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_TESTS = {"IsFinite": "is_finite", "IsInf": "is_inf", "IsNan": "is_nan", "LogicalNot": "logical_not"}
_ACTIVATIONS = {
    "Elu": "nn.elu", "Relu": "nn.relu", "Relu6": "nn.relu6", "Selu": "nn.selu", "Softsign": "nn.softsign",
}  # fmt: skip
_BINARY = {
    "Add": "add", "AddV2": "add", "Div": "_div", "DivNoNan": "div_no_nan", "FloorDiv": "floordiv",
    "FloorMod": "floormod", "Maximum": "maximum", "Minimum": "minimum", "Mod": "truncatemod", "Mul": "multiply",
    "Pow": "pow", "RealDiv": "_div", "SquaredDifference": "squared_difference", "Sub": "subtract",
    "TruncateDiv": "truncatediv", "TruncateMod": "truncatemod",
}  # fmt: skip
_COMPARISONS = {
    "Greater": "greater", "GreaterEqual": "greater_equal", "Less": "less",
    "LessEqual": "less_equal", "LogicalAnd": "logical_and", "LogicalOr": "logical_or",
}  # fmt: skip
_REDUCTIONS = {
    "Max": "reduce_max", "Mean": "reduce_mean", "Min": "reduce_min", "Prod": "reduce_prod", "Sum": "reduce_sum",
}  # fmt: skip
_SAME = (
    "Identity", "Snapshot", "StopGradient", "PreventGradient", "CheckNumerics",
)  # fmt: skip
_CONV = "strides padding data_format dilations"
_POOL = "ksize strides padding data_format"
_NORM = "epsilon data_format is_training"
_NORM_PRESETS = {"epsilon": 1e-4, "is_training": True}
_FOUND = {"bad_indices_policy": ("", "DEFAULT", "ERROR")}
_BOXES = "boxes scores max_output_size iou_threshold score_threshold"
_SLICE = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"

NODES: dict[str, NodeRule | ListRule] = {
    **LISTS,
    **{op: NodeRule(rule, "x") for op, rule in _UNARY.items()},
    **{op: NodeRule(rule, "x", dtype="=bool") for op, rule in _TESTS.items()},
    **{op: NodeRule(rule, "x" if rule == "nn.relu" else "features") for op, rule in _ACTIVATIONS.items()},
    **{op: NodeRule(rule, "x y") for op, rule in _BINARY.items()},
    **{op: NodeRule(rule, "x y", dtype="=bool") for op, rule in _COMPARISONS.items()},
    **{op: NodeRule(rule, "input_tensor axis", "keep_dims=keepdims") for op, rule in _REDUCTIONS.items()},
    **{op: NodeRule("identity", "input") for op in _SAME},
    "All": NodeRule("reduce_all", "input_tensor axis", "keep_dims=keepdims", "=bool"),
    "Any": NodeRule("reduce_any", "input_tensor axis", "keep_dims=keepdims", "=bool"),
    "AddN": NodeRule("add_n", "*inputs"),
    "ArgMax": NodeRule("argmax", "input axis", "output_type", "output_type=i64"),
    "ArgMin": NodeRule("argmin", "input axis", "output_type", "output_type=i64"),
    "AvgPool": NodeRule("nn.avg_pool", "input", _POOL, rank=4),
    "AvgPool3D": NodeRule("nn.avg_pool", "input", _POOL, rank=5),
    "BatchMatMul": NodeRule("_batch_matmul", "a b", "adj_x=adjoint_a adj_y=adjoint_b"),
    "BatchMatMulV2": NodeRule("matmul", "a b", "adj_x=adjoint_a adj_y=adjoint_b"),
    "BatchMatMulV3": NodeRule("matmul", "a b", "adj_x=adjoint_a adj_y=adjoint_b", "Tout"),
    "BatchNormWithGlobalNormalization": NodeRule(
        "_global_batch_norm", "t m v beta gamma", "variance_epsilon scale_after_normalization"
    ),
    "BatchToSpaceND": NodeRule("batch_to_space", "input block_shape crops"),
    "BiasAdd": NodeRule("nn.bias_add", "value bias", "data_format"),
    "BiasAddV1": NodeRule("nn.bias_add", "value bias"),
    "BroadcastTo": NodeRule("broadcast_to", "input shape"),
    "Cast": NodeRule("cast", "x", "DstT=dtype", "DstT", only={"Truncate": (False,)}),
    "ClipByValue": NodeRule("_clip_by_value", "t clip_value_min clip_value_max"),
    "CombinedNonMaxSuppression": NodeRule("_combined_non_max_suppression",
        "boxes scores max_output_size_per_class max_total_size iou_threshold score_threshold",
        "pad_per_class clip_boxes", "=f32 =f32 =f32 =i32", "nmsed_boxes nmsed_scores nmsed_classes valid_detections"),
    "Concat": NodeRule("concat", "axis *values"),
    "ConcatV2": NodeRule("concat", "*values axis"),
    "Conv2D": NodeRule("nn.conv", "input filters", _CONV, rank=4),
    "Conv2DBackpropInput": NodeRule("nn.conv2d_transpose", "output_shape filters input", _CONV),
    "Conv3D": NodeRule("nn.conv", "input filters", _CONV, rank=5),
    "Cumsum": NodeRule("cumsum", "x axis", "exclusive reverse"),
    "DepthToSpace": NodeRule("nn.depth_to_space", "input", "block_size data_format"),
    "DepthwiseConv2dNative": NodeRule("nn.depthwise_conv2d", "input filter", _CONV),
    "DynamicPartition": NodeRule("_dynamic_partition", "data partitions", "num_partitions"),
    "DynamicStitch": NodeRule("_dynamic_stitch", "*inputs"),
    "Einsum": NodeRule("einsum", "*inputs", "equation"),
    "EnsureShape": NodeRule("ensure_shape", "x", "shape"),
    "Equal": NodeRule("_equal", "x y", "incompatible_shape_error", "=bool"),
    "ExpandDims": NodeRule("expand_dims", "input axis"),
    "Fill": NodeRule("fill", "dims value"),
    "FusedBatchNorm": NodeRule("nn.fused_batch_norm", "x scale offset mean variance", _NORM,
        results="y batch_mean batch_variance", fixed=_NORM_PRESETS),
    "FusedBatchNormV2": NodeRule("nn.fused_batch_norm", "x scale offset mean variance", _NORM, "T U",
        "y batch_mean batch_variance", _NORM_PRESETS),
    "FusedBatchNormV3": NodeRule("nn.fused_batch_norm", "x scale offset mean variance", _NORM, "T U",
        "y batch_mean batch_variance", _NORM_PRESETS),
    "Gather": NodeRule("gather", "params indices", dtype="Tparams"),
    "GatherNd": NodeRule("gather_nd", "params indices", dtype="Tparams", only=_FOUND),
    "GatherV2": NodeRule("gather", "params indices axis", "batch_dims", "Tparams"),
    "IdentityN": NodeRule("_identity_n", "*input"),
    "LRN": NodeRule("nn.local_response_normalization", "input", "depth_radius bias alpha beta", rank=4),
    "LeakyRelu": NodeRule("nn.leaky_relu", "features", "alpha"),
    "LinSpace": NodeRule("linspace", "start stop num"),
    "LogSoftmax": NodeRule("nn.log_softmax", "logits"),
    "MatMul": NodeRule("matmul", "a b", "transpose_a transpose_b", rank=2),
    "MatrixBandPart": NodeRule("linalg.band_part", "input num_lower num_upper"),
    "MaxPool": NodeRule("nn.max_pool", "input", _POOL, rank=4),
    "MaxPool3D": NodeRule("nn.max_pool", "input", _POOL, rank=5),
    "MaxPoolV2": NodeRule("nn.max_pool", "input ksize strides", "padding data_format", rank=4),
    "MirrorPad": NodeRule("pad", "tensor paddings", "mode"),
    "NonMaxSuppression": NodeRule("_non_max_suppression", "boxes scores max_output_size", "iou_threshold=overlap",
        "=i32"),
    "NonMaxSuppressionV2": NodeRule("_non_max_suppression", "boxes scores max_output_size iou_threshold", dtype="=i32"),
    "NonMaxSuppressionV3": NodeRule("_non_max_suppression", _BOXES, dtype="=i32"),
    "NonMaxSuppressionV4": NodeRule("_non_max_suppression_padded", _BOXES, "pad_to_max_output_size", "=i32",
        "selected_indices valid_outputs"),
    "NonMaxSuppressionV5": NodeRule("_non_max_suppression_with_scores", f"{_BOXES} soft_nms_sigma",
        "pad_to_max_output_size", "=i32 T =i32", "selected_indices selected_scores valid_outputs"),
    "NotEqual": NodeRule("_not_equal", "x y", "incompatible_shape_error", "=bool"),
    "OneHot": NodeRule("one_hot", "indices depth on_value off_value", "axis T=dtype"),
    "OnesLike": NodeRule("ones_like", "input"),
    "Pack": NodeRule("stack", "*values", "axis"),
    "PlaceholderWithDefault": NodeRule("identity", "input", dtype="dtype"),
    "Pad": NodeRule("pad", "tensor paddings"),
    "PadV2": NodeRule("pad", "tensor paddings constant_values"),
    "Range": NodeRule("range", "start limit delta", dtype="Tidx=i32"),
    "Rank": NodeRule("rank", "input", dtype="=i32"),
    "ReadVariableOp": NodeRule("identity", "input", dtype="dtype"),
    "Reshape": NodeRule("reshape", "tensor shape"),
    "ResizeBicubic": NodeRule("image.resize_bicubic", "images size", "align_corners half_pixel_centers", "=f32"),
    "ResizeBilinear": NodeRule("image.resize_bilinear", "images size", "align_corners half_pixel_centers", "=f32"),
    "ResizeNearestNeighbor": NodeRule("image.resize_nearest_neighbor", "images size",
        "align_corners half_pixel_centers"),
    "ResourceGather": NodeRule("gather", "params indices", dtype="dtype", only={"batch_dims": (0,)}),
    "ResourceGatherNd": NodeRule("gather_nd", "params indices", dtype="dtype"),
    "ReverseV2": NodeRule("reverse", "tensor axis"),
    "ScatterNd": NodeRule("scatter_nd", "indices updates shape", only=_FOUND),
    "Select": NodeRule("_select", "condition x y"),
    "SelectV2": NodeRule("where", "condition x y"),
    "Shape": NodeRule("shape", "input", "out_type", "out_type=i32"),
    "ShapeN": NodeRule("_shape_n", "*input", "out_type", "out_type=i32"),
    "Size": NodeRule("size", "input", "out_type", "out_type=i32"),
    "Slice": NodeRule("slice", "input_ begin size"),
    "Softmax": NodeRule("nn.softmax", "logits"),
    "SpaceToBatchND": NodeRule("space_to_batch", "input block_shape paddings"),
    "SpaceToDepth": NodeRule("nn.space_to_depth", "input", "block_size data_format"),
    "SparseToDense": NodeRule("_sparse_to_dense", "sparse_indices output_shape sparse_values default_value"),
    "Split": NodeRule("split", "axis value", "num_split=num_or_size_splits"),
    "SplitV": NodeRule("split", "value num_or_size_splits axis", "num_split=num"),
    "Squeeze": NodeRule("squeeze", "input", "squeeze_dims=axis"),
    "StridedSlice": NodeRule("strided_slice", "input_ begin end strides", _SLICE),
    "TensorScatterUpdate": NodeRule("tensor_scatter_nd_update", "tensor indices updates", only=_FOUND),
    "Tile": NodeRule("tile", "input multiples"),
    "TopK": NodeRule("nn.top_k", "input", "k sorted", "T =i32", "values indices"),
    "TopKV2": NodeRule("nn.top_k", "input k", "sorted index_type", "T index_type=i32", "values indices"),
    "Transpose": NodeRule("transpose", "a perm"),
    "Unique": NodeRule("_unique", "x", "out_idx", "T out_idx=i32", "y idx"),
    "UniqueV2": NodeRule("_unique", "x axis", "out_idx", "T out_idx=i32", "y idx"),
    "UniqueWithCounts": NodeRule("_unique_with_counts", "x", "out_idx", "T out_idx=i32", "y idx count"),
    "UniqueWithCountsV2": NodeRule("_unique_with_counts", "x axis", "out_idx", "T out_idx=i32", "y idx count"),
    "Unpack": NodeRule("unstack", "value", "num axis"),
    "Where": NodeRule("where", "condition", dtype="=i64"),
    "ZerosLike": NodeRule("zeros_like", "input"),
    "_FusedConv2D": NodeRule("_fused_conv2d", "input filters *args", f"{_CONV} fused_ops epsilon leakyrelu_alpha"),
    "_FusedDepthwiseConv2dNative": NodeRule("_fused_depthwise_conv2d", "input filters *args",
        f"{_CONV} fused_ops epsilon leakyrelu_alpha"),
    "_FusedMatMul": NodeRule("_fused_matmul", "a b *args", "transpose_a transpose_b fused_ops epsilon leakyrelu_alpha",
        rank=2),
}  # fmt: skip
"""The rule for each op of a NodeDef."""

_INNER = {PREFIX + op: rule for op, rule in PART_RULES.items()}


def rule_of(op: str) -> NodeRule | ListRule | PartRule | None:
    """Return the rule of an op of a NodeDef, or of one that stands for it in a body; None if it has no rule."""
    return NODES.get(op) or _INNER.get(op)


STRUCTURE = {
    "Const": "a constant", "Placeholder": "an input", "PlaceholderV2": "an input", "NoOp": "nothing",
    "Assert": "nothing", "Print": "its input", "PrintV2": "nothing", "TensorArrayCloseV3": "nothing",
    "If": "one of two functions", "StatelessIf": "one of two functions",
    "Case": "one of several functions", "StatelessCase": "one of several functions",
    "While": "a function while another holds", "StatelessWhile": "a function while another holds",
    "PartitionedCall": "a function", "StatefulPartitionedCall": "a function",
    "Enter": "a loop", "Exit": "a loop", "LoopCond": "a loop", "NextIteration": "a loop",
    "Switch": "one side of a branch", "RefSwitch": "one side of a branch", "Merge": "the side that was taken",
}  # fmt: skip
"""Ops for control flow, inputs and constants, and what each one stands for. They have no rule."""
