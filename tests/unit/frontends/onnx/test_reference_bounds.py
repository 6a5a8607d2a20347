"""What the reference implementation may take."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
from tests.models import small
from treadle.errors import MemoryLimitError, RunError, TreadleError


def roi_align(**attributes: int) -> onnx.ModelProto:
    writer = small.ModelWriter()
    rois, batch = writer.constant(np.array([[0, 0, 1, 1]], np.float32)), writer.constant(np.array([0]))
    writer.op("RoiAlign", "x", rois, batch, **attributes)
    return writer.model({"x": (small.FLOAT, [1, 1, 4, 4])}, {"roialign0": (small.FLOAT, None)})


@pytest.mark.parametrize("name", ["sampling_ratio", "output_height", "output_width"])
def test_a_region_of_too_many_points_is_refused(name: str) -> None:
    """
    Before any is listed.
    """
    with pytest.raises(TreadleError, match="points are allowed"):
        treadle.Session(roi_align(**{name: 2**31}))


def test_a_region_of_some_points_runs() -> None:
    """
    As models in use have it.
    """
    session = treadle.Session(roi_align(output_height=2, output_width=2, sampling_ratio=2))

    assert session.run({"x": np.ones((1, 1, 4, 4), np.float32)})["roialign0"].shape == (1, 1, 2, 2)


def test_no_memory_in_the_reference_is_a_memory_limit() -> None:
    """
    A window of 2**50 elements fits in no machine.
    """
    node = helper.make_node("HannWindow", ["size"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("size", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    session = treadle.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))

    with pytest.raises(MemoryLimitError):
        session.run({"size": np.array(2**50)})


def matching(pattern: str) -> treadle.Session:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], name="match", pattern=pattern)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, ["n", 2])],
    )
    return treadle.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


def test_regular_expressions_match_whole_texts() -> None:
    """
    Letters of all languages, and empty texts, count.
    """
    x = np.array([["weben", "WEBEN"], ["", "wöben"], ["webe n", "w"]], object)

    assert matching("[a-zö]+").run({"x": x})["y"].tolist() == [[True, False], [False, True], [False, True]]


@pytest.mark.timeout(20)
def test_regular_expressions_take_linear_time() -> None:
    """
    One that backtracks would take 2**50 steps.
    """
    x = np.array([["a" * 50, "a" * 50 + "b"]], object)

    assert matching("(a|a)*(a|aa)+").run({"x": x})["y"].tolist() == [[True, False]]


def test_a_regular_expression_that_is_none_names_its_node() -> None:
    """
    RE2 has no lookahead.
    """
    with pytest.raises(RunError, match=r"match.*\(\?=a\).*is none of RE2"):
        matching("(?=a)").run({"x": np.array([["a", "b"]], object)})


def counting(skip: int) -> treadle.Session:
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TF",
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=skip,
        ngram_counts=[0, 2],
        ngram_indexes=[0, 1, 2],
        pool_int64s=[5, 7, 5, 7],
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    return treadle.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@pytest.mark.timeout(20)
def test_skips_beyond_the_row_take_no_time() -> None:
    """
    5, 7 occurs once at each of the distances 1 to 4.
    """
    x = np.array([5, 5, 7, 1, 7])

    assert counting(0).run({"x": x})["y"].tolist() == [2, 2, 1]
    assert counting(1).run({"x": x})["y"].tolist() == [2, 2, 2]
    assert counting(2**50).run({"x": x})["y"].tolist() == [2, 2, 4]


@pytest.mark.parametrize(("step", "length", "said"), [(4, 2**30, "frame_length must be from 1 to 16"), (0, 4, "step")])
def test_frames_of_a_spectrum_lie_within_the_signal(step: int, length: int, said: str) -> None:
    """
    Longer ones would be padded, each with as much memory as they ask for.
    """
    writer = small.ModelWriter()
    writer.op("STFT", "x", writer.constant(np.array(step)), "", "length")
    sizes = {"x": (small.FLOAT, [1, 16, 1]), "length": (TensorProto.INT64, [])}
    session = treadle.Session(writer.model(sizes, {"stft0": (small.FLOAT, None)}))

    signal = np.ones((1, 16, 1), np.float32)
    with pytest.raises(RunError, match=said):
        session.run({"x": signal, "length": np.array(length)})
