"""Names of onnxruntime.capi._pybind_state: those of onnxruntime_pybind11_state."""

from typing import Any

from treadle.compat.onnxruntime import peer
from treadle.compat.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return peer.only_there(__name__, name)
