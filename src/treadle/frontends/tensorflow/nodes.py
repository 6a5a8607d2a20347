"""Every op of TensorFlow's files that treadle runs, one line each."""

from __future__ import annotations

from treadle.frontends.tensorflow.forms import Form
from treadle.frontends.tensorflow.list_table import LISTS, ListForm

_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Erfc": "erfc", "Exp": "exp", "Expm1": "expm1",
    "Floor": "floor", "Inv": "reciprocal", "Log": "log", "Log1p": "log1p", "LogicalNot": "logical_not",
    "Neg": "negative", "Reciprocal": "reciprocal", "Rint": "round", "Round": "round", "Rsqrt": "rsqrt",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Sqrt": "sqrt",
    "Square": "square", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
_TESTS = {"IsFinite": "is_finite", "IsInf": "is_inf", "IsNan": "is_nan"}
_ACTIVATIONS = {
    "Elu": "nn.elu", "Relu": "nn.relu", "Relu6": "nn.relu6", "Selu": "nn.selu", "Softsign": "nn.softsign",
}  # fmt: skip
_BINARY = {
    "Add": "add", "AddV2": "add", "Div": "truncatediv", "DivNoNan": "div_no_nan", "FloorDiv": "floordiv",
    "FloorMod": "floormod", "Maximum": "maximum", "Minimum": "minimum", "Mod": "truncatemod", "Mul": "multiply",
    "Pow": "pow", "RealDiv": "truncatediv", "SquaredDifference": "squared_difference", "Sub": "subtract",
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
_SLICE = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"

NODES: dict[str, Form | ListForm] = {
    **LISTS,
    **{op: Form(rule, "x") for op, rule in _UNARY.items()},
    **{op: Form(rule, "x", dtype="=bool") for op, rule in _TESTS.items()},
    **{op: Form(rule, "x" if rule == "nn.relu" else "features") for op, rule in _ACTIVATIONS.items()},
    **{op: Form(rule, "x y") for op, rule in _BINARY.items()},
    **{op: Form(rule, "x y", dtype="=bool") for op, rule in _COMPARISONS.items()},
    **{op: Form(rule, "input_tensor axis", "keep_dims=keepdims") for op, rule in _REDUCTIONS.items()},
    **{op: Form("identity", "input") for op in _SAME},
    "All": Form("reduce_all", "input_tensor axis", "keep_dims=keepdims", "=bool"),
    "Any": Form("reduce_any", "input_tensor axis", "keep_dims=keepdims", "=bool"),
    "AddN": Form("add_n", "*inputs"),
    "ArgMax": Form("argmax", "input axis", "output_type", "output_type=i64"),
    "ArgMin": Form("argmin", "input axis", "output_type", "output_type=i64"),
    "AvgPool": Form("nn.avg_pool", "input", _POOL, rank=4),
    "AvgPool3D": Form("nn.avg_pool", "input", _POOL, rank=5),
    "BatchMatMul": Form("_batch_matmul", "a b", "adj_x=adjoint_a adj_y=adjoint_b"),
    "BatchMatMulV2": Form("matmul", "a b", "adj_x=adjoint_a adj_y=adjoint_b"),
    "BatchMatMulV3": Form("matmul", "a b", "adj_x=adjoint_a adj_y=adjoint_b", "Tout"),
    "BatchNormWithGlobalNormalization": Form(
        "_global_batch_norm", "t m v beta gamma", "variance_epsilon scale_after_normalization"
    ),
    "BatchToSpaceND": Form("batch_to_space", "input block_shape crops"),
    "BiasAdd": Form("nn.bias_add", "value bias", "data_format"),
    "BiasAddV1": Form("nn.bias_add", "value bias"),
    "BroadcastTo": Form("broadcast_to", "input shape"),
    "Cast": Form("cast", "x", "DstT=dtype", "DstT", only={"Truncate": (False,)}),
    "ClipByValue": Form("_clip_by_value", "t clip_value_min clip_value_max"),
    "Concat": Form("concat", "axis *values"),
    "ConcatV2": Form("concat", "*values axis"),
    "Conv2D": Form("nn.conv", "input filters", _CONV, rank=4),
    "Conv2DBackpropInput": Form("nn.conv2d_transpose", "output_shape filters input", _CONV),
    "Conv3D": Form("nn.conv", "input filters", _CONV, rank=5),
    "Cumsum": Form("cumsum", "x axis", "exclusive reverse"),
    "DepthToSpace": Form("nn.depth_to_space", "input", "block_size data_format"),
    "DepthwiseConv2dNative": Form("nn.depthwise_conv2d", "input filter", _CONV),
    "Einsum": Form("einsum", "*inputs", "equation"),
    "EnsureShape": Form("ensure_shape", "x", "shape"),
    "Equal": Form("_equal", "x y", "incompatible_shape_error", "=bool"),
    "ExpandDims": Form("expand_dims", "input axis"),
    "Fill": Form("fill", "dims value"),
    "FusedBatchNorm": Form("nn.fused_batch_norm", "x scale offset mean variance", _NORM, results="y batch_mean batch_variance", fixed=_NORM_PRESETS),
    "FusedBatchNormV2": Form("nn.fused_batch_norm", "x scale offset mean variance", _NORM, "T U", "y batch_mean batch_variance", _NORM_PRESETS),
    "FusedBatchNormV3": Form("nn.fused_batch_norm", "x scale offset mean variance", _NORM, "T U", "y batch_mean batch_variance", _NORM_PRESETS),
    "Gather": Form("gather", "params indices", dtype="Tparams"),
    "GatherNd": Form("gather_nd", "params indices", dtype="Tparams", only=_FOUND),
    "GatherV2": Form("gather", "params indices axis", "batch_dims", "Tparams"),
    "IdentityN": Form("_identity_n", "*input"),
    "LRN": Form("nn.local_response_normalization", "input", "depth_radius bias alpha beta", rank=4),
    "LeakyRelu": Form("nn.leaky_relu", "features", "alpha"),
    "LinSpace": Form("linspace", "start stop num"),
    "LogSoftmax": Form("nn.log_softmax", "logits"),
    "MatMul": Form("matmul", "a b", "transpose_a transpose_b", rank=2),
    "MatrixBandPart": Form("linalg.band_part", "input num_lower num_upper"),
    "MaxPool": Form("nn.max_pool", "input", _POOL, rank=4),
    "MaxPool3D": Form("nn.max_pool", "input", _POOL, rank=5),
    "MaxPoolV2": Form("nn.max_pool", "input ksize strides", "padding data_format", rank=4),
    "MirrorPad": Form("pad", "tensor paddings", "mode"),
    "NotEqual": Form("_not_equal", "x y", "incompatible_shape_error", "=bool"),
    "OneHot": Form("one_hot", "indices depth on_value off_value", "axis T=dtype"),
    "OnesLike": Form("ones_like", "input"),
    "Pack": Form("stack", "*values", "axis"),
    "PlaceholderWithDefault": Form("identity", "input", dtype="dtype"),
    "Pad": Form("pad", "tensor paddings"),
    "PadV2": Form("pad", "tensor paddings constant_values"),
    "Range": Form("range", "start limit delta", dtype="Tidx=i32"),
    "Rank": Form("rank", "input", dtype="=i32"),
    "Reshape": Form("reshape", "tensor shape"),
    "ResizeBicubic": Form("image.resize_bicubic", "images size", "align_corners half_pixel_centers", "=f32"),
    "ResizeBilinear": Form("image.resize_bilinear", "images size", "align_corners half_pixel_centers", "=f32"),
    "ResizeNearestNeighbor": Form("image.resize_nearest_neighbor", "images size", "align_corners half_pixel_centers"),
    "ReverseV2": Form("reverse", "tensor axis"),
    "ScatterNd": Form("scatter_nd", "indices updates shape", only=_FOUND),
    "Select": Form("_select", "condition x y"),
    "SelectV2": Form("where", "condition x y"),
    "Shape": Form("shape", "input", "out_type", "out_type=i32"),
    "ShapeN": Form("_shape_n", "*input", "out_type", "out_type=i32"),
    "Size": Form("size", "input", "out_type", "out_type=i32"),
    "Slice": Form("slice", "input_ begin size"),
    "Softmax": Form("nn.softmax", "logits"),
    "SpaceToBatchND": Form("space_to_batch", "input block_shape paddings"),
    "SpaceToDepth": Form("nn.space_to_depth", "input", "block_size data_format"),
    "Split": Form("split", "axis value", "num_split=num_or_size_splits"),
    "SplitV": Form("split", "value num_or_size_splits axis", "num_split=num"),
    "Squeeze": Form("squeeze", "input", "squeeze_dims=axis"),
    "StridedSlice": Form("strided_slice", "input_ begin end strides", _SLICE),
    "TensorScatterUpdate": Form("tensor_scatter_nd_update", "tensor indices updates", only=_FOUND),
    "Tile": Form("tile", "input multiples"),
    "TopK": Form("nn.top_k", "input", "k sorted", "T =i32", "values indices"),
    "TopKV2": Form("nn.top_k", "input k", "sorted index_type", "T index_type=i32", "values indices"),
    "Transpose": Form("transpose", "a perm"),
    "Unpack": Form("unstack", "value", "num axis"),
    "Where": Form("where", "condition", dtype="=i64"),
    "ZerosLike": Form("zeros_like", "input"),
    "_FusedConv2D": Form("_fused_conv2d", "input filters *args", f"{_CONV} fused_ops epsilon leakyrelu_alpha"),
    "_FusedDepthwiseConv2dNative": Form("_fused_depthwise_conv2d", "input filter *args", f"{_CONV} fused_ops epsilon leakyrelu_alpha"),
    "_FusedMatMul": Form("_fused_matmul", "a b *args", "transpose_a transpose_b fused_ops epsilon leakyrelu_alpha", rank=2),
}  # fmt: skip
"""Op of a NodeDef -> its form."""

STRUCTURE = {
    "Const": "a constant", "Placeholder": "an input", "PlaceholderV2": "an input", "NoOp": "nothing", "Assert": "nothing",
    "Print": "its input", "PrintV2": "nothing", "TensorArrayCloseV3": "nothing", "If": "one of two functions", "StatelessIf": "one of two functions",
    "While": "a function while another holds", "StatelessWhile": "a function while another holds",
    "PartitionedCall": "a function", "StatefulPartitionedCall": "a function",
    "Enter": "a loop", "Exit": "a loop", "LoopCond": "a loop", "NextIteration": "a loop",
    "Switch": "one side of a branch", "RefSwitch": "one side of a branch", "Merge": "the side that was taken",
}  # fmt: skip
"""Ops of which the graph itself is made, and what each one is. They have no rule."""
