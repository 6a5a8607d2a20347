"""The module under test: treadle's, and where it is installed onnxruntime itself, which passes the same cases."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import treadle.compat.onnxruntime
from treadle.compat.onnxruntime import peer


@pytest.fixture(params=["treadle", "onnxruntime"])
def ort(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "treadle":
        return treadle.compat.onnxruntime
    real = peer.load()
    if real is None:
        pytest.skip("onnxruntime is not installed")
    return real


@pytest.fixture
def state(ort: ModuleType) -> Any:
    """Its `capi.onnxruntime_pybind11_state`."""
    if ort is treadle.compat.onnxruntime:
        from treadle.compat.onnxruntime.capi import onnxruntime_pybind11_state

        return onnxruntime_pybind11_state
    return ort.capi.onnxruntime_pybind11_state
