"""STFT for the `onnx` package's reference implementation, whose own pads frames that are longer than the signal."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

Array = np.ndarray[Any, Any]


@cache
def stft() -> type[OpRun]:
    """Return the STFT of the specification (https://onnx.ai/onnx/operators/onnx__STFT.html)."""
    from onnx.reference.ops import op_stft

    class STFT(op_stft.STFT):
        op_domain = ""

        def _run(  # type: ignore[override]
            self, x: Array, frame_step: Array, window: Array | None = None, frame_length: Any = None, **options: Any
        ) -> Any:
            signal = x.shape[-2]
            wanted = int(frame_length) if frame_length is not None else signal if window is None else window.shape[0]
            if not 1 <= wanted <= signal:
                raise ValueError(f"frame_length must be from 1 to {signal}, the length of the signal, got {wanted}")
            if frame_step < 1:
                raise ValueError(f"frame_step must be 1 or more, got {frame_step}")
            return super()._run(x, frame_step, window, frame_length, **options)  # type: ignore[no-untyped-call]

    return STFT
