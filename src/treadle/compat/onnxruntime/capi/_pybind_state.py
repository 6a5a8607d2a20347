"""Names of onnxruntime.capi._pybind_state: those of onnxruntime_pybind11_state."""

from treadle.compat.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
