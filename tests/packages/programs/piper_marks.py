"""Hebrew and Arabic texts with the marks of their vowels, which piper-tts puts in by recurrent layers."""

from __future__ import annotations

from collections.abc import Callable

from piper.hebrew import NakdimonDiacritizer
from piper.tashkeel import TashkeelDiacritizer

HEBREW = "שלום עולם, זה משפט קצר בעברית"
ARABIC = "السلام عليكم ورحمة الله وبركاته"


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the models; what is returned puts the marks in."""
    hebrew, arabic = NakdimonDiacritizer(), TashkeelDiacritizer()
    return lambda: [(hebrew(HEBREW), 1.0), (arabic(ARABIC), 1.0)]
