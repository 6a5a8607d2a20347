"""Functions by the rules of ATen ops, one line each: what users write, in the order of the op's schema."""

# ruff: noqa: A006 - the names of arguments are PyTorch's

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.compat.torch.dispatch import tensor_function
from weft.compat.torch.functions.aten import noted, of_op
from weft.compat.torch.functions.layer import each_axis
from weft.compat.torch.tensor import Tensor


def _list(given: Any) -> list[int]:
    return [given] if isinstance(given, int) else [int(each) for each in given]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "addcdiv": of_op("addcdiv", lambda input, tensor1, tensor2, *, value=1: (input, tensor1, tensor2, value)),
    "addcmul": of_op("addcmul", lambda input, tensor1, tensor2, *, value=1: (input, tensor1, tensor2, value)),
    "atan2": of_op("atan2", lambda input, other: (input, other)),
    "bilinear": of_op("bilinear", lambda input1, input2, weight, bias=None: (input1, input2, weight, bias)),
    "celu": of_op("celu", lambda input, alpha=1.0: (input, alpha)),
    "clamp_max": of_op("clamp_max", lambda input, max: (input, max)),
    "clamp_min": of_op("clamp_min", lambda input, min: (input, min)),
    "exp2": of_op("exp2", lambda input: (input,)),
    "expm1": of_op("expm1", lambda input: (input,)),
    "instance_norm": of_op(
        "instance_norm",
        lambda input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
        eps=1e-5: (input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False),
    ),
    "log10": of_op("log10", lambda input: (input,)),
    "outer": of_op("outer", lambda input, vec2: (input, vec2)),
    "pixel_shuffle": of_op("pixel_shuffle", lambda input, upscale_factor: (input, upscale_factor)),
    "pixel_unshuffle": of_op("pixel_unshuffle", lambda input, downscale_factor: (input, downscale_factor)),
    "prelu": of_op("prelu", lambda input, weight: (input, weight)),
    "roll": of_op("roll", lambda input, shifts, dims=(): (input, _list(shifts), _list(dims))),
    "rsub": of_op("rsub", lambda input, other, *, alpha=1: (input, other, alpha)),
    "selu": of_op("selu", lambda input: (input,)),
    "take_along_dim": of_op("take_along_dim", lambda input, indices, dim=None: (input, indices, dim)),
    "threshold": of_op("threshold", lambda input, threshold, value: (input, threshold, value)),
}  # fmt: skip
"""Of torch itself."""


def _convolution_back(rank: int) -> Callable[..., Any]:
    def arguments(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> tuple[Any, ...]:
        sizes = [list(each_axis(given, rank)) for given in (stride, padding, output_padding, dilation)]
        return input, weight, bias, sizes[0], sizes[1], sizes[2], groups, sizes[3]

    return of_op(f"conv_transpose{rank}d", arguments)


def _adaptive(kind: str, rank: int) -> Callable[..., Any]:
    op = f"adaptive_{kind}_pool{rank}d"

    def function(input: Tensor, output_size: Any) -> Tensor:
        given = [output_size] * rank if output_size is None or isinstance(output_size, int) else list(output_size)
        lengths = input.shape[input.ndim - rank :]
        sizes = [length if size is None else int(size) for size, length in zip(given, lengths, strict=True)]
        found = noted(op, (input, sizes))
        return found[0] if kind == "max" else found  # type: ignore[no-any-return]

    function.__name__, function.__doc__ = op, f"PyTorch's {op}."
    return tensor_function(function)


def _pool(kind: str) -> Callable[..., Any]:
    more = (1, False) if kind == "max" else (False, True)
    names = ("dilation", "ceil_mode") if kind == "max" else ("ceil_mode", "count_include_pad")

    def arguments(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, *rest: Any, **named: Any
    ) -> Any:
        given = {**dict(zip(names, more, strict=True)), **dict(zip(names, rest, strict=False)), **named}
        if given.keys() != set(names):
            raise TypeError(f"{kind}_pool3d has no argument {min(given.keys() - set(names))!r}")
        return input, kernel_size, () if stride is None else stride, padding, *(given[name] for name in names)

    return of_op(f"{kind}_pool3d", arguments)


_RESIZES = {
    ("nearest", 1): "upsample_nearest1d", ("nearest", 2): "upsample_nearest2d", ("nearest", 3): "upsample_nearest3d",
    ("linear", 1): "upsample_linear1d", ("bilinear", 2): "upsample_bilinear2d", ("bicubic", 2): "upsample_bicubic2d",
    ("trilinear", 3): "upsample_trilinear3d",
}  # fmt: skip


@tensor_function
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """[N, C, *S] resized to `size`, or by `scale_factor`. Raises NotImplementedError for a mode that S does not have."""
    rank = input.ndim - 2
    op = _RESIZES.get((mode, rank))
    if op is None:
        known = ", ".join(name for name, of in _RESIZES if of == rank) or "none"
        raise NotImplementedError(f"interpolate of {rank} axes by {mode!r}: wanted one of {known}")
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    lengths = input.shape[2:]
    scales: list[float] | None = None
    if scale_factor is not None:
        one = isinstance(scale_factor, int | float)
        scales = [float(scale_factor)] * rank if one else list(scale_factor)  # type: ignore[arg-type]
        sizes = [int(length * scale) for length, scale in zip(lengths, scales, strict=True)]
    else:
        sizes = [size] * rank if isinstance(size, int) else list(size or ())
    corners = () if mode == "nearest" else (bool(align_corners),)
    found: Tensor = noted(op, (input, sizes, *corners, *([None] * rank if scales is None else scales)))
    return found


FUNCTIONAL: dict[str, Callable[..., Any]] = {
    **{name: FUNCTIONS[name] for name in ("bilinear", "celu", "instance_norm", "pixel_shuffle", "pixel_unshuffle")},
    **{name: FUNCTIONS[name] for name in ("prelu", "selu", "threshold")},
    **{f"conv_transpose{rank}d": _convolution_back(rank) for rank in (1, 3)},
    **{f"adaptive_{kind}_pool{rank}d": _adaptive(kind, rank) for kind in ("avg", "max") for rank in (1, 2, 3)},
    "avg_pool3d": _pool("avg"),
    "interpolate": interpolate,
    "max_pool3d": _pool("max"),
    "upsample": interpolate,
}
"""Of torch.nn.functional."""
