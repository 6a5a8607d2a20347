"""Speech by a small synthesiser that is made here; the number of samples depends on the text."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from graphs import voice
from piper import PiperVoice
from piper.phoneme_ids import DEFAULT_PHONEME_ID_MAP

TEXTS = ("one team of threads", "every model runs in order, and waits for work")


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write and load the voice; what is returned speaks."""
    folder = Path(tempfile.mkdtemp())
    symbols = 1 + max(number for numbers in DEFAULT_PHONEME_ID_MAP.values() for number in numbers)
    (folder / "voice.onnx").write_bytes(voice(symbols).SerializeToString())
    config = {
        "audio": {"sample_rate": 16_000},
        "espeak": {"voice": "en-us"},
        "inference": {"noise_scale": 0.0, "length_scale": 1.0, "noise_w": 0.0},
        "num_symbols": symbols,
        "num_speakers": 1,
        "phoneme_id_map": DEFAULT_PHONEME_ID_MAP,
    }
    (folder / "voice.onnx.json").write_text(json.dumps(config))
    speaker = PiperVoice.load(folder / "voice.onnx")

    def answers() -> list[tuple[str, float]]:
        found = []
        for text in TEXTS:
            for chunk in speaker.synthesize(text):
                samples = chunk.audio_float_array
                found += [
                    (f"{len(samples)} samples", float(np.abs(part).mean())) for part in np.array_split(samples, 8)
                ]
        return found

    return answers
