"""Names of onnxruntime.capi.onnxruntime_inference_collection: sessions, bindings and values."""

from treadle.compat.onnxruntime.binding import IOBinding as IOBinding
from treadle.compat.onnxruntime.session import InferenceSession as InferenceSession
from treadle.compat.onnxruntime.values import OrtDevice as OrtDevice
from treadle.compat.onnxruntime.values import OrtValue as OrtValue

Session = InferenceSession
