"""Names of onnxruntime.capi.onnxruntime_pybind11_state: options, values and exceptions."""

from typing import Any

from treadle.compat.onnxruntime import copy_tensors as copy_tensors
from treadle.compat.onnxruntime import create_and_register_allocator as create_and_register_allocator
from treadle.compat.onnxruntime import create_and_register_allocator_v2 as create_and_register_allocator_v2
from treadle.compat.onnxruntime import disable_telemetry_events as disable_telemetry_events
from treadle.compat.onnxruntime import enable_telemetry_events as enable_telemetry_events
from treadle.compat.onnxruntime import get_all_providers as get_all_providers
from treadle.compat.onnxruntime import get_available_providers as get_available_providers
from treadle.compat.onnxruntime import get_build_info as get_build_info
from treadle.compat.onnxruntime import get_device as get_device
from treadle.compat.onnxruntime import get_ep_devices as get_ep_devices
from treadle.compat.onnxruntime import get_version_string as get_version_string
from treadle.compat.onnxruntime import has_collective_ops as has_collective_ops
from treadle.compat.onnxruntime import peer
from treadle.compat.onnxruntime import register_execution_provider_library as register_execution_provider_library
from treadle.compat.onnxruntime import set_default_logger_callback as set_default_logger_callback
from treadle.compat.onnxruntime import set_default_logger_severity as set_default_logger_severity
from treadle.compat.onnxruntime import set_default_logger_verbosity as set_default_logger_verbosity
from treadle.compat.onnxruntime import set_global_thread_pool_sizes as set_global_thread_pool_sizes
from treadle.compat.onnxruntime import set_seed as set_seed
from treadle.compat.onnxruntime import unregister_execution_provider_library as unregister_execution_provider_library
from treadle.compat.onnxruntime.adapters import AdapterFormat as AdapterFormat
from treadle.compat.onnxruntime.adapters import LoraAdapter as LoraAdapter
from treadle.compat.onnxruntime.binding import SessionIOBinding as SessionIOBinding
from treadle.compat.onnxruntime.describe import ModelMetadata as ModelMetadata
from treadle.compat.onnxruntime.describe import NodeArg as NodeArg
from treadle.compat.onnxruntime.enums import ArenaExtendStrategy as ArenaExtendStrategy
from treadle.compat.onnxruntime.enums import ExecutionMode as ExecutionMode
from treadle.compat.onnxruntime.enums import ExecutionOrder as ExecutionOrder
from treadle.compat.onnxruntime.enums import GraphOptimizationLevel as GraphOptimizationLevel
from treadle.compat.onnxruntime.enums import OrtAllocatorType as OrtAllocatorType
from treadle.compat.onnxruntime.enums import OrtDeviceMemoryType as OrtDeviceMemoryType
from treadle.compat.onnxruntime.enums import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
from treadle.compat.onnxruntime.enums import OrtHardwareDeviceType as OrtHardwareDeviceType
from treadle.compat.onnxruntime.enums import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
from treadle.compat.onnxruntime.enums import OrtMemType as OrtMemType
from treadle.compat.onnxruntime.enums import OrtSparseFormat as OrtSparseFormat
from treadle.compat.onnxruntime.errors import DeviceReset as DeviceReset
from treadle.compat.onnxruntime.errors import EngineError as EngineError
from treadle.compat.onnxruntime.errors import EPFail as EPFail
from treadle.compat.onnxruntime.errors import Fail as Fail
from treadle.compat.onnxruntime.errors import InvalidArgument as InvalidArgument
from treadle.compat.onnxruntime.errors import InvalidGraph as InvalidGraph
from treadle.compat.onnxruntime.errors import InvalidProtobuf as InvalidProtobuf
from treadle.compat.onnxruntime.errors import ModelLoadCanceled as ModelLoadCanceled
from treadle.compat.onnxruntime.errors import ModelLoaded as ModelLoaded
from treadle.compat.onnxruntime.errors import ModelRequiresCompilation as ModelRequiresCompilation
from treadle.compat.onnxruntime.errors import NoModel as NoModel
from treadle.compat.onnxruntime.errors import NoSuchFile as NoSuchFile
from treadle.compat.onnxruntime.errors import NotFound as NotFound
from treadle.compat.onnxruntime.errors import NotImplemented as NotImplemented  # noqa: A004
from treadle.compat.onnxruntime.errors import RuntimeException as RuntimeException
from treadle.compat.onnxruntime.options import RunOptions as RunOptions
from treadle.compat.onnxruntime.options import SessionOptions as SessionOptions
from treadle.compat.onnxruntime.session import InferenceSession as InferenceSession
from treadle.compat.onnxruntime.sparse import SparseCooView as SparseCooView
from treadle.compat.onnxruntime.sparse import SparseCsrcView as SparseCsrView  # noqa: F401 - onnxruntime's name for it
from treadle.compat.onnxruntime.sparse import SparseTensor as SparseTensor
from treadle.compat.onnxruntime.values import OrtArenaCfg as OrtArenaCfg
from treadle.compat.onnxruntime.values import OrtDevice as OrtDevice
from treadle.compat.onnxruntime.values import OrtMemoryInfo as OrtMemoryInfo
from treadle.compat.onnxruntime.values import OrtValue as OrtValue

kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo  # noqa: N816
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested  # noqa: N816


def get_default_session_options() -> SessionOptions:
    """Return options that change nothing."""
    return SessionOptions()


def __getattr__(name: str) -> Any:
    return peer.only_there(__name__, name)
