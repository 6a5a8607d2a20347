"""The vectors of texts by sentence-transformers with backend="onnx": it exports an encoder that is made here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from graphs import TEXTS, numbers, write_tokenizer
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, BertConfig, BertModel


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write, export and load the model; what is returned embeds the texts."""
    folder = Path(tempfile.mkdtemp())
    write_tokenizer(folder)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6, "intermediate_size": 768}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    model = SentenceTransformer(str(folder), backend="onnx", device="cpu", local_files_only=True)
    return lambda: numbers(model.encode(list(TEXTS), normalize_embeddings=True))
