"""onnxruntime's names on treadle: `import treadle.compat.onnxruntime as ort`.

    import treadle.compat.onnxruntime as ort                      a program of your own: one changed line
    treadle.compat.onnxruntime.install()                          packages that import onnxruntime: one call before
    python -m treadle.ort program.py ARGUMENTS                    nothing changed at all

Sessions share treadle's one team of threads, whatever their number; numbers of threads in SessionOptions are limits
within it. What treadle cannot run runs on onnxruntime itself where that is installed, with a warning; `strict=True`
refuses it. `__version__` is the version of onnxruntime whose interface this is.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from treadle import __version__ as _treadle_version
from treadle.compat.onnxruntime import peer
from treadle.compat.onnxruntime.adapters import AdapterFormat as AdapterFormat
from treadle.compat.onnxruntime.adapters import LoraAdapter as LoraAdapter
from treadle.compat.onnxruntime.binding import IOBinding as IOBinding
from treadle.compat.onnxruntime.binding import SessionIOBinding as SessionIOBinding
from treadle.compat.onnxruntime.describe import ModelMetadata as ModelMetadata
from treadle.compat.onnxruntime.describe import NodeArg as NodeArg
from treadle.compat.onnxruntime.enums import ExecutionMode as ExecutionMode
from treadle.compat.onnxruntime.enums import ExecutionOrder as ExecutionOrder
from treadle.compat.onnxruntime.enums import GraphOptimizationLevel as GraphOptimizationLevel
from treadle.compat.onnxruntime.enums import OrtAllocatorType as OrtAllocatorType
from treadle.compat.onnxruntime.enums import OrtDeviceMemoryType as OrtDeviceMemoryType
from treadle.compat.onnxruntime.enums import OrtDeviceVendorId as OrtDeviceVendorId
from treadle.compat.onnxruntime.enums import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
from treadle.compat.onnxruntime.enums import OrtHardwareDeviceType as OrtHardwareDeviceType
from treadle.compat.onnxruntime.enums import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
from treadle.compat.onnxruntime.enums import OrtMemType as OrtMemType
from treadle.compat.onnxruntime.enums import OrtSparseFormat as OrtSparseFormat
from treadle.compat.onnxruntime.errors import Fail, error
from treadle.compat.onnxruntime.install import install as install
from treadle.compat.onnxruntime.install import uninstall as uninstall
from treadle.compat.onnxruntime.options import RunOptions as RunOptions
from treadle.compat.onnxruntime.options import SessionOptions as SessionOptions
from treadle.compat.onnxruntime.own_sizes import DimensionWarning as DimensionWarning
from treadle.compat.onnxruntime.peer import PeerWarning as PeerWarning
from treadle.compat.onnxruntime.providers import KNOWN
from treadle.compat.onnxruntime.session import InferenceSession as InferenceSession
from treadle.compat.onnxruntime.sparse import SparseTensor as SparseTensor
from treadle.compat.onnxruntime.values import OrtArenaCfg as OrtArenaCfg
from treadle.compat.onnxruntime.values import OrtDevice as OrtDevice
from treadle.compat.onnxruntime.values import OrtMemoryInfo as OrtMemoryInfo
from treadle.compat.onnxruntime.values import OrtValue as OrtValue

__version__ = version = "1.32.0"
package_name = "onnxruntime"
cuda_version = ""
import_capi_exception = None

_MOST_SEVERE = 4


def get_available_providers() -> list[str]:
    """Return the execution providers there are: the CPU."""
    return ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    """Return the execution providers that onnxruntime knows, installed or not."""
    return list(KNOWN)


def get_device() -> str:
    """Return "CPU"."""
    return "CPU"


def get_build_info() -> str:
    """Return what stands behind the names of onnxruntime."""
    return f"treadle {_treadle_version}, which serves the interface of onnxruntime {__version__}"


def get_version_string() -> str:
    """Return the version of onnxruntime whose interface this is."""
    return __version__


def set_default_logger_severity(severity: int) -> None:
    """Check a severity. treadle logs nothing: it raises errors and gives warnings."""
    if not 0 <= index(severity) <= _MOST_SEVERE:
        raise RuntimeError("Invalid logging severity. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Check a number: treadle logs nothing."""
    index(verbosity)


def set_default_logger_callback(callback: Any, severity: int = 2) -> None:
    """Check a severity: treadle logs nothing, so `callback` is never called."""
    set_default_logger_severity(severity)


def set_seed(seed: int) -> None:
    """Warn: random ops have the seeds that the model gives them."""
    index(seed)
    warnings.warn(f"set_seed({seed}) has no effect: random ops have the seeds that the model gives them", stacklevel=2)


def disable_telemetry_events() -> None:
    """Do nothing: there is no telemetry."""


def enable_telemetry_events() -> None:
    """Do nothing: there is no telemetry."""


def preload_dlls(**options: Any) -> None:
    """Do nothing: no libraries of GPUs are used."""


def has_collective_ops() -> bool:
    """Return False."""
    return False


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: Any = None) -> None:
    """Do nothing: treadle has allocators of its own, which all sessions share."""


def get_ep_devices() -> list[Any]:
    """Return an empty list: there are no plug-ins for devices."""
    return []


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """Set the limits of the process's team, as `treadle.threads.set` does; 0 is automatic."""
    from treadle.runtime import threads

    threads.set(intra_op=max(0, intra_op), inter_op=max(0, inter_op))


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Refuse copies between devices, as onnxruntime does where the CPU is the only one. Raises RuntimeError."""
    if not src or len(src) != len(dst):
        raise RuntimeError("Invalid arguments provided to CopyTensors.")
    raise RuntimeError("Data transfer implementation between source and destination device was not found.")


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: Any
) -> None:
    """Do nothing: treadle has allocators of its own, which all sessions share."""


def register_execution_provider_library(registration_name: str, library_path: str) -> None:
    """Refuse a plug-in for devices, which only onnxruntime itself can use. Raises Fail."""
    raise error(Fail, f"Failed to load library {library_path}: plug-ins are for onnxruntime itself")


def unregister_execution_provider_library(registration_name: str) -> None:
    """Raise Fail: no plug-in is registered."""
    raise error(Fail, f"Execution provider library: {registration_name} was not registered.")


def __getattr__(name: str) -> Any:
    return peer.only_there(__name__, name)
