"""Resizing of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle import dtypes
from treadle.frontends.tensorflow.emitter import Emitter, integer
from treadle.frontends.tensorflow.rules.conv import Layout
from treadle.frontends.tensorflow.rules.kinds import Same, Value


def resize(mode: str) -> Callable[..., Any]:
    """The rule of resize_bilinear, resize_bicubic or resize_nearest_neighbor, through the core mode `mode`."""

    def rule(
        e: Emitter,
        images: Same,
        size: Sequence[int],
        align_corners: bool = False,
        half_pixel_centers: bool = False,
    ) -> Value:
        """images [N, H, W, C] -> [N, *size, C], float32 unless of the nearest neighbour."""
        if align_corners and half_pixel_centers:
            raise ValueError("resize: align_corners and half_pixel_centers exclude each other")
        e.expect_rank(images, 4)
        if e.rank(images) != 4 or len(size) != 2 or any(number < 1 for number in (*e.shape(images)[1:], *size)):
            raise ValueError(f"resize: wanted images [N, H, W, C] and 2 sizes of at least 1, got {size!r}")
        layout = Layout(4, "NHWC")
        x = layout.enter(e, images if mode == "nearest" else e.cast(images, dtypes.f32))
        batch, channels, *_ = e.shape(x)
        sizes = e.integers([batch, channels, *map(integer, size)])
        centred = align_corners or half_pixel_centers
        made = e.add(
            "resize",
            x,
            None,
            None,
            sizes,
            mode=mode,
            coordinate_mode="align_corners" if align_corners else "half_pixel" if centred else "asymmetric",
            nearest_mode="round_prefer_ceil" if centred else "floor",
            cubic_coeff=-0.5 if half_pixel_centers else -0.75,
            exclude_outside=half_pixel_centers and mode == "cubic",
        )
        return layout.leave(e, made)

    return rule
