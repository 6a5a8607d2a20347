"""Resizing of images."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.rule import apply_rule, of_op
from treadle.compat.torch.tensor import Tensor

pixel_shuffle = of_op("pixel_shuffle", lambda input, upscale_factor: (input, upscale_factor))
pixel_unshuffle = of_op("pixel_unshuffle", lambda input, downscale_factor: (input, downscale_factor))

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
    """Resizes [N, C, *S] to `size` or by `scale_factor`.

    Raises NotImplementedError for a mode that this rank does not have.
    """
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
    found: Tensor = apply_rule(op, (input, sizes, *corners, *([None] * rank if scales is None else scales)))
    return found
