"""GreedySearch of com.microsoft. The sequences are those of ONNX Runtime 1.32 (tests/models/greedy_search.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle
from tests.models.beam_search import beam_feeds
from tests.models.beam_search import searching as beam_searching
from tests.models.greedy_search import OPTIONS, decoder, feeds, halved, searching
from tests.models.test_data_loops import POOLS, assert_in_the_run
from treadle.errors import KernelError, UnsupportedModelError


class Case(NamedTuple):
    """Which optional inputs the search has, how long the parts are that it must not repeat, and what it gives."""

    options: tuple[str, ...]
    no_repeat: int
    sequences: list[list[int]]


ENDED = [0, 0, 17, 11, 10, *[0] * 9]
"""The first text, which ends with its second new token."""

CASES = [
    Case((), 0, [ENDED, [18, 18, 18, 5, 17, 10, 5, 8, 18, 5, 16, 1, 8, 8]]),
    Case(
        ("min_length",),
        0,
        [[0, 0, 17, 11, 10, 6, 17, 10, 5, 8, 18, 5, 16, 1], [18, 18, 18, 5, 17, 10, 5, 8, 18, 5, 16, 1, 8, 8]],
    ),
    Case(("repetition_penalty",), 0, [ENDED, [18, 18, 18, 5, 17, 10, 5, 8, 15, 18, 1, 1, 8, 8]]),
    Case(
        ("vocab_mask", "prefix_vocab_mask"),
        0,
        [[0, 0, 17, 11, 5, 18, 5, 18, 5, 8, 18, 5, 14, 1], [18, 18, 18, 5, 0, 5, 8, 8, 18, 5, 0, 1, 8, 8]],
    ),
    Case(("attention_mask",), 0, [ENDED, [18, 18, 18, 5, 17, 10, 5, 8, 18, 5, 16, 1, 8, 8]]),
    Case((), 2, [ENDED, [18, 18, 18, 5, 17, 10, 5, 8, 18, 8, 1, 1, 8, 8]]),
    Case(
        OPTIONS,
        3,
        [[0, 0, 17, 11, 5, 18, 5, 18, 15, 1, 5, 8, 18, 1], [18, 18, 18, 5, 0, 1, 15, 7, 5, 8, 18, 1, 8, 8]],
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_tokens_are_those_of_onnx_runtime(case: Case) -> None:
    """In one run without Python, the same at all numbers of threads."""
    model = searching(0, case.options, no_repeat_ngram_size=case.no_repeat)
    session = treadle.Session(model)
    for pool in POOLS.values():
        (found,) = session.run(feeds(model), pool=pool).values()
        assert found.dtype == np.int32
        assert found.tolist() == case.sequences
    assert_in_the_run(session)


def test_a_search_ends_with_its_last_text() -> None:
    """What is behind holds the padding token."""
    model = searching(0)
    given = {**feeds(model), "max_length": np.array([1 << 20], np.int32)}
    given["input_ids"] = given["input_ids"][:1]
    (found,) = treadle.Session(model).run(given, timeout=120).values()
    assert found.shape == (1, 1 << 20)
    assert found[0, :14].tolist() == ENDED
    assert not found[0, 14:].any()


def test_a_first_run_by_another_decoder() -> None:
    """Is followed by the loop, whose steps are the others; the sequences are those of ONNX Runtime 1.32."""
    model = searching(0)
    model.graph.node[0].attribute.append(helper.make_attribute("init_decoder", decoder(7)))
    session = treadle.Session(model)
    given = feeds(model)
    wanted = [[0, 0, 17, 11, 14, *[0] * 9], [18, 18, 18, 5, 5, 18, 5, 8, 18, 5, 0, 7, 0, 0]]
    for length in (14, 6, 5):
        (found,) = session.run({**given, "max_length": np.array([length], np.int32)}).values()
        assert found.tolist() == [text[:length] for text in wanted]
    assert_in_the_run(session)
    with pytest.raises(KernelError, match="max_length must be greater than the length of texts"):
        session.run({**given, "max_length": np.array([4], np.int32)})


@pytest.mark.parametrize("beams", [False, True])
def test_caches_of_half_precision(*, beams: bool) -> None:
    """Give the same sequences; ONNX Runtime has them on GPUs alone."""
    model = beam_searching(0) if beams else searching(0)
    given = beam_feeds(model, 1.0, 0) if beams else feeds(model)
    wanted = next(iter(treadle.Session(model).run(given).values()))
    session = treadle.Session(halved(model))
    np.testing.assert_array_equal(next(iter(session.run(given).values())), wanted)
    assert_in_the_run(session)


def test_other_decoders_are_refused() -> None:
    model = searching(0)
    attributes: list[onnx.AttributeProto] = [a for a in model.graph.node[0].attribute if a.name == "model_type"]
    attributes[0].i = 1
    with pytest.raises(UnsupportedModelError, match="decoders like GPT-2"):
        treadle.Session(model)
