"""onnxruntime itself, for models that treadle cannot run: where it is installed, also beneath install()."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from treadle.compat.onnxruntime.errors import BY_NAME
from treadle.compat.onnxruntime.options import RunOptions

NAME = "onnxruntime"

_lock = threading.Lock()
_module: ModuleType | None = None
_told: set[str] = set()


class PeerWarning(UserWarning):
    """A session runs on onnxruntime itself, with threads of its own."""


def is_stand_in(module: ModuleType | None) -> bool:
    """Return True if a module with the peer's name is treadle's."""
    return module is not None and getattr(module, "__treadle__", False)


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
    try:
        return importlib.import_module(NAME) if importlib.util.find_spec(NAME) is not None else None
    except ImportError:
        return None
    finally:
        if hidden:
            for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
                del sys.modules[name]
            sys.modules.update(hidden)


_ITS_OWN = frozenset({
    "ModelCompiler", "ModelPackage", "ModelPackageComponentContext", "ModelPackageContext", "ModelPackageOptions",
    "ModelPackageWriteMode", "OrtCompileApiFlags", "OrtCompiledModelCompatibility", "OrtDeviceEpIncompatibilityReason",
    "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "OrtEpContextData", "OrtEpContextDataBuffer", "OrtEpDevice",
    "OrtExternalInitializerInfo", "OrtHardwareDevice", "OrtSyncStream", "get_all_operator_schema",
    "get_all_opkernel_def", "get_compatibility_info_from_model", "get_hardware_device_ep_incompatibility_details",
    "get_model_compatibility_for_ep_devices", "print_debug_info",
})  # fmt: skip
"""Names that onnxruntime alone can have: those of its own formats, operators and plug-ins for devices."""


def only_there(where: str, name: str) -> Any:
    """Return what the name, which treadle does not have, is in onnxruntime itself, where it is installed.

    `where` is treadle's module. Raises AttributeError without it, and for names that are not onnxruntime's own.
    """
    module = load() if name in _ITS_OWN else None
    for each in () if module is None else (module, importlib.import_module(f"{NAME}.capi.onnxruntime_pybind11_state")):
        if hasattr(each, name):
            return getattr(each, name)
    raise AttributeError(
        f"module {where!r} has no attribute {name!r}: onnxruntime may have it, treadle does not", name=name
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
