"""onnxruntime itself, for models that treadle cannot run: where it is installed, also beneath install()."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from treadle.compat.onnxruntime.errors import BY_NAME
from treadle.compat.onnxruntime.options import RunOptions

NAME = "onnxruntime"

_lock = threading.Lock()
_module: ModuleType | None = None
_told: set[str] = set()
_importing = threading.local()


class PeerWarning(UserWarning):
    """A session runs on onnxruntime itself, with threads of its own."""


def is_stand_in(module: ModuleType | None) -> bool:
    """Return True if a module with the peer's name is treadle's."""
    return module is not None and getattr(module, "__treadle__", False)


def is_importing() -> bool:
    """Return True if this thread imports onnxruntime itself, beneath install()."""
    return getattr(_importing, "active", False)


def load() -> ModuleType | None:
    """Return onnxruntime itself; None if it is not installed."""
    global _module  # noqa: PLW0603 - one a process
    with _lock:
        if _module is None:
            found = sys.modules.get(NAME)
            _module = found if found is not None and not is_stand_in(found) else _import_beneath()
        return _module


def _import_beneath() -> ModuleType | None:
    """Import it while treadle's modules of this name are out of the way."""
    hidden = {name: module for name, module in sys.modules.items() if name.split(".")[0] == NAME}
    for name in hidden:
        del sys.modules[name]
    _importing.active = True
    try:
        return importlib.import_module(NAME) if importlib.util.find_spec(NAME) is not None else None
    except ImportError:
        return None
    finally:
        _importing.active = False
        if hidden:
            for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
                del sys.modules[name]
            sys.modules.update(hidden)


_COMPILED = "models compiled for devices, and packages of them"
_DEVICES = "devices and their plug-ins"
_KERNELS = "its own operators and kernels"
_PACKING = "weights in the layout of its own quantization tools"
_SESSIONS = "parts of its own sessions"

ITS_OWN = {
    "GetInitializerLocationFunc": _COMPILED,
    "GetInitializerLocationWrapperFunc": _COMPILED,
    "ModelCompiler": _COMPILED,
    "ModelPackage": _COMPILED,
    "ModelPackageComponentContext": _COMPILED,
    "ModelPackageContext": _COMPILED,
    "ModelPackageOptions": _COMPILED,
    "ModelPackageWriteMode": _COMPILED,
    "OrtCompileApiFlags": _COMPILED,
    "OrtCompiledModelCompatibility": _COMPILED,
    "OrtDeviceEpIncompatibilityReason": _DEVICES,
    "OrtEpAssignedNode": _DEVICES,
    "OrtEpAssignedSubgraph": _DEVICES,
    "OrtEpContextData": _DEVICES,
    "OrtEpContextDataBuffer": _DEVICES,
    "OrtEpDevice": _DEVICES,
    "OrtExternalInitializerInfo": _COMPILED,
    "OrtHardwareDevice": _DEVICES,
    "OrtSyncStream": _DEVICES,
    "OrtValueVector": "its training",
    "SessionObjectInitializer": _SESSIONS,
    "SparseBlockSparseView": "sparse tensors in blocks",
    "check_and_normalize_provider_args": _SESSIONS,
    "get_all_operator_schema": _KERNELS,
    "get_all_opkernel_def": _KERNELS,
    "get_compatibility_info_from_model": _COMPILED,
    "get_compatibility_info_from_model_bytes": _COMPILED,
    "get_hardware_device_ep_incompatibility_details": _DEVICES,
    "get_hardware_devices": _DEVICES,
    "get_model_compatibility_for_ep_devices": _COMPILED,
    "get_ort_device_type": _DEVICES,
    "get_registered_ep_kernel_defs": _KERNELS,
    "get_session_initializer": _SESSIONS,
    "get_vendor_id_for_device_type": _DEVICES,
    "make_get_initializer_location_func_wrapper": _COMPILED,
    "opkernel": _KERNELS,
    "pack_fp4_weights_for_cuda_moe_gemm": _PACKING,
    "print_debug_info": "the libraries of GPUs",
    "quantize_matmul_2bits": _PACKING,
    "quantize_matmul_4bits": _PACKING,
    "quantize_matmul_8bits": _PACKING,
    "quantize_matmul_bnb4": _PACKING,
    "quantize_qdq_matmul_2bits": _PACKING,
    "quantize_qdq_matmul_4bits": _PACKING,
    "schemadef": _KERNELS,
}
"""Names that onnxruntime alone can have, with what they are for."""

_MODULES = ("", "capi.onnxruntime_pybind11_state", "capi.onnxruntime_inference_collection")
"""Its modules that have them."""


def only_there(where: str, name: str) -> Any:
    """Return what the name, which treadle does not have, is in onnxruntime itself, where it is installed.

    `where` is treadle's module. Raises AttributeError without it, and for names that are not onnxruntime's own.
    """
    purpose = ITS_OWN.get(name)
    if purpose is None:
        text = f"module {where!r} has no attribute {name!r}: onnxruntime may have it, treadle does not"
        raise AttributeError(text, name=name)
    module = load()
    for below in _MODULES if module is not None else ():
        found = attrgetter(below)(module) if below else module
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(
        f"module {where!r} has no attribute {name!r}: it is for {purpose}, and onnxruntime itself, which has it, is "
        f"not installed",
        name=name,
    )


def only_format(model: Any) -> str | None:
    """Return why only onnxruntime itself can read `model`, a path or bytes, None if it is not in its own format."""
    try:
        head = model[:8] if isinstance(model, bytes) else _head(model)
    except OSError:
        return None
    return "the model is in ONNX Runtime's own format (.ort)" if head[4:] == b"ORTM" else None


def _head(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(8)


def tell(model: str, why: str) -> None:
    """Warn, once for each model and reason, that a session runs on onnxruntime itself."""
    text = f"{model} runs on onnxruntime itself, on threads of its own that treadle does not control: {why}"
    with _lock:
        if text in _told:
            return
        _told.add(text)
    warnings.warn(text, PeerWarning, stacklevel=4)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the exceptions of onnxruntime itself in the block into treadle's of the same names."""
    try:
        yield
    except Exception as failure:
        kind = BY_NAME.get(type(failure).__name__)
        if kind is None or type(failure).__module__.split(".")[0] != NAME:
            raise
        raise kind(*failure.args) from failure


@contextmanager
def options_of(options: RunOptions | None) -> Iterator[Any]:
    """Yield onnxruntime's own options for a run; setting `terminate` of `options` ends it."""
    module = load()
    if options is None or module is None:
        yield None
        return
    own = module.RunOptions()
    with options.followed_by(own):
        yield own
