"""Sampling of com.microsoft, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from tests.models.sampling import PAD, sampling, sampling_feeds
from tests.models.small import Array
from tests.models.test_beam_search import by_onnxruntime
from tests.models.test_data_loops import POOLS, assert_in_the_run
from treadle.errors import KernelError, UnsupportedModelError

OPTIONS = ("seed", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask")


def used(texts: Array) -> int:
    """The length of the longest of `texts`; what ONNX Runtime has behind it is not defined."""
    return int(np.nonzero((texts != PAD).any(axis=0))[0][-1]) + 1


@pytest.mark.parametrize(
    ("options", "attributes", "texts"),
    [
        (("seed",), {"top_p": 1.0, "temperature": 1.0}, 3),
        (("seed",), {"top_p": 0.7, "temperature": 1.3}, 3),
        (("seed",), {"top_p": 0.3, "temperature": 0.8, "min_tokens_to_keep": 4}, 1),
        (("seed",), {"top_p": 0.7, "custom": 1, "min_tokens_to_keep": 4}, 3),
        (("seed",), {"custom": 1}, 2),
        (("seed",), {"top_p": 0.8, "temperature": 0.0}, 3),
        (("seed",), {"top_p": 0.5, "filter_value": -5.0}, 3),
        ((), {"top_p": 0.9}, 3),
        (OPTIONS, {"top_p": 0.8, "no_repeat_ngram_size": 2}, 3),
    ],
)
def test_tokens_are_those_of_onnx_runtime(options: tuple[str, ...], attributes: dict[str, float], texts: int) -> None:
    """For each seed, in one run without Python, the same at all numbers of threads."""
    model = sampling(options, **attributes)
    session = treadle.Session(model)
    for seed in (0, 1, 99, 2**31 - 1) if "seed" in options else (0,):
        given = sampling_feeds(model, seed, texts)
        found, *others = (next(iter(session.run(given, pool=pool).values())) for pool in POOLS.values())
        assert all(np.array_equal(found, other) for other in others)
        length = used(found)
        np.testing.assert_array_equal(found[:, :length], by_onnxruntime(model, given)[0][:, :length])
    assert_in_the_run(session)


def test_seeds_below_zero_are_refused() -> None:
    model = sampling(top_p=0.5)
    with pytest.raises(KernelError, match="seed must not be negative"):
        treadle.Session(model).run(sampling_feeds(model, -1))


def test_what_differs_from_the_schema_in_onnx_runtime_is_refused() -> None:
    """Masks of presence, logits as a second result, and a filter that leaves nothing."""
    with pytest.raises(UnsupportedModelError, match="'presence_mask' is not supported"):
        treadle.Session(sampling(("presence_mask",), top_p=0.5))
    with pytest.raises(UnsupportedModelError, match="'filtered_logits' is not supported"):
        treadle.Session(sampling(filtered=True, top_p=0.5))
    with pytest.raises(UnsupportedModelError, match="'top_p' must be positive"):
        treadle.Session(sampling())
