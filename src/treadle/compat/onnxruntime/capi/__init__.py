"""Modules of onnxruntime.capi that packages import."""

from treadle.compat.onnxruntime.capi import _pybind_state as _pybind_state
from treadle.compat.onnxruntime.capi import onnxruntime_inference_collection as onnxruntime_inference_collection
from treadle.compat.onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_pybind11_state
