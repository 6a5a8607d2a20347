"""Where speech is in a melody, by Silero's detector with its own loop over windows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from drawn import tones
from silero_vad import get_speech_timestamps, load_silero_vad

RATE, WINDOW = 16_000, 512


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the model; what is returned listens."""
    model = load_silero_vad(onnx=True)
    samples = torch.from_numpy(tones(3, RATE))

    def answers() -> list[tuple[str, float]]:
        spans = get_speech_timestamps(samples, model, sampling_rate=RATE, threshold=0.05)
        model.reset_states()
        windows = [samples[at : at + WINDOW] for at in range(0, 20 * WINDOW, WINDOW)]
        return [(f"speech {spans}", 1.0), *(("window", float(model(window, RATE).item())) for window in windows)]

    return answers
