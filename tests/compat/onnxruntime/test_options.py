"""SessionOptions, RunOptions and the module's functions, beside onnxruntime's own where it is installed."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models
from treadle.compat.onnxruntime.options import Limits, limits_of

DEFAULTS: dict[str, Any] = {
    "intra_op_num_threads": 0, "inter_op_num_threads": 0, "enable_cpu_mem_arena": True, "enable_mem_pattern": True,
    "enable_mem_reuse": True, "enable_profiling": False, "profile_file_prefix": "onnxruntime_profile_",
    "optimized_model_filepath": "", "log_severity_level": -1, "log_verbosity_level": 0, "logid": "",
    "use_deterministic_compute": False, "use_per_session_threads": True,
}  # fmt: skip


def test_defaults(ort: ModuleType) -> None:
    options = ort.SessionOptions()
    assert {name: getattr(options, name) for name in DEFAULTS} == DEFAULTS
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert ort.RunOptions().terminate is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("intra_op_num_threads", "2"), ("intra_op_num_threads", 2.0), ("intra_op_num_threads", 1 << 40),
        ("execution_mode", 1), ("logid", 3), ("enable_profiling", "yes"),
    ],
)  # fmt: skip
def test_values_of_another_type(ort: ModuleType, name: str, value: Any) -> None:
    with pytest.raises(TypeError):
        setattr(ort.SessionOptions(), name, value)


def test_unknown_settings(ort: ModuleType) -> None:
    with pytest.raises(AttributeError):
        ort.SessionOptions().nonsense = 3


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_entries_of_the_configuration(ort: ModuleType, kind: str) -> None:
    options = getattr(ort, kind)()
    add, get = (
        (options.add_session_config_entry, options.get_session_config_entry)
        if kind == "SessionOptions"
        else (options.add_run_config_entry, options.get_run_config_entry)
    )
    add("some.key", "1")
    assert get("some.key") == "1"
    with pytest.raises(RuntimeError, match=f"{kind} does not have configuration with key: other"):
        get("other")
    with pytest.raises(TypeError):
        add("some.key", 1)
    for key in ("", "k" * 1025):
        with pytest.raises(RuntimeError, match="Config key is empty or longer than maximum length 1024"):
            add(key, "1")


def test_severities_that_there_are_not(ort: ModuleType, state: Any) -> None:
    options, of_run = ort.SessionOptions(), ort.RunOptions()
    options.log_severity_level = of_run.log_severity_level = 9
    with pytest.raises(RuntimeError, match="Invalid session log severity level"):
        ort.InferenceSession(models.two_outputs(), options, providers=["CPUExecutionProvider"])
    session = ort.InferenceSession(models.same(models.FLOAT, [1]), providers=["CPUExecutionProvider"])
    with pytest.raises(state.Fail, match="Invalid run log severity level"):
        session.run(None, {"a": np.zeros(1, np.float32)}, of_run)


def test_a_key_that_is_off_asks_for_nothing() -> None:
    options = own.SessionOptions()
    options.add_session_config_entry("ep.context_enable", "0")
    session = own.InferenceSession(models.two_outputs(), options, strict=True)
    assert (session.runs_on, session.ignored_options) == ("treadle", ("ep.context_enable",))


def test_options_can_be_referred_to_weakly(ort: ModuleType) -> None:
    for options in (ort.SessionOptions(), ort.RunOptions()):
        assert weakref.ref(options)() is options


def test_enumerations(ort: ModuleType) -> None:
    assert int(ort.GraphOptimizationLevel.ORT_ENABLE_ALL) == 99
    assert str(ort.ExecutionMode.ORT_PARALLEL) == "ExecutionMode.ORT_PARALLEL"
    assert ort.ExecutionMode.ORT_PARALLEL == 1
    assert ort.ExecutionMode.ORT_PARALLEL.name == "ORT_PARALLEL"


def test_functions_of_the_module(ort: ModuleType) -> None:
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert ort.get_device() == "CPU"
    assert ort.__version__.split(".")[0] == "1"
    ort.set_default_logger_severity(3)
    with pytest.raises(RuntimeError, match="Invalid logging severity"):
        ort.set_default_logger_severity(9)
    ort.disable_telemetry_events()


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, Limits(None, None)),
        ({"intra_op_num_threads": 3}, Limits(3, 3)),
        ({"intra_op_num_threads": 64}, Limits(8, 8)),
        ({"intra_op_num_threads": -1, "inter_op_num_threads": 5}, Limits(None, None)),
        (
            {"intra_op_num_threads": 2, "inter_op_num_threads": 5, "execution_mode": own.ExecutionMode.ORT_PARALLEL},
            Limits(2, 5),
        ),
        ({"execution_mode": own.ExecutionMode.ORT_PARALLEL}, Limits(None, None)),
    ],
)
def test_numbers_of_threads_are_limits(settings: dict[str, Any], limits: Limits) -> None:
    options = own.SessionOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    assert limits_of(options, 8) == limits
