"""The vectors of texts by the default embedding of Chroma, whose model is made here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from chromadb.utils.embedding_functions import DefaultEmbeddingFunction
from chromadb.utils.embedding_functions.onnx_mini_lm_l6_v2 import ONNXMiniLM_L6_V2
from graphs import TEXTS, numbers, write_encoder

_FILES = (
    "config.json",
    "model.onnx",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "vocab.txt",
)


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write the model where Chroma keeps the one that it downloads; what is returned embeds the texts."""
    place = Path(tempfile.mkdtemp())
    ONNXMiniLM_L6_V2.DOWNLOAD_PATH = place
    folder = place / ONNXMiniLM_L6_V2.EXTRACTED_FOLDER_NAME
    write_encoder(folder)
    for name in _FILES:
        (folder / name).touch()
    embed = DefaultEmbeddingFunction()
    return lambda: numbers(embed(list(TEXTS)))
