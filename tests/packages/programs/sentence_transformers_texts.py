"""The vectors of texts by sentence-transformers with backend="onnx": it exports an encoder that is made here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from graphs import TEXTS, write_encoder
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, BertConfig, BertModel


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write, export and load the model; what is returned embeds the texts."""
    folder = Path(tempfile.mkdtemp())
    write_encoder(folder, folder / "unused.onnx")
    (folder / "unused.onnx").unlink()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6, "intermediate_size": 768}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    model = SentenceTransformer(str(folder), backend="onnx", device="cpu", local_files_only=True)

    def answers() -> list[tuple[str, float]]:
        found = model.encode(list(TEXTS), normalize_embeddings=True)
        return [(text, float(number)) for text, vector in zip(TEXTS, found, strict=True) for number in vector[:8]]

    return answers
