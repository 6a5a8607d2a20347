"""Whether a speaker has finished (smart-turn v3.2, an 8-bit encoder), and where speech is (Silero's detector)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drawn import tones
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer

RATE = 16_000


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Load the models; what is returned listens to a melody."""
    turns = LocalSmartTurnAnalyzerV3(sample_rate=RATE)
    speech = SileroVADAnalyzer(sample_rate=RATE)
    speech.set_sample_rate(RATE)
    samples = tones(4, RATE)
    size = speech.num_frames_required()
    buffers = [(samples[at : at + size] * 32767).astype(np.int16).tobytes() for at in range(0, 20 * size, size)]

    def answers() -> list[tuple[str, float]]:
        speech._model.reset_states()  # the detector carries a state from one call to the next
        turn = turns._predict_endpoint(samples)
        heard = [("speech", float(np.reshape(speech.voice_confidence(each), ())[()])) for each in buffers]
        return [(f"turn {turn['prediction']}", float(turn["probability"])), *heard]

    return answers
