"""What a model should return: by ONNX Runtime where it is installed, else by the reference of the `onnx` package."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator

from treadle.frontends.onnx.reference_loop import reference_loop


def reference_results(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Return the results of `model` in order, by the reference."""
    return list(ReferenceEvaluator(model, new_ops=[reference_loop()]).run(None, dict(feeds)))


def expected_results(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Return the results of `model` in order."""
    if importlib.util.find_spec("onnxruntime") is None:
        return reference_results(model, feeds)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))
