"""Words in drawn images by the newer recogniser, and the boxes of a detector: convolutions and an LSTM."""

from __future__ import annotations

from collections.abc import Callable

from ddddocr import DdddOcr
from drawn import word

WORDS = ("a7Kx", "treadle", "2026")


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the models; what is returned reads the words."""
    reader, finder = DdddOcr(show_ad=False, beta=True), DdddOcr(show_ad=False, det=True, ocr=False)
    images = [word(text) for text in WORDS]
    return lambda: [(f"{reader.classification(image)} {finder.detection(image)}", 1.0) for image in images]
