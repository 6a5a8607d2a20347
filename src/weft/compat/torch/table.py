"""Every tensor function, one line a family: its name in `torch`, and whether it is a method of Tensor too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.compat.torch.functions import (
    activation,
    arithmetic,
    creation,
    indexing,
    inplace,
    layer,
    matmul,
    reduction,
    shape,
)
from weft.compat.torch.tensor import METHODS

Function = Callable[..., Any]


def _of(module: Any, names: str) -> dict[str, Function]:
    """The functions of `module` by PyTorch's names; where Python has the name already, it ends in `_` there."""
    found = {}
    for name in names.split():
        function = getattr(module, f"{name}_", None)
        found[name] = function if callable(function) and not name.endswith("_") else getattr(module, name)
    return found


ARITHMETIC = _of(
    arithmetic,
    "add sub mul div floor_divide remainder fmod pow neg abs sign exp log log2 log1p sqrt rsqrt reciprocal square "
    "floor ceil round trunc sin cos tan asin acos atan sinh cosh erf maximum minimum clamp lerp where masked_fill "
    "eq ne lt le gt ge isnan isinf isfinite bitwise_not bitwise_and bitwise_or bitwise_xor "
    "logical_not logical_and logical_or logical_xor allclose equal",
)
PRODUCTS = _of(matmul, "mm bmm matmul mv dot addmm baddbmm einsum")
REDUCTIONS = _of(
    reduction,
    "sum mean prod amax amin max min argmax argmin var std norm logsumexp all any cumsum topk sort argsort",
)
SHAPES = _of(
    shape,
    "reshape flatten unflatten permute transpose t squeeze unsqueeze cat stack split chunk narrow select unbind "
    "flip tril triu clone",
)
INDEXING = _of(indexing, "index_select gather scatter scatter_add nonzero masked_select")
ACTIVATIONS = _of(activation, "relu sigmoid tanh softmax log_softmax")
CREATION = _of(
    creation,
    "tensor from_numpy as_tensor from_dlpack zeros zeros_like ones ones_like empty empty_like full full_like arange "
    "linspace eye rand rand_like randn randn_like randint randperm manual_seed",
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
FUNCTIONAL = {
    **_of(
        activation,
        "relu gelu silu softplus mish leaky_relu elu hardtanh relu6 hardsigmoid hardswish softsign logsigmoid glu "
        "sigmoid tanh softmax log_softmax",
    ),
    **_of(
        layer,
        "conv1d conv2d conv3d conv_transpose2d max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool2d "
        "layer_norm rms_norm batch_norm group_norm pad dropout normalize scaled_dot_product_attention",
    ),
    **_of(indexing, "embedding one_hot"),
    "linear": matmul.linear,
}
"""The functions of torch.nn.functional."""

_LAYERS = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose2d",
    "batch_norm",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "dropout",
    "embedding",
]
FUNCTIONS: dict[str, Function] = {
    **ARITHMETIC,
    **PRODUCTS,
    **REDUCTIONS,
    **SHAPES,
    **INDEXING,
    **ACTIVATIONS,
    **CREATION,
    **ALIASES,
    **{name: FUNCTIONAL[name] for name in _LAYERS},
}
"""The functions of torch itself."""

METHODS.update(
    {
        **ARITHMETIC,
        **PRODUCTS,
        **REDUCTIONS,
        **SHAPES,
        **INDEXING,
        **ACTIVATIONS,
        **creation.CONVERSIONS,
        **{
            name: ALIASES[name]
            for name in ("absolute", "clip", "divide", "multiply", "negative", "subtract", "swapaxes")
        },
        **_of(shape, "expand expand_as repeat contiguous"),
        **_of(indexing, "copy_ fill_ zero_"),
        "view": shape.reshape,
        "where": lambda x, condition, other: arithmetic.where(condition, x, other),
        "to": creation.to,
        "_index": indexing.index_,
        "_set_index": indexing.set_index,
    }
)
METHODS.update(
    {f"{name}_": inplace.in_place(METHODS[name], name) for name in inplace.NAMES.split() if name in METHODS}
    | {"_written": inplace.written, "normal_": inplace.normal_, "uniform_": inplace.uniform_}
)
for _name in ("einsum", "cat", "stack"):
    METHODS.pop(_name)
