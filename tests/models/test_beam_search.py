"""BeamSearch of com.microsoft, beside ONNX Runtime. The sequences below are those of ONNX Runtime 1.32."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle
from tests.models.beam_search import beam_feeds, searching
from tests.models.encoder_decoder import decoder as translating_decoder
from tests.models.encoder_decoder import translating, translating_feeds
from tests.models.greedy_search import decoder
from tests.models.small import Array
from tests.models.test_data_loops import POOLS, assert_in_the_run
from treadle.errors import KernelError, ModelError, UnsupportedModelError


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
    assert_close(runs[0], wanted)


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


def assert_close(found: list[Array], wanted: list[Array]) -> None:
    """Compares sequences, their scores and those of the steps that a beam needed.

    ONNX Runtime leaves the scores of further steps as its memory was; treadle's are 0.
    """
    sequences, of_sequences, of_steps = found
    np.testing.assert_array_equal(sequences, wanted[0])
    np.testing.assert_allclose(of_sequences, wanted[1], rtol=1e-4, atol=1e-4)
    assert of_steps.shape == wanted[2].shape
    steps = 1 + np.flatnonzero(of_steps.any(axis=(1, 2, 3)))[-1]
    given = sequences.shape[-1] - len(of_steps)
    longest = 1 + np.flatnonzero(sequences.any(axis=(0, 1)))[-1]
    assert steps >= longest - given
    np.testing.assert_allclose(of_steps[:steps], wanted[2][:steps], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("runs_first", [True, False])
@pytest.mark.parametrize(
    ("options", "attributes", "numbers"),
    [
        ((), {}, {}),
        ((), {"early_stopping": 1}, {"length_penalty": 0.3}),
        (("repetition_penalty", "attention_mask"), {"no_repeat_ngram_size": 2}, {"min_length": 5}),
        (("vocab_mask", "prefix_vocab_mask"), {"vocab_size": 19}, {"num_beams": 2, "num_return_sequences": 1}),
    ],
)
def test_beams_of_encoder_decoder_models(
    options: tuple[str, ...], attributes: dict[str, int], numbers: dict[str, float], *, runs_first: bool
) -> None:
    """Whether the encoder makes the decoder's first run or not; padding in front of a text alone is hidden."""
    model = translating(1, options, runs_first=runs_first, **attributes)
    given = translating_feeds(model, **numbers)
    session = treadle.Session(model)
    runs = [list(session.run(given, pool=pool).values()) for pool in POOLS.values()]
    assert all(np.array_equal(one, other) for run in runs for one, other in zip(run, runs[0], strict=True))
    if not runs_first:
        assert_in_the_run(session)
    assert_close(runs[0], by_onnxruntime(model, given))


@pytest.mark.parametrize(("reads_states", "new"), [(True, 1), (False, "length"), (True, "length")])
def test_forms_of_decoders(new: object, *, reads_states: bool) -> None:
    """A decoder may read the encoder's states; one whose ids have an open length reads all of them in each run."""
    model = translating(2, reads_states=reads_states, new=new)
    given = translating_feeds(model)
    assert_close(list(treadle.Session(model).run(given).values()), by_onnxruntime(model, given))


def test_a_first_run_by_another_decoder() -> None:
    """Is followed by the loop, whose steps are the others; the last one may be the first, too."""
    model = searching(0, ("repetition_penalty", "prefix_vocab_mask"))
    model.graph.node[0].attribute.append(helper.make_attribute("init_decoder", decoder(7)))
    session = treadle.Session(model)
    for max_length in (14, 6, 5):
        given = {**beam_feeds(model, 1.0, 0), "max_length": np.array([max_length], np.int32)}
        assert_close(list(session.run(given).values()), by_onnxruntime(model, given))
    assert_in_the_run(session)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_length", 4, "max_length must be greater than the length of texts"),
        ("num_beams", 0, "num_return_sequences must be positive, and no more than num_beams"),
        ("num_return_sequences", 4, "num_return_sequences must be positive, and no more than num_beams"),
        ("num_return_sequences", 0, "num_return_sequences must be positive, and no more than num_beams"),
        ("repetition_penalty", 0, "repetition_penalty must be positive"),
    ],
)
def test_numbers_that_onnx_runtime_refuses(name: str, value: int, message: str) -> None:
    """Have the run fail, by the name of a node."""
    model = searching(0, ("repetition_penalty",))
    given = beam_feeds(model, 1.0, 0)
    given[name] = np.array([value], given[name].dtype)
    with pytest.raises(KernelError, match=message):
        treadle.Session(model).run(given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": 2}, r"decoders like GPT-2's \(model_type 0\) and encoder-decoder models \(model_type 1\)"),
        ({"decoder_start_token_id": -1}, "'decoder_start_token_id' must be given"),
        ({"model_type": 0}, "must have no 'encoder'"),
        ({"vocab_size": 20}, "'vocab_size' is 20, but its decoder gives 19 logits"),
    ],
)
def test_other_models_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        treadle.Session(translating(0, **change))


def test_other_graphs_are_refused() -> None:
    model = translating(0, runs_first=False, reads_states=True)
    with pytest.raises(UnsupportedModelError, match="encoder_hidden_states, which an encoder of two inputs does not"):
        treadle.Session(model)
    with pytest.raises(UnsupportedModelError, match="must have a graph 'encoder'"):
        treadle.Session(searching(0, model_type=1))
    model = searching(0)
    other = translating_decoder(0, reads_states=False, new=1)
    model.graph.node[0].attribute.append(helper.make_attribute("init_decoder", other))
    with pytest.raises(ModelError, match="its decoder must have input_ids, position_ids"):
        treadle.Session(model)
