"""NudeNet's detector (YOLOv8, 320 x 320) on the drawing of a person: what it finds, and the means of its outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drawn import person
from nudenet import NudeDetector


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the model; what is returned detects."""
    detector, image = NudeDetector(), person()
    pixels = image.transpose(2, 0, 1)[None].astype(np.float32) / 255

    def answers() -> list[tuple[str, float]]:
        found = detector.detect(image)
        parts = [(f"{each['class']} {[round(at) for at in each['box']]}", float(each["score"])) for each in found]
        (given,) = detector.onnx_session.run(None, {detector.input_name: pixels})
        return [*parts, *(("mean of scores", float(row.mean())) for row in given[0, 4:])]

    return answers
