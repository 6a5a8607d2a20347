"""Backends, which run the loop inside an op: treadle's own team, OpenMP, or oneTBB.

    treadle.threads.set_backend("openmp")      before the first run; or TREADLE_PARALLEL_BACKEND=openmp

With `native`, the default, one team serves both levels of parallelism, and intra_op and inter_op bound the whole
process. With the other two, the caller of run() executes the graph op by op, and the other runtime distributes each
op's chunks over at most intra_op of *its* threads. inter_op has no effect then, and that runtime decides how many
threads run in all. Results are bitwise the same on all three. Both exist for programs that must share that runtime's
threads, and for comparison.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from treadle import _native, forking, knobs
from treadle.errors import BackendError, ThreadSettingWarning

NAMES = ("native", "openmp", "tbb")
VARIABLE = "TREADLE_PARALLEL_BACKEND"
OPENMP = ("libgomp.so.1", "libomp.so", "libomp.so.5", "libiomp5.so", "libomp.dylib")
BRIDGE = "treadle_tbb.so"
AFTER_FORK = "fork() of a process that used OpenMP"


class Backend(NamedTuple):
    """A backend, what chose it, and its library (None: treadle itself)."""

    name: str
    source: str
    library: str | None = None


_lock = forking.lock()
_chosen: Backend | None = None
_has_run_before_fork = False
_lost: Backend | None = None  # the parent process's, which this forked child cannot use
_is_reported = True
_kept: list[ctypes.CDLL] = []


def set_backend(name: str) -> None:
    """Choose what runs the loops inside ops, before the first run of the process.

    Args:
        name: "native" (treadle's team, the default), "openmp" or "tbb".

    Raises:
        BackendError: The name is another one; the backend is not installed (the message says how to install it); or a
            run has begun with another backend, which would compete for the same CPUs.

    Example:
        >>> treadle.threads.set_backend("openmp")
    """
    with _lock:
        _choose(name, f"set_backend({name!r})")


def is_available(name: str) -> bool:
    """True if the backend `name` (one of NAMES) is installed; its library is loaded then."""
    try:
        _LOADERS[name]()
    except BackendError:
        return False
    return True


def current() -> Backend:
    """Return the backend in use, or that of a run that began now. Raises KnobError for a variable that is not valid."""
    return _chosen or Backend(knobs.get(VARIABLE), VARIABLE if os.environ.get(VARIABLE) else "default")


def load() -> None:
    """Load the environment's backend if none was chosen. Raises KnobError or BackendError.

    Warns in the child of a fork() that the parent's backend does not work there.
    """
    with _lock:
        _report_loss()
        if _chosen is None:
            wanted = current()
            _choose(wanted.name, wanted.source)


def _choose(name: str, source: str) -> None:
    global _chosen  # noqa: PLW0603 - the choice is the process's
    if name not in NAMES:
        raise BackendError(f"backend from {source}: wanted one of {', '.join(NAMES)}, got {name!r}")
    if _chosen is not None and name == _chosen.name:
        if _chosen.source == AFTER_FORK:
            _chosen = Backend(name, source)
        return
    if _native.engine_is_fixed() and name != current().name:
        used = current()
        raise BackendError(
            f"backend from {source}: {used.name!r} ({used.source}) is in use, and two in one process would compete for "
            f"the same CPUs; choose {name!r} before the first run, or set {VARIABLE}={name} when the process starts"
        )
    if _lost is not None and name == _lost.name:
        raise BackendError(
            f"backend from {source}: the process that forked this one has used {name!r}, whose threads did not come "
            "along; use 'native' here, or start processes with spawn"
        )
    address, library = _LOADERS[name]()
    _native.set_engine(address)
    _chosen = Backend(name, source, library)


def _report_loss() -> None:
    global _is_reported  # noqa: PLW0603 - once a process
    if _lost is None or _is_reported or current().source != AFTER_FORK:
        return
    _is_reported = True
    warnings.warn(
        f"backend {_lost.name!r} ({_lost.source}) is not honoured: its threads did not come along in fork(); "
        "this process uses 'native', with the same results; choose that, or start processes with spawn",
        ThreadSettingWarning,
        stacklevel=2,
    )


def _load_native() -> tuple[int, None]:
    return 0, None


def _load_openmp() -> tuple[int, str]:
    """Return GOMP_parallel of the OpenMP runtime that the process has loaded, else of the first that is installed."""
    for mode in (os.RTLD_NOLOAD | os.RTLD_NOW, os.RTLD_NOW):
        for name in OPENMP:
            try:
                return _entry(ctypes.CDLL(name, mode=mode), "GOMP_parallel"), name
            except (OSError, AttributeError):
                continue
    raise BackendError(
        f"backend 'openmp': no OpenMP runtime found (looked for {', '.join(OPENMP)}); install one: "
        "`apt-get install libgomp1`, `dnf install libgomp`, or `conda install libgomp`"
    )


def _load_tbb() -> tuple[int, str]:
    """Return the bridge's function, which runs a loop by oneTBB."""
    return _entry(tbb_bridge(), "treadle_tbb_parallel"), _tbb()


def tbb_bridge() -> ctypes.CDLL:
    """Load libtbb, of the package `tbb` or of the system, and return the bridge, which lies beside the native module.

    Raises BackendError if either is missing.
    """
    bridge = Path(_native.__file__).parent / BRIDGE
    if not bridge.is_file():
        raise BackendError(
            "backend 'tbb': this build of treadle has no bridge to oneTBB, as its headers were not there; "
            "`pip install tbb-devel`, then install treadle again"
        )
    try:
        _kept.append(ctypes.CDLL(_tbb(), mode=os.RTLD_NOW | os.RTLD_GLOBAL))
        return ctypes.CDLL(str(bridge))
    except OSError as error:
        raise BackendError(f"backend 'tbb': cannot load oneTBB ({error}); install it: `pip install tbb`") from None


def _tbb() -> str:
    return _packaged_tbb() or "libtbb.so.12"


def _packaged_tbb() -> str | None:
    from importlib import metadata

    try:
        files = metadata.files("tbb") or []
    except metadata.PackageNotFoundError:
        return None
    found = [file.locate() for file in files if file.name.startswith("libtbb.so.12")]
    return str(min(found, key=lambda path: len(str(path)))) if found else None


def _entry(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    _kept.append(library)
    return address


_LOADERS: dict[str, Callable[[], tuple[int, str | None]]] = {
    "native": _load_native,
    "openmp": _load_openmp,
    "tbb": _load_tbb,
}


def _before_fork() -> None:
    global _has_run_before_fork  # noqa: PLW0603 - the native core forgets it in the child
    _has_run_before_fork = _native.engine_is_fixed()


def _after_fork() -> None:
    global _chosen, _lost, _is_reported
    if _has_run_before_fork and _chosen is not None and _chosen.name == "openmp":
        # OpenMP's runtime would wait for ever for threads that exist in the parent only.
        _native.set_engine(0)
        _chosen, _lost, _is_reported = Backend("native", AFTER_FORK), _chosen, False


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
