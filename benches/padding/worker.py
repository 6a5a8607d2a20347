"""The process of one engine that embeds one batch of padded texts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benches.harness.outputs import Array
from benches.harness.timing import latencies
from benches.harness.worker import Answer
from benches.shapes.engines import ENGINES, Loaded

SKIPPING = "treadle, skip_padding"
"""treadle with skip_padding=True; the other engines compute padding."""

SHORTEST, LONGEST = 5, 256
VOCABULARY = 30522


def lengths(spread: str, texts: int) -> Array:
    """The numbers of tokens of `texts` texts from SHORTEST to LONGEST, both included.

    `spread` is "even", all lengths being as likely, or "even by magnitude", their logarithms being so: most texts are
    short.
    """
    rng = np.random.default_rng(0)
    if spread == "even":
        found = rng.integers(SHORTEST, LONGEST + 1, texts)
    else:
        found = np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST + 1), texts)).astype(np.int64)
    found[:2] = LONGEST, SHORTEST
    return found


def batch(spread: str, texts: int) -> dict[str, Array]:
    """Random texts, padded to the longest."""
    mask = (np.arange(LONGEST) < lengths(spread, texts)[:, None]).astype(np.int64)
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, mask.shape) * mask
    return {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}


def loaded(name: str, model: str, threads: int) -> Loaded:
    """Loads the engine `name`."""
    if name != SKIPPING:
        return ENGINES[name](model, threads, False)
    import treadle

    treadle.threads.set(intra_op=threads, inter_op=threads)
    session = treadle.Session(model, skip_padding=True)
    return Loaded(lambda feed: list(session.run(feed).values()), treadle.__version__, lambda: session.compiles)


def embeds(name: str, model: str, threads: int, spread: str, texts: int, file: str) -> tuple[dict[str, Any], Answer]:
    """Answers a number of seconds with latencies of one batch; its embeddings go to `file`."""
    run, version, _ = loaded(name, model, threads)
    feed = batch(spread, texts)
    np.savez(file, *run(feed))
    return {"version": version}, partial(latencies, partial(run, feed))
