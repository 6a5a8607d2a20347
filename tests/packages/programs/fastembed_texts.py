"""The vectors of texts by an encoder that is made here, and their likeness."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from graphs import TEXTS, write_encoder


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write and load the model; what is returned embeds the texts."""
    folder = Path(tempfile.mkdtemp())
    width = write_encoder(folder, folder / "model.onnx")
    TextEmbedding.add_custom_model(
        model="made/here",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url="file:///made-here"),
        dim=width,
        model_file="model.onnx",
    )
    embedder = TextEmbedding("made/here", specific_model_path=str(folder))

    def answers() -> list[tuple[str, float]]:
        found = list(embedder.embed(list(TEXTS)))
        return [(text, float(number)) for text, vector in zip(TEXTS, found, strict=True) for number in vector[:8]]

    return answers
