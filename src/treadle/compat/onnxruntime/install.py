"""Stands in for the module name `onnxruntime` in this process."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from treadle.compat.onnxruntime import peer
from treadle.immutable import immutable

_OURS = "treadle.compat.onnxruntime"

_CAPI = ("", "._pybind_state", ".onnxruntime_inference_collection", ".onnxruntime_pybind11_state")
"""The modules of `capi` that there are, by their names below it."""

_lock = threading.Lock()
_replaced: dict[str, ModuleType | None] | None = None
"""What stood in sys.modules under the names that are taken now; None while nothing is installed."""


@immutable
class Installed:
    """What install() has done.

    Attributes:
        served: The names of modules that are treadle's now.
        kept: Modules imported before that keep onnxruntime itself: what they imported does not change.
    """

    served: tuple[str, ...]
    kept: tuple[str, ...]


def install(*, strict: bool = False) -> Installed:
    """Make `import onnxruntime` in this process import treadle's names.

    Modules that imported onnxruntime before keep it: they are named in a warning and in what is returned. Import those
    packages after this call. All other modules of onnxruntime, such as `.quantization`, `.transformers` and `.tools`,
    stay its own where it is installed. A second call changes only `strict`.

    Args:
        strict: Whether sessions refuse models that treadle cannot run, in place of running them on onnxruntime itself.

    Returns:
        What was done.
    """
    global _replaced  # noqa: PLW0603 - one a process
    from treadle.compat.onnxruntime import session

    with _lock:
        session.strict_default = strict
        stand_ins = _stand_ins()
        real = sys.modules.get(peer.NAME)
        kept = () if real is None or peer.is_stand_in(real) else _users(real)
        if _replaced is None:
            _replaced = {name: sys.modules.get(name) for name in stand_ins}
            sys.modules.update(stand_ins)
            sys.meta_path.insert(0, _Finder(stand_ins))
    if kept:
        warnings.warn(
            f"these modules imported onnxruntime before install() and keep it: {', '.join(kept)}; call install() first",
            stacklevel=2,
        )
    return Installed(tuple(stand_ins), kept)


def uninstall() -> None:
    """Undo install(): modules that imported treadle's names keep them."""
    global _replaced  # noqa: PLW0603 - one a process
    from treadle.compat.onnxruntime import session

    with _lock:
        session.strict_default = False
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]
        for name, module in (_replaced or {}).items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        _replaced = None


class _Finder:
    """Finds the stand-ins when a program reloads onnxruntime, or imports it again after removing it.

    No subclass of MetaPathFinder: importlib.abc imports much.
    """

    def __init__(self, stand_ins: dict[str, ModuleType]) -> None:
        self._stand_ins = stand_ins

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        module = self._stand_ins.get(name)
        return None if module is None or peer.is_importing() else module.__spec__


class _StandIn:
    """Gives a module that is made already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has its content."""


def _stand_ins() -> dict[str, ModuleType]:
    """Modules with the names of onnxruntime and the content of treadle's."""
    folders = _folders()
    found = {peer.NAME: _copy(_OURS, peer.NAME, folders)}
    for below in _CAPI:
        below_folders = [str(Path(folder) / "capi") for folder in folders]  # has modules that tell how it was built
        found[f"{peer.NAME}.capi{below}"] = _copy(f"{_OURS}.capi{below}", f"{peer.NAME}.capi{below}", below_folders)
    for name, module in found.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(found[parent], last, module)
    return found


def _copy(ours: str, name: str, path: list[str]) -> ModuleType:
    source = importlib.import_module(ours)
    module = ModuleType(name, source.__doc__)
    special = ("__name__", "__spec__", "__loader__", "__path__", "__package__", "__file__")
    content: dict[str, Any] = {key: value for key, value in vars(source).items() if key not in special}
    vars(module).update(content)
    module.__dict__["__treadle__"] = True
    is_package = name == peer.NAME or name.endswith(".capi")
    loader: Any = _StandIn(module)
    module.__spec__ = ModuleSpec(name, loader, origin=source.__file__, is_package=is_package)
    if is_package:
        module.__path__ = module.__spec__.submodule_search_locations = path
    return module


def _folders() -> list[str]:
    """The folder of onnxruntime itself, in which its other modules are found; none if it is not installed."""
    module = sys.modules.get(peer.NAME)
    if module is not None:
        return list(module.__path__)
    spec = importlib.util.find_spec(peer.NAME)
    return [] if spec is None else list(spec.submodule_search_locations or [])


def _users(real: ModuleType) -> tuple[str, ...]:
    """The modules, other than its own, that hold `real` or its sessions."""
    wanted = {id(real), id(getattr(real, "InferenceSession", real))}
    found = []
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in (peer.NAME, "treadle") or not isinstance(module, ModuleType):
            continue
        if any(id(value) in wanted for value in list(vars(module).values())):
            found.append(name)
    return tuple(sorted(found))
