"""The lines of a drawn image, with their scores: a detector, a classifier of angles and a recogniser of PP-OCRv4."""

from __future__ import annotations

from collections.abc import Callable

from drawn import lines_of_text
from rapidocr_onnxruntime import RapidOCR


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the models; what is returned reads the image."""
    engine, image = RapidOCR(), lines_of_text()
    return lambda: [(text, float(score)) for _, text, score in engine(image)[0]]
