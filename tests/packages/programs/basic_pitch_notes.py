"""The notes of a melody, from its samples: convolutions over a transform of constant Q."""

from __future__ import annotations

from collections.abc import Callable

import basic_pitch
import numpy as np
from basic_pitch import FilenameSuffix, build_icassp_2022_model_path
from basic_pitch.inference import Model
from drawn import tones

SAMPLES, RATE = 43_844, 22_050
"""What the model takes at a time."""


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the model; what is returned listens."""
    assert basic_pitch.ONNX_PRESENT
    model = Model(build_icassp_2022_model_path(FilenameSuffix.onnx))
    window = tones(SAMPLES / RATE + 1, RATE)[:SAMPLES].reshape(1, SAMPLES, 1)

    def answers() -> list[tuple[str, float]]:
        found = model.predict(window)
        return [
            (f"{name} {np.asarray(found[name]).shape}", float(np.asarray(found[name]).mean())) for name in sorted(found)
        ]

    return answers
