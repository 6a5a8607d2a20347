"""BeamSearch of com.microsoft, beside ONNX Runtime. The sequences below are those of ONNX Runtime 1.32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import treadle
from tests.models.beam_search import beam_feeds, searching
from tests.models.small import Array
from tests.models.test_data_loops import POOLS, assert_in_the_run
from treadle.errors import UnsupportedModelError


class Case(NamedTuple):
    """The decoder's seed, optional inputs, attributes and two operands of a search, and the best texts it gives."""

    seed: int
    options: tuple[str, ...]
    attributes: dict[str, int]
    length_penalty: float
    min_length: int
    best: list[list[int]]


CASES = [
    Case(
        0,
        (),
        {},
        1.0,
        0,
        [[0, 0, 17, 11, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0], [18, 18, 18, 5, 17, 17, 5, 8, 18, 5, 16, 1, 8, 8]],
    ),
    Case(
        0,
        (),
        {"early_stopping": 1},
        0.3,
        0,
        [[0, 0, 17, 11, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0], [18, 18, 18, 5, 17, 17, 5, 8, 18, 5, 16, 1, 8, 8]],
    ),
    Case(
        0,
        ("repetition_penalty",),
        {"no_repeat_ngram_size": 2},
        2.0,
        0,
        [[0, 0, 17, 11, 10, 6, 17, 10, 5, 8, 18, 5, 16, 1], [18, 18, 18, 5, 17, 10, 5, 8, 15, 18, 1, 1, 8, 8]],
    ),
    Case(
        5,
        ("vocab_mask", "prefix_vocab_mask", "attention_mask"),
        {"vocab_size": 19},
        0.5,
        9,
        [[0, 0, 17, 11, 1, 7, 1, 8, 1, 8, 1, 8, 0, 0], [18, 18, 18, 5, 7, 7, 1, 11, 1, 8, 0, 0, 0, 0]],
    ),
]


def by_onnxruntime(model: onnx.ModelProto, given: dict[str, Array]) -> list[Array]:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


@pytest.mark.parametrize("case", CASES)
def test_beams_are_those_of_onnx_runtime(case: Case) -> None:
    """In one run without Python, the same at all numbers of threads, for a number of beams that is known in the run."""
    model = searching(case.seed, case.options, **case.attributes)
    given = beam_feeds(model, case.length_penalty, case.min_length)
    session = treadle.Session(model)
    runs = [list(session.run(given, pool=pool).values()) for pool in POOLS.values()]
    for run in runs:
        for array, first in zip(run, runs[0], strict=True):
            np.testing.assert_array_equal(array, first)
    assert runs[0][0][:, 0].tolist() == case.best
    assert_in_the_run(session)
    wanted = by_onnxruntime(model, given)
    np.testing.assert_array_equal(runs[0][0], wanted[0])
    for found, theirs in zip(runs[0][1:], wanted[1:], strict=True):
        np.testing.assert_allclose(found, theirs, rtol=1e-4, atol=1e-4)


def test_a_known_number_of_beams() -> None:
    """Is part of the plan for all sizes of texts."""
    model = searching(0)
    given = beam_feeds(model, 1.0, 0)
    held = {name: given.pop(name) for name in ("num_beams", "num_return_sequences")}
    wanted = list(treadle.Session(model).run(given | held).values())
    kept = [value for value in model.graph.input if value.name not in held]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
    session = treadle.Session(model)
    for found, same in zip(session.run(given).values(), wanted, strict=True):
        np.testing.assert_array_equal(found, same)
    assert_in_the_run(session)


def test_other_decoders_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="decoders like GPT-2"):
        treadle.Session(searching(0, model_type=1))
