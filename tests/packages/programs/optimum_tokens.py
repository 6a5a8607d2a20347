"""Tokens by a GPT-2 with optimum's cache of keys and values, and classes of texts; both models are exported here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForSequenceClassification
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

VOCABULARY = 200


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write, export and load the models; what is returned generates and classifies."""
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    decoder = GPT2Config(VOCABULARY, n_positions=128, n_embd=96, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2)
    GPT2LMHeadModel(decoder).eval().save_pretrained(folder / "decoder")
    sizes = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 384}
    BertForSequenceClassification(BertConfig(VOCABULARY, num_labels=4, **sizes)).eval().save_pretrained(
        folder / "classes"
    )
    writer = ORTModelForCausalLM.from_pretrained(folder / "decoder", export=True, use_cache=True)
    judge = ORTModelForSequenceClassification.from_pretrained(folder / "classes", export=True)
    prompt = torch.arange(3, 11).reshape(1, -1)
    texts = torch.arange(3, 43).reshape(2, -1)

    def answers() -> list[tuple[str, float]]:
        mask = torch.ones_like(prompt)
        made = writer.generate(prompt, attention_mask=mask, max_new_tokens=16, do_sample=False, pad_token_id=2)
        logits = judge(input_ids=texts, attention_mask=torch.ones_like(texts)).logits.flatten()
        return [(f"tokens {made.tolist()}", 1.0), *(("class", float(number)) for number in logits)]

    return answers
