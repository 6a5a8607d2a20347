"""The lines of a drawn image, with their scores: a detector, a classifier of angles and a recogniser of PP-OCRv6."""

from __future__ import annotations

from collections.abc import Callable

from drawn import lines_of_text
from rapidocr import RapidOCR


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the models; what is returned reads the image."""
    engine, image = RapidOCR(), lines_of_text()

    def answers() -> list[tuple[str, float]]:
        found = engine(image)
        return [(text, float(score)) for text, score in zip(found.txts, found.scores, strict=True)]

    return answers
