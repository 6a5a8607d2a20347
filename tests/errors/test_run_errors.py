"""What `Session.run` says to arguments that do not fit, word for word."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle
from tests.models import small
from treadle.errors import (
    InputError,
    KernelError,
    MemoryLimitError,
    OutOfRangeError,
    RunError,
    ThreadSettingError,
    TreadleError,
)

A = np.ones((2, 3), np.float32)


class Broken:
    """Something that says it is an array, and is none."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise RuntimeError("not today")


@pytest.fixture(scope="module")
def session() -> treadle.Session:
    return treadle.Session(small.add())


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"a": A}, "input 'b' is missing: wanted b: float32[2, 3]"),
        ({"a": A, "b": A, "c": A}, "there is no input 'c'; the inputs are 'a', 'b'"),
        (
            {"a": A, "B": A},
            "input 'b' is missing: wanted b: float32[2, 3]\nthere is no input 'B'; the inputs are 'a', 'b'",
        ),
        (
            {"a": A.astype(np.float64), "b": A},
            "input 'a': wanted dtype float32, got float64; convert it with .astype('float32')",
        ),
        ({"a": A[0], "b": A}, "input 'a': wanted rank 2 [2, 3], got rank 1 [3]"),
        ({"a": A.T, "b": A}, "input 'a': wanted shape [2, 3], got [3, 2]: axis 0 must be 2"),
        ({"a": "text", "b": A}, "input 'a': wanted an array of float32, got str"),
        ({"a": None, "b": A}, "input 'a': wanted an array of float32, got NoneType"),
        ({"a": [[1e300] * 3] * 2, "b": A}, "input 'a': wanted dtype float32, got values beyond its range"),
        (
            {"a": np.ma.masked_array(A, A > 0), "b": A},
            "input 'a': wanted an array, got one with masked elements; say what they are with .filled(value)",
        ),
        ({"a": Broken(), "b": A}, "input 'a': Broken gives no array: RuntimeError: not today"),
        ([A, A], "inputs: wanted a mapping of names to arrays, got list; write run({'a': ..., 'b': ...})"),
    ],
)
def test_wrong_inputs_are_named(session: treadle.Session, inputs: object, message: str) -> None:
    """
    The error says which input, what was wanted and what came; the session stays usable.
    """
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        session.run(inputs)

    assert np.array_equal(session.run({"a": A, "b": A})["y"], A + A)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["z"], "there is no output 'z'; the outputs are 'y'"),
        ("y", "outputs: wanted a sequence of names, got the string 'y'; write ['y']"),
        (5, "outputs: wanted a sequence of names or None, got int"),
        (iter(["y"]), "outputs: wanted a sequence of names or None, got list_iterator"),
        ({"a": A}, "outputs: wanted a list of names, got a mapping; inputs come first: run(inputs, outputs)"),
        ([["y"]], "there is no output ['y']; the outputs are 'y'"),
    ],
)
def test_wrong_outputs_are_named(session: treadle.Session, outputs: object, message: str) -> None:
    """
    Asking for an output that does not exist lists those that do.
    """
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        session.run({"a": A, "b": A}, outputs)


@pytest.fixture(scope="module")
def text_session() -> treadle.Session:
    made = helper.make_node("Equal", ["x", "c"], ["y"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.STRING, ["n", 2])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.BOOL, ["n", 2])]
    constants = [helper.make_tensor("c", TensorProto.STRING, [1], ["ä".encode()])]
    graph = helper.make_graph([made], "text", inputs, outputs, constants)
    return treadle.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([["a", "b"], ["c", 1]], object), "got int at [1, 1]; convert it with str()"),
        (np.array([[None, "b"]], object), "got NoneType at [0, 0]; convert it with str()"),
        ([["a", {}]], "got dict at [0, 1]; convert it with str()"),
        (
            np.array([["a", b"\xff"]], object),
            (
                "got bytes at [0, 1] that are not UTF-8 (invalid start byte at byte 0); "
                "decode them with the encoding they have"
            ),
        ),
    ],
)
def test_an_element_that_is_no_text_is_named(text_session: treadle.Session, given: object, message: str) -> None:
    """
    At every run, also where the same kind of array was run before.
    """
    text_session.run({"x": np.array([["a", "b"]] * len(given), object)})  # type: ignore[arg-type]
    for run in (text_session.run, text_session.run_async):
        with pytest.raises(
            InputError, match=re.escape(f"input 'x': wanted strings (str, or bytes in UTF-8), {message}")
        ):
            run({"x": given})


@pytest.mark.parametrize(
    "given",
    [
        np.array([["ä", "b"]], object),
        np.array([["ä".encode(), "b"]], object),
        np.array([["ä", "b"]]),
        np.char.encode(np.array([["ä", "b"]]), "utf-8"),
        np.array([["ä", "b"]], np.dtypes.StringDType()),
        [["ä", "b"]],
    ],
    ids=["str", "bytes", "U", "S", "StringDType", "list"],
)
def test_text_is_the_same_in_every_form(text_session: treadle.Session, given: object) -> None:
    """
    Bytes are equal to the text that they encode, as the model's own strings are stored.
    """
    assert text_session.run({"x": given})["y"].tolist() == [[True, False]]


@pytest.mark.parametrize("given", [np.array([[1, 2]]), [[1, 2]], np.array([["2020", "2021"]], "M8[Y]")], ids=str)
def test_numbers_are_no_strings(text_session: treadle.Session, given: object) -> None:
    """
    And the message does not speak of arrays of objects, which may hold anything.
    """
    with pytest.raises(InputError, match=r"^input 'x': wanted strings.*, got"):
        text_session.run({"x": given})


def test_a_wrong_number_of_sizes_names_the_node() -> None:
    """
    How many pieces a split makes is in its data here, how many it has is in the model.
    """
    w = small.ModelWriter()
    w.nodes.append(helper.make_node("Split", ["x", "sizes"], ["y", "z"], "cut", axis=0))
    float_, int_ = TensorProto.FLOAT, TensorProto.INT64
    made = w.model({"x": (float_, [3]), "sizes": (int_, ["n"])}, {"y": (float_, None), "z": (float_, None)})
    session = treadle.Session(made)

    with pytest.raises(RunError, match=r"node 'cut' \(split\): the split gives 3 pieces, but the node has 2 outputs"):
        session.run({"x": np.ones(3, np.float32), "sizes": np.array([1, 1, 1])})
    assert session.run({"x": np.ones(3, np.float32), "sizes": np.array([1, 2])})["z"].shape == (2,)


def test_progress_that_cannot_be_called_is_refused() -> None:
    """
    Also where nothing has to be compiled.
    """
    with pytest.raises(InputError, match="progress: wanted a function"):
        treadle.Session(small.add(shape=("n",)), progress=1)  # type: ignore[arg-type]


def test_a_session_cannot_go_to_another_process(session: treadle.Session) -> None:
    """
    The error says what can.
    """
    with pytest.raises(TypeError, match="give another process the model"):
        pickle.dumps(session)
    with pytest.raises(TypeError, match="threads belong to this process"):
        pickle.dumps(treadle.Pool())


def test_an_input_too_large_to_be_copied_is_refused() -> None:
    """
    A view that repeats its elements takes no memory until it has to lie in order.
    """
    session = treadle.Session(small.add(shape=("n",)))
    huge = np.broadcast_to(np.float32(1), (1 << 45,))

    with pytest.raises(MemoryLimitError, match=r"input 'a'.*no memory is left to copy"):
        session.run({"a": huge, "b": huge})
    assert session.run({"a": huge[:2], "b": huge[:2]})["y"].tolist() == [2, 2]


def test_two_sizes_for_one_symbol_are_refused() -> None:
    """
    Inputs that share a symbolic dimension must agree on it.
    """
    session = treadle.Session(small.add(shape=("n",)))

    with pytest.raises(InputError, match=re.escape("input 'b': axis 0 (n) is 3, but input 'a' has n = 2")):
        session.run({"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})


def test_an_index_out_of_range_names_the_node() -> None:
    """
    A kernel that meets bad data ends the run with an error; the next run is right.
    """
    w = small.ModelWriter()
    w.op("Gather", w.constant(np.arange(12, dtype=np.float32).reshape(4, 3)), "i", axis=0)
    w.nodes[-1].output[0] = "y"
    session = treadle.Session(w.model({"i": (7, [2])}, {"y": (small.FLOAT, [2, 3])}))

    with pytest.raises(OutOfRangeError, match=r"node 'gather0' .*: an index is out of range for the axis") as caught:
        session.run({"i": np.array([0, 4])})
    assert isinstance(caught.value, IndexError)
    assert caught.value.node == "gather0"

    assert np.array_equal(session.run({"i": np.array([-1, 0])})["y"], [[9, 10, 11], [0, 1, 2]])


def test_an_index_out_of_range_of_a_bag_names_the_gather() -> None:
    """
    Rows that are summed up where they lie are checked as when they are gathered.
    """
    w = small.ModelWriter()
    table = w.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    w.op("ReduceSum", w.op("Gather", table, "i", axis=0), w.constant(np.array([1])), keepdims=0)
    w.nodes[-1].output[0] = "y"
    session = treadle.Session(w.model({"i": (7, [1, 2])}, {"y": (small.FLOAT, [1, 3])}))

    with pytest.raises(
        KernelError, match=r"node 'gather0\+\S+' .*: an index is out of range for the axis it selects from"
    ):
        session.run({"i": np.array([[0, 4]])})

    assert np.array_equal(session.run({"i": np.array([[-1, 0]])})["y"], [[9, 11, 13]])


def test_a_failing_reference_op_names_the_node() -> None:
    """
    An exception inside an op that runs in Python comes out as a RunError with its cause.
    """
    w = small.ModelWriter()
    w.op("Det", "x")
    w.nodes[-1].output[0] = "y"
    model = w.model({"x": (small.FLOAT, ["n", "m"])}, {"y": (small.FLOAT, [])})
    session = treadle.Session(model)

    said = "node 'det0' (Det): the reference implementation failed on operands (float32[2, 3]): "
    with pytest.raises(RunError, match=f"^{re.escape(said)}[^:]+$") as caught:
        session.run({"x": np.ones((2, 3), np.float32)})

    assert caught.value.__cause__ is not None
    assert session.run({"x": np.eye(2, dtype=np.float32)})["y"] == 1


@pytest.mark.parametrize("value", [-1, 1.5, "2", True, 5000])
@pytest.mark.parametrize("setting", ["intra_op", "inter_op"])
def test_impossible_thread_numbers_are_refused_at_once(setting: str, value: object) -> None:
    """
    Nothing is clamped: the error names the setting, the value and where it was set.
    """
    with pytest.raises(ThreadSettingError, match=setting):
        treadle.Session(small.add(), **{setting: value})
    with pytest.raises(ThreadSettingError, match=setting):
        treadle.threads.set(**{setting: value})


def test_run_errors_are_treadle_errors_and_of_the_usual_kinds() -> None:
    """
    Callers may catch treadle's base class or Python's own.
    """
    assert issubclass(InputError, ValueError)
    assert issubclass(RunError, RuntimeError)
    assert issubclass(KernelError, RunError)
    assert all(issubclass(kind, TreadleError) for kind in (InputError, RunError, ThreadSettingError))
