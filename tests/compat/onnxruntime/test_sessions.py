"""InferenceSession: every case here is also run on onnxruntime itself, where it is installed."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import treadle
import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models

X = np.ones((2, 3), np.float32)
I = np.arange(10).reshape(2, 5)  # noqa: E741
Y = np.tile(np.float32([12, 15, 18, 21]), (2, 1))
FEEDS = {"x": X, "i": I}


def session(ort: ModuleType, model: bytes | None = None, *arguments: Any) -> Any:
    return ort.InferenceSession(model or models.two_outputs(), *arguments, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("names", [None, [], ["y", "j"], ("y", "j")])
def test_outputs_come_in_the_order_of_their_names(ort: ModuleType, names: Any) -> None:
    results = session(ort).run(names, FEEDS)
    assert isinstance(results, list)
    np.testing.assert_array_equal(results[0], Y)
    np.testing.assert_array_equal(results[1], I + I)
    assert [result.dtype for result in results] == [np.float32, np.int64]


def test_maps_of_scores_come_as_dicts(ort: ModuleType) -> None:
    """skl2onnx's classifiers end so; ONNX Runtime gives Python's own numbers too."""
    made = session(ort, models.classifier())
    results = made.run(None, {"x": X})
    assert [(one.name, one.type) for one in made.get_outputs()] == [
        ("maps", "seq(map(int64,tensor(float)))"),
        ("x2", "tensor(float)"),
    ]
    assert results[0] == [{7: 2.0, 8: 2.0, 9: 2.0}] * 2
    assert made.run(["maps"], {"x": X}) == [results[0]]


def test_sequences_come_as_lists(ort: ModuleType) -> None:
    (rows,) = session(ort, models.rows()).run(["rows"], {"x": X})
    assert isinstance(rows, list)
    assert [row.tolist() for row in rows] == [[[1, 1, 1]]] * 2


def test_an_output_may_be_asked_for_twice(ort: ModuleType) -> None:
    first, second = session(ort).run(["j", "j"], FEEDS)
    np.testing.assert_array_equal(first, second)


def test_descriptions(ort: ModuleType) -> None:
    made = session(ort)
    assert [(one.name, one.type, one.shape) for one in made.get_inputs()] == [
        ("x", "tensor(float)", ["batch", 3]),
        ("i", "tensor(int64)", [2, None]),
    ]
    assert [(one.name, one.type, one.shape) for one in made.get_outputs()] == [
        ("y", "tensor(float)", ["batch", 4]),
        ("j", "tensor(int64)", [2, None]),
    ]
    assert str(made.get_inputs()[1]) == "NodeArg(name='i', type='tensor(int64)', shape=[2, None])"
    assert made.get_overridable_initializers() == []
    meta = made.get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.domain, meta.version) == ("tests", "graph", "domain", 5)
    assert (meta.description, meta.graph_description) == ("text", "of the graph")
    assert meta.custom_metadata_map == {"key": "value"}
    assert made.get_providers() == ["CPUExecutionProvider"]
    assert made.get_provider_options() == {"CPUExecutionProvider": {}}
    assert (made._providers, made._provider_options) == (made.get_providers(), made.get_provider_options())


def test_a_model_file_may_go_after_loading(ort: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(models.two_outputs())
    made = ort.InferenceSession(path)
    path.unlink()
    assert [one.name for one in made.get_inputs()] == ["x", "i"]
    np.testing.assert_array_equal(made.run(["y"], FEEDS)[0], Y)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([[1.0, 2.0, 3.0]], [[32, 38, 44, 50]]),
        ([[1, 2, 3]], [[32, 38, 44, 50]]),
        (np.asfortranarray(X), Y),
        (np.ones((4, 3), np.float32)[::2], Y),
    ],
)
def test_lists_and_strided_arrays_are_inputs(ort: ModuleType, given: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(session(ort).run(["y"], {"x": given, "i": I})[0], np.float32(wanted))


def test_lists_take_the_declared_type(ort: ModuleType) -> None:
    ints = session(ort, models.same(models.INT, ["n"]))
    assert ints.run(None, {"a": [1, True]})[0].tolist() == [1, 1]
    texts = session(ort, models.same(models.STRING, ["n"]))
    assert texts.run(None, {"a": ["x", "yy"]})[0].tolist() == ["x", "yy"]
    assert texts.run(None, {"a": np.array(["x", "yy"])})[0].tolist() == ["x", "yy"]


@pytest.mark.parametrize(
    ("names", "feeds", "kind", "text"),
    [
        (None, {"x": X}, ValueError, "Required inputs (['i']) are missing from input feed (['x'])."),
        (None, {**FEEDS, "z": X}, "InvalidArgument", "INVALID_ARGUMENT : Invalid input name: z"),
        (["q"], FEEDS, "InvalidArgument", "INVALID_ARGUMENT : Invalid output name:q"),
        ([""], FEEDS, "InvalidArgument", "INVALID_ARGUMENT : Invalid output name:"),
        (
            None, {"x": X[0], "i": I}, "InvalidArgument",
            "Invalid rank for input: x Got: 1 Expected: 2 Please fix either the inputs/outputs or the model.",
        ),
        (
            None, {"x": np.ones((2, 4), np.float32), "i": I}, "InvalidArgument",
            "Got invalid dimensions for input: x for the following indices\n index: 1 Got: 4 Expected: 3\n Please fix",
        ),
        (
            None, {"x": X.astype(np.float64), "i": I}, "InvalidArgument",
            "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))",
        ),
        (
            None, {"x": np.array([["a"]]), "i": I}, "InvalidArgument",
            "Unexpected input data type. Actual: (tensor(string)) , expected: (tensor(float))",
        ),
        (None, {"x": 1.0, "i": I}, RuntimeError, "Unable to handle object of type <class 'float'>"),
        (None, {"x": (1.0,), "i": I}, RuntimeError, "Input must be a list of dictionaries or a single numpy array"),
        (None, {"x": [[1.0], [1.0, 2.0]], "i": I}, RuntimeError, "Could not create tensor from given input list"),
        (None, [X], AttributeError, "'list' object has no attribute 'keys'"),
        ("y", FEEDS, TypeError, "run()"),
        ([1], FEEDS, TypeError, "run()"),
    ],
)  # fmt: skip
def test_faulty_arguments(ort: ModuleType, state: Any, names: Any, feeds: Any, kind: Any, text: str) -> None:
    made = session(ort)
    for _ in range(2):  # the second time after a run whose inputs were right
        with pytest.raises(getattr(state, kind) if isinstance(kind, str) else kind, match=re.escape(text)):
            made.run(names, feeds)
        made.run(None, FEEDS)
    np.testing.assert_array_equal(made.run(["y"], FEEDS)[0], Y)


def test_a_node_that_fails(ort: ModuleType, state: Any) -> None:
    made = session(ort, models.reshaped())
    with pytest.raises(state.Fail, match=r"Non-zero status code returned while running .*Name:'reshape'"):
        made.run(None, {"a": np.ones(5, np.float32), "b": np.array([2, 2])})


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("/nowhere/model.onnx", "NoSuchFile"),
        (Path("/nowhere/model.onnx"), "NoSuchFile"),
        (b"no model", "InvalidProtobuf"),
        (b"", "InvalidArgument"),
        (3, TypeError),
    ],
)
def test_models_that_cannot_be_read(ort: ModuleType, state: Any, model: Any, kind: Any) -> None:
    with pytest.raises(getattr(state, kind) if isinstance(kind, str) else kind):
        ort.InferenceSession(model)


def test_files_that_cannot_be_read(ort: ModuleType, state: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    with pytest.raises(state.InvalidArgument, match=re.escape(f"Load model from {path} failed:No graph was found")):
        ort.InferenceSession(path)
    for wrong in (path, tmp_path):
        path.write_bytes(b"no model")
        with pytest.raises(state.InvalidProtobuf, match=f"Load model from {re.escape(str(wrong))} failed:Protobuf"):
            ort.InferenceSession(wrong)


def test_models_in_the_format_of_onnxruntime(ort: ModuleType, tmp_path: Path) -> None:
    """
    treadle leaves them to onnxruntime itself.
    """
    real = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.ort"
    options = real.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    real.InferenceSession(models.two_outputs(), options, providers=["CPUExecutionProvider"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for model in (path, path.read_bytes()):
            np.testing.assert_array_equal(session(ort, model).run(["y"], FEEDS)[0], Y)
    assert all("own format" in str(each.message) for each in told)
    assert bool(told) == (ort is own)
    with pytest.raises(Exception, match="own format"):
        own.InferenceSession(path, strict=True)


def test_initialisers_are_replaced_by_the_peer(ort: ModuleType) -> None:
    pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    weights = ort.OrtValue.ortvalue_from_numpy(np.ones((3, 4), np.float32))
    options.add_initializer("w", weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", own.PeerWarning)
        np.testing.assert_array_equal(session(ort, None, options).run(["y"], FEEDS)[0], np.full((2, 4), 3))


def test_terminate_ends_runs(ort: ModuleType, state: Any) -> None:
    made, options = session(ort), ort.RunOptions()
    options.terminate = True
    with pytest.raises(state.Fail, match="Exiting due to terminate flag being set to true"):
        made.run(None, FEEDS, options)
    options.terminate = False
    np.testing.assert_array_equal(made.run(["y"], FEEDS, options)[0], Y)


def called(start: Callable[[Callable[..., None]], None]) -> tuple[Any, ...]:
    """What the callback of an asynchronous run gets."""
    done, got = threading.Event(), []

    def callback(*arguments: Any) -> None:
        got.extend(arguments)
        done.set()

    start(callback)
    assert done.wait(60)
    return tuple(got)


def test_asynchronous_runs(ort: ModuleType) -> None:
    made = session(ort)
    results, data, error = called(lambda callback: made.run_async(["y"], FEEDS, callback, "data"))
    np.testing.assert_array_equal(results[0], Y)
    assert (data, error) == ("data", "")
    wrong = {"x": X[0], "i": I}
    results, data, error = called(lambda callback: made.run_async(["y"], wrong, callback, 7))
    assert (results, data) == ([], 7)
    assert error.startswith("Invalid rank for input: x")
    with pytest.raises(ValueError, match="Required inputs"):
        made.run_async(["y"], {"x": X}, lambda *_: None, None)
    with pytest.raises(TypeError, match="run_async"):
        made.run_async(["y"], FEEDS, 3, None)


def test_free_dimensions_take_fixed_sizes(ort: ModuleType, state: Any) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    made = session(ort, None, options)
    assert made.get_inputs()[0].shape == [2, 3]
    with pytest.raises(state.InvalidArgument, match="index: 0 Got: 3 Expected: 2"):
        made.run(["y"], {"x": np.ones((3, 3), np.float32), "i": I})


def test_sessions_may_be_subclassed(ort: ModuleType) -> None:
    class Named(ort.InferenceSession):  # type: ignore[name-defined,misc]
        def __init__(self, name: str, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.name = name

    made = Named("one", models.two_outputs(), providers=["CPUExecutionProvider"])
    assert made.name == "one"
    np.testing.assert_array_equal(made.run(["y"], FEEDS)[0], Y)


def test_unknown_providers_get_a_warning(ort: ModuleType) -> None:
    with pytest.warns(
        UserWarning, match="Specified provider 'CUDAExecutionProvider' is not in available provider names"
    ):
        made = ort.InferenceSession(models.two_outputs(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert made.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="Duplicate provider 'CPUExecutionProvider' encountered, ignoring"):
        ort.InferenceSession(models.two_outputs(), providers=["CPUExecutionProvider"] * 2)
    pair = ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
    assert ort.InferenceSession(models.two_outputs(), providers=[pair]).get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("providers", "options", "text"),
    [
        (["CPUExecutionProvider"], [{}, {}], "should be the same length"),
        (["CPUExecutionProvider"], {}, "'provider_options' should be a sequence"),
        ([("CPUExecutionProvider", {})], [{}], "Only string values for 'providers' are supported"),
        ([3], None, r"'providers' values must be either strings or \(string, dict\) tuples"),
    ],
)
def test_faulty_providers(ort: ModuleType, providers: Any, options: Any, text: str) -> None:
    """
    A new session says so and uses the CPU, as onnxruntime does.
    """
    made = session(ort)
    with pytest.raises(ValueError, match=text):
        made.set_providers(providers, options)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert ort.InferenceSession(models.two_outputs(), None, providers, options).get_providers() == [
            "CPUExecutionProvider"
        ]
    if ort is own:
        assert "EP Error" in str(told[0].message)


def test_sessions_can_be_pickled() -> None:
    options = own.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    copy = pickle.loads(pickle.dumps(own.InferenceSession(models.two_outputs(), options)))
    assert copy.get_inputs()[0].shape == [2, 3]
    np.testing.assert_array_equal(copy.run(["y"], FEEDS)[0], Y)


def test_many_sessions_share_one_team() -> None:
    options = own.SessionOptions()
    options.intra_op_num_threads = 64
    made = [own.InferenceSession(models.two_outputs(), options) for _ in range(5)]
    assert all(one.run(["y"], FEEDS)[0].tobytes() == Y.tobytes() for one in made)
    settings = made[0].threads
    assert (settings.intra_op, settings.inter_op) == (treadle.threads.info()["topology"]["available"],) * 2


NOT_FOR_LATER_LOADS = {
    "concurrent.futures", "google.protobuf", "importlib.resources", "llvmlite.binding", "numpy.ma", "onnx",
    "treadle.driver", "treadle.padded_plans", "treadle.runtime.python_step", "treadle.tracing.record",
}  # fmt: skip
"""Modules that read and compile models, and those of what few programs do: they would be half of an import."""


def test_a_later_process_reads_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model says of itself is kept on disk with its compiled form."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "model.onnx"
    path.write_bytes(models.two_outputs())
    script = (
        "import sys, numpy, treadle.compat.onnxruntime as ort\n"
        f"session = ort.InferenceSession({str(path)!r})\n"
        "meta = session.get_modelmeta()\n"
        "print([str(one) for one in (*session.get_inputs(), *session.get_outputs())], meta.description,\n"
        "      meta.custom_metadata_map, session.get_overridable_initializers())\n"
        "session.run(None, {'x': numpy.ones((2, 3), numpy.float32), 'i': numpy.ones((2, 1), numpy.int64)})\n"
        f"print(*sorted({NOT_FOR_LATER_LOADS} & sys.modules.keys()))"
    )
    found = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(3)
    ]

    assert [each[0] for each in found] == [found[0][0]] * 3
    assert "onnx" in found[0][1].split()
    assert found[2][1] == "", "the second of the three may have had to ask LLVM what CPU this is"
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(file.read_bytes()[:-9])
    again = own.InferenceSession(str(path))
    assert again.get_modelmeta().custom_metadata_map == {"key": "value"}


def test_settings_without_a_meaning_are_listed() -> None:
    options = own.SessionOptions()
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    options.graph_optimization_level = own.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made = own.InferenceSession(models.two_outputs(), options)
    assert made.ignored_options == ("enable_cpu_mem_arena", "log_severity_level", "session.intra_op.allow_spinning")
    assert own.InferenceSession(models.two_outputs()).ignored_options == ()


def test_a_run_may_leave_out_what_other_outputs_need(ort: ModuleType) -> None:
    options = ort.RunOptions()
    options.only_execute_path_to_fetches = True
    np.testing.assert_array_equal(session(ort).run(["j"], FEEDS, options)[0], I + I)


@pytest.mark.parametrize("name", ["?", "None", "unk__7"])
def test_dimensions_with_the_name_of_a_wildcard_may_differ(ort: ModuleType, name: str) -> None:
    made = session(ort, models.same(models.FLOAT, [name, name]))
    for shape in ((2, 3), (4, 4), (1, 5)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(made.run(None, {"a": x})[0], x)
    assert made.get_inputs()[0].shape == [name, name]
