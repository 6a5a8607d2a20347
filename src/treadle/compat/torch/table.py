"""The tables of tensor functions: their names in `torch`, and whether they are also methods of Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.compat.torch import dtypes
from treadle.compat.torch.functions import (
    activation,
    arithmetic,
    arrangement,
    attention,
    bags,
    conv,
    creation,
    diagonal,
    distance,
    elementary,
    indexing,
    inplace,
    loss,
    matmul,
    norm,
    pool,
    reduction,
    resize,
    selection,
    shape,
    statistics,
    writing,
)
from treadle.compat.torch.functions.rule import of_op
from treadle.compat.torch.tensor import METHODS, Tensor

Function = Callable[..., Any]


def _of(module: Any, names: str) -> dict[str, Function]:
    """Returns functions of `module` by PyTorch's names; a function named like a Python builtin ends in `_` there."""
    found = {}
    for name in names.split():
        function = getattr(module, f"{name}_", None)
        found[name] = function if callable(function) and not name.endswith("_") else getattr(module, name)
    return found


ARITHMETIC = _of(
    arithmetic,
    "add sub rsub mul div floor_divide remainder fmod pow neg abs sign sqrt rsqrt reciprocal square floor ceil round "
    "trunc addcdiv addcmul maximum minimum clamp clamp_max clamp_min lerp masked_fill eq ne lt le gt ge isnan isinf "
    "isfinite bitwise_not bitwise_and bitwise_or bitwise_xor logical_not logical_and logical_or logical_xor allclose "
    "isclose equal",
)
ELEMENTARY = _of(
    elementary,
    "exp exp2 expm1 log log2 log10 log1p logaddexp sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erf "
    "erfc frac hypot nan_to_num",
)
PRODUCTS = _of(matmul, "mm bmm matmul mv dot addmm baddbmm einsum outer bilinear tensordot")
REDUCTIONS = _of(
    reduction,
    "sum mean prod amax amin max min argmax argmin var std norm logsumexp all any cummax cummin cumprod cumsum "
    "logcumsumexp topk sort argsort",
)
STATISTICS = _of(
    statistics,
    "aminmax bincount bucketize count_nonzero histc kthvalue median mode quantile searchsorted std_mean unique "
    "var_mean",
)
SHAPES = _of(
    shape,
    "reshape flatten unflatten permute transpose t squeeze unsqueeze cat stack split chunk narrow select unbind "
    "flip tril triu clone",
)
ARRANGEMENTS = _of(
    arrangement,
    "atleast_1d atleast_2d broadcast_tensors broadcast_to column_stack dstack fliplr flipud hstack meshgrid movedim "
    "ravel repeat_interleave roll row_stack tile vstack",
)
DIAGONALS = _of(diagonal, "diag diagonal trace")
MATRICES = {
    "cholesky_solve": of_op("cholesky_solve", lambda input, L, upper=False: (input, L, upper)),  # noqa: N803 - PyTorch's name
    "det": of_op("det"),
    "inverse": of_op("inverse"),
    "logdet": of_op("logdet"),
    "masked_scatter": of_op("masked_scatter", lambda input, mask, source: (input, mask, source)),
    "scatter_reduce": of_op("scatter_reduce.two"),
    "slogdet": of_op("slogdet"),
    "unfold": of_op("unfold", lambda input, dimension, size, step: (input, dimension, size, step)),
}
DISTANCES = _of(distance, "cdist cosine_similarity")
INDEXING = {
    **_of(indexing, "masked_select"),
    **_of(selection, "argwhere index_select gather scatter scatter_add nonzero take_along_dim where"),
}
ACTIVATIONS = _of(activation, "relu sigmoid tanh softmax log_softmax celu prelu selu threshold")
CONVOLUTIONS = _of(conv, "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
NORMS = _of(norm, "batch_norm layer_norm rms_norm group_norm instance_norm")
SHUFFLES = _of(resize, "pixel_shuffle pixel_unshuffle")
CREATION = _of(
    creation,
    "tensor from_numpy as_tensor from_dlpack zeros zeros_like ones ones_like empty empty_like full full_like arange "
    "linspace eye rand rand_like randn randn_like randint randperm manual_seed bernoulli normal",
)
ALIASES = {
    "absolute": ARITHMETIC["abs"],
    "clip": ARITHMETIC["clamp"],
    "concat": SHAPES["cat"],
    "concatenate": SHAPES["cat"],
    "divide": ARITHMETIC["div"],
    "multiply": ARITHMETIC["mul"],
    "negative": ARITHMETIC["neg"],
    "subtract": ARITHMETIC["sub"],
    "swapaxes": SHAPES["transpose"],
    "true_divide": ARITHMETIC["div"],
}
FUNCTIONAL: dict[str, Function] = {
    **_of(
        activation,
        "relu gelu silu softplus mish leaky_relu elu hardtanh relu6 hardsigmoid hardswish softsign logsigmoid glu "
        "sigmoid tanh softmax log_softmax celu prelu selu threshold",
    ),
    **CONVOLUTIONS,
    **NORMS,
    **SHUFFLES,
    **_of(
        pool,
        "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
        "adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
    ),
    **_of(activation, "dropout softmin tanhshrink hardshrink softshrink"),
    **_of(attention, "scaled_dot_product_attention"),
    **_of(distance, "cosine_similarity"),
    **_of(
        loss,
        "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss kl_div l1_loss mse_loss "
        "nll_loss smooth_l1_loss",
    ),
    **_of(selection, "embedding one_hot"),
    **_of(bags, "embedding_bag"),
    **_of(arrangement, "pad"),
    **_of(norm, "normalize"),
    **_of(resize, "interpolate"),
    "bilinear": matmul.bilinear,
    "upsample": resize.interpolate,
    "linear": matmul.linear,
}
"""The functions of torch.nn.functional."""
for _name in [
    "relu",
    "silu",
    "mish",
    "leaky_relu",
    "elu",
    "hardtanh",
    "relu6",
    "hardsigmoid",
    "hardswish",
    "celu",
    "selu",
    "threshold",
    "dropout",
]:
    FUNCTIONAL[_name] = inplace.with_inplace(FUNCTIONAL[_name])

_COMMON = {
    **ARITHMETIC,
    **ELEMENTARY,
    **PRODUCTS,
    **REDUCTIONS,
    **STATISTICS,
    **SHAPES,
    **ARRANGEMENTS,
    **DIAGONALS,
    **MATRICES,
    **INDEXING,
    **ACTIVATIONS,
}
"""Functions of torch that are also methods, except those in `_NO_METHODS`."""
FUNCTIONS: dict[str, Function] = {
    **_COMMON,
    **DISTANCES,
    **CONVOLUTIONS,
    **NORMS,
    **SHUFFLES,
    **CREATION,
    **ALIASES,
    **_of(pool, "max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d"),
    "dropout": FUNCTIONAL["dropout"],
    "bitwise_left_shift": arithmetic.shift_left,
    "bitwise_right_shift": arithmetic.shift_right,
    "embedding": selection.embedding_of_weight,
    "finfo": dtypes.finfo,
    "iinfo": dtypes.iinfo,
    "promote_types": dtypes.promote_types,
}
"""The functions of torch."""
for _name in [
    "add",
    "sub",
    "mul",
    "div",
    "mm",
    "bmm",
    "matmul",
    "addmm",
    "cat",
    "stack",
    "exp",
    "log",
    "sqrt",
    "sum",
    "mean",
    "relu",
    "sigmoid",
    "tanh",
    "maximum",
    "minimum",
    "clamp",
]:
    FUNCTIONS[_name] = inplace.with_out(FUNCTIONS[_name])

_NO_METHODS = {
    "bilinear", "broadcast_tensors", "bucketize", "cdist", "celu", "cholesky_solve", "column_stack",
    "cosine_similarity", "dstack", "hstack", "instance_norm", "meshgrid", "pixel_shuffle", "pixel_unshuffle",
    "row_stack", "rsub", "searchsorted", "selu", "std_mean", "tensordot", "threshold", "var_mean", "vstack",
}  # fmt: skip
METHODS.update(
    {
        **{name: each for name, each in _COMMON.items() if name not in _NO_METHODS},
        **creation.CONVERSIONS,
        **{
            name: ALIASES[name]
            for name in ("absolute", "clip", "divide", "multiply", "negative", "subtract", "swapaxes")
        },
        **_of(shape, "expand expand_as repeat contiguous view_as"),
        **_of(creation, "type type_as new_empty new_full new_ones new_tensor new_zeros"),
        **_of(writing, "copy_ fill_ zero_"),
        "view": shape.view,
        "reshape_as": shape.view_as,
        "shift_left": arithmetic.shift_left,
        "shift_right": arithmetic.shift_right,
        "nelement": Tensor.numel,
        "ndimension": Tensor.dim,
        "where": lambda x, condition, other: arithmetic.where(condition, x, other),
        "to": creation.to,
        "_index": indexing.index_,
        "_set_index": indexing.set_index,
    }
)
METHODS.update(
    {f"{name}_": inplace.in_place(METHODS[name], name) for name in inplace.NAMES.split() if name in METHODS}
    | {"_write": inplace.write_into, "normal_": inplace.normal_, "uniform_": inplace.uniform_}
)
for _name in ("einsum", "cat", "stack"):
    METHODS.pop(_name)
