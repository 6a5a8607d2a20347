"""Names of onnxruntime.capi.onnxruntime_inference_collection: sessions, bindings and values."""

from typing import Any

from treadle.compat.onnxruntime import copy_tensors as copy_tensors
from treadle.compat.onnxruntime import peer
from treadle.compat.onnxruntime.adapters import AdapterFormat as AdapterFormat
from treadle.compat.onnxruntime.binding import IOBinding as IOBinding
from treadle.compat.onnxruntime.enums import OrtDeviceVendorId as OrtDeviceVendorId
from treadle.compat.onnxruntime.session import InferenceSession as InferenceSession
from treadle.compat.onnxruntime.sparse import SparseTensor as SparseTensor
from treadle.compat.onnxruntime.values import OrtDevice as OrtDevice
from treadle.compat.onnxruntime.values import OrtValue as OrtValue

Session = InferenceSession


def __getattr__(name: str) -> Any:
    return peer.only_there(__name__, name)
