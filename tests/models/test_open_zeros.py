"""Open dimensions of size 0: the empty past of a decoder has no plan of its own, an empty batch has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter
from tests.models.test_open_ops import CASES
from tests.models.test_open_sizes import MODELS, attention, given

Array = np.ndarray[Any, Any]

DECODERS = ("decoder", "causal decoder", "decoder step")
"""Models of `test_open_sizes` with inputs to which they append."""


@pytest.fixture
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves: with this knob they neither read nor write compiled models."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


def masked_decoder() -> bytes:
    """One head whose mask has a length of its own, `total`, which must be that of the past and the new tokens."""
    w = ModelWriter()
    q, k, v = (w.op("MatMul", "x", w.random(16, 16)) for _ in range(3))
    keys, values = (w.op("Concat", f"past_{name}", new, axis=1) for name, new in (("k", k), ("v", v)))
    scores = w.op("MatMul", q, w.op("Transpose", keys, perm=[0, 2, 1]))
    shares = w.op("Softmax", w.op("Add", scores, w.op("Unsqueeze", "mask", w.constant(np.array([1])))), axis=-1)
    y = w.op("MatMul", shares, values)
    past = (FLOAT, ["batch", "past", 16])
    inputs = {"x": (FLOAT, ["batch", "new", 16]), "mask": (FLOAT, ["batch", "total"]), "past_k": past, "past_v": past}
    outputs: dict[str, tuple[int, list[Any] | None]] = dict.fromkeys((y, keys, values), (FLOAT, None))
    return bytes(w.model(inputs, outputs).SerializeToString())


def stacked_decoder(how: str) -> bytes:
    """Four heads whose keys and values are kept in one tensor, which is taken apart as `how` says."""
    w = ModelWriter()
    split, swap = w.constant(np.array([0, 0, 4, 4])), [0, 1, 3, 2]
    q, k, v = (
        w.op("Transpose", w.op("Reshape", w.op("MatMul", "x", w.random(16, 16)), split), perm=[0, 2, 1, 3])
        for _ in range(3)
    )
    if how == "split":
        first = w.op("Split", "past", w.constant(np.array([1, 1])), axis=0, outputs=2)
        kept = [w.op("Squeeze", name, w.constant(np.array([0]))) for name in (first, f"{first}_1")]
    else:
        kept = [w.op("Gather", "past", w.constant(np.array(number)), axis=0) for number in range(2)]
    if how == "transpose":
        kept = [w.op("Transpose", name, perm=swap) for name in kept]
    keys, values = (w.op("Concat", *pair, axis=2) for pair in zip(kept, (k, v), strict=True))
    shares = w.op("Softmax", w.op("MatMul", q, w.op("Transpose", keys, perm=swap)), axis=-1)
    y = w.op("MatMul", shares, values)
    present = w.op("Concat", *(w.op("Unsqueeze", name, w.constant(np.array([0]))) for name in (keys, values)), axis=0)
    past = [2, "batch", 4, "past", 4] if how != "transpose" else [2, "batch", 4, 4, "past"]
    inputs = {"x": (FLOAT, ["batch", "new", 16]), "past": (FLOAT, past)}
    return bytes(w.model(inputs, {y: (FLOAT, None), present: (FLOAT, None)}).SerializeToString())


def compare(session: treadle.Session, content: bytes, sizes: dict[str, int]) -> None:
    """Runs `session` of the model `content` for inputs of these sizes and compares with the onnx package."""
    proto = onnx.load_from_string(content)
    feeds = given(proto.graph.input, sizes)
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    for want, found in zip(wanted, session.run(feeds).values(), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("_nothing_on_disk")
@pytest.mark.parametrize("name", DECODERS)
def test_one_plan_serves_an_empty_past_and_a_growing_one(name: str) -> None:
    """The plan that loading has compiled, with the same bits at every number of threads."""
    content = MODELS[name]()
    session = treadle.Session(content)
    inputs = onnx.load_from_string(content).graph.input
    for past in (0, 1, 2, 33, 0):
        for batch, length in ((1, 12), (3, 1)):
            sizes = {"batch": batch, "length": length, "past": past}
            compare(session, content, sizes)
            feeds = given(inputs, sizes)
            one, two = (session.run(feeds, intra_op=threads)["y"] for threads in (1, 2))
            np.testing.assert_array_equal(one, two)

    assert session.compiles == 1
    (plan,) = session.open_plans()
    assert [guard for guard in plan.guards if "past" in guard] == []


@pytest.mark.usefixtures("_nothing_on_disk")
def test_one_plan_serves_an_empty_past_beside_a_mask_with_a_length_of_its_own() -> None:
    """Sample sizes that fit are found at load."""
    content = masked_decoder()
    session = treadle.Session(content)
    assert session.why_per_size() is None

    for past, new in ((0, 5), (5, 1), (6, 1), (7, 3), (0, 1), (0, 9)):
        compare(session, content, {"batch": 2, "past": past, "new": new, "total": past + new})

    assert session.compiles == 1
    (plan,) = session.open_plans()
    assert plan.guards == ["batch >= 1", "new >= 1", "total >= 1", "new + past == total"]


@pytest.mark.usefixtures("_nothing_on_disk")
@pytest.mark.parametrize("how", ["gather", "split", "transpose"])
def test_one_plan_serves_an_empty_past_that_is_taken_apart_first(how: str) -> None:
    """Keys and values that one input stacks, in the order of axes of the model or another."""
    content = stacked_decoder(how)
    session = treadle.Session(content)
    for past, new in ((0, 5), (5, 1), (1, 1), (40, 3), (0, 1)):
        compare(session, content, {"batch": 2, "past": past, "new": new})

    assert session.compiles == 1
    assert [plan.guards for plan in session.open_plans()] == [["batch >= 1", "new >= 1"]]


def test_a_plan_from_disk_serves_an_empty_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second session compiles nothing."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    content = attention(past=True)
    assert treadle.Session(content).compiles == 1

    second = treadle.Session(content)
    for past in (0, 1, 2):
        compare(second, content, {"batch": 2, "length": 3, "past": past})

    assert second.compiles == 0


@pytest.mark.usefixtures("_nothing_on_disk")
@pytest.mark.parametrize("name", ["encoder", "decoder", "causal decoder"])
def test_one_more_plan_serves_an_empty_batch_of_all_other_sizes(name: str) -> None:
    """Other batches are served by the plan for all sizes, before and after."""
    content = MODELS[name]()
    session = treadle.Session(content)
    for batch, length in ((2, 7), (0, 7), (0, 1), (0, 30), (1, 7)):
        for past in (0, 4):
            compare(session, content, {"batch": batch, "length": length, "past": past})

    assert session.compiles == 2
    assert [plan.guards for plan in session.open_plans()] == [
        ["batch >= 1", "length >= 1"],
        ["length >= 1", "batch == 0"],
    ]
    assert session.why_per_size() is None


@pytest.mark.usefixtures("_nothing_on_disk")
@pytest.mark.parametrize("name", CASES)
def test_ops_of_empty_operands_do_as_with_known_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each open dimension 0 in turn: the same results, or the same error."""
    case = CASES[name]
    session = treadle.Session(case.model())
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
    apart = treadle.Session(case.model())
    for dim in dict.fromkeys(dim for dims in case.inputs.values() for dim in dims if isinstance(dim, str)):
        feeds = case.feeds({**case.sizes[0], dim: 0})
        monkeypatch.setenv("TREADLE_DISABLE", "")
        found = outcome(session, feeds)
        monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
        wanted = outcome(apart, feeds)
        assert found.keys() == wanted.keys(), dim
        for output, array in wanted.items():
            np.testing.assert_allclose(found[output], array, rtol=1e-5, atol=1e-6, err_msg=dim)


def outcome(session: treadle.Session, feeds: dict[str, Array]) -> dict[str, Array]:
    """Returns the results, or the text of the error with nothing."""
    try:
        return session.run(feeds)
    except treadle.errors.TreadleError as error:
        return {f"{type(error).__name__}: {error}": np.zeros(0)}


@pytest.mark.usefixtures("_nothing_on_disk")
def test_a_dimension_that_more_than_concatenations_read_is_at_least_1() -> None:
    """An input that is multiplied as well as appended to has plans for sizes of 1 and more; 0 is still right."""
    w = ModelWriter()
    total = w.op("ReduceSum", "x", w.constant(np.array([0])), keepdims=1)
    y = w.op("Concat", "x", total, axis=0)
    content = w.model({"x": (FLOAT, ["rows", 8])}, {y: (FLOAT, None)}).SerializeToString()
    session = treadle.Session(content)
    assert [plan.guards for plan in session.open_plans()] == [["rows >= 1"]]

    for rows in (3, 0, 1):
        compare(session, content, {"rows": rows})
