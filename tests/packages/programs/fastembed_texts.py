"""The vectors of texts by an encoder that is made here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from graphs import TEXTS, numbers, write_encoder

WIDTH = 192


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write and load the model; what is returned embeds the texts."""
    folder = Path(tempfile.mkdtemp())
    write_encoder(folder, WIDTH)
    TextEmbedding.add_custom_model(
        model="made/here",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url="file:///made-here"),
        dim=WIDTH,
        model_file="model.onnx",
    )
    embedder = TextEmbedding("made/here", specific_model_path=str(folder))
    return lambda: numbers(embedder.embed(list(TEXTS)))
