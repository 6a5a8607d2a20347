"""Libraries that multiply matrices: finds them, loads them, and confines them to the calling thread.

Sources: cblas.h and openblas_config of OpenBLAS; oneMKL's developer reference (MKL_Set_Threading_Layer,
MKL_Set_Num_Threads_Local, mkl_cbwr_set); dnnl.h of oneDNN (dnnl_sgemm, dnnl_version).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from treadle import _native, forking
from treadle.dtypes import DType, f32, f64
from treadle.errors import ProviderError
from treadle.provider import Provider
from treadle.runtime import backends

SYSTEM = "the system"
INT32, INT64 = (1 << 31) - 1, (1 << 63) - 1

PACKAGES = {
    "openblas": ("scipy-openblas32", "scipy-openblas64"),
    "mkl": ("mkl",),
    "onednn": ("onednn-cpu-gomp", "onednn-cpu-tbb", "onednn"),
}
"""The Python packages that contain a library, the preferred one first."""

FILES = {
    "openblas": ("libscipy_openblas.so", "libscipy_openblas64_.so", "libopenblas.so.0", "libopenblas.so",
                 "libopenblas64_.so.0", "libopenblas64.so.0"),
    "mkl": ("libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"),
    "onednn": ("libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"),
}  # fmt: skip
"""The names of a library's file, in packages and for the system's loader."""

NEEDS = {
    "onednn-cpu-tbb": (("tbb", "libtbb.so.12"), ("intel-cmplr-lib-rt", "libintlc.so.5"),
                       ("intel-cmplr-lib-rt", "libimf.so")),
    "onednn": (("tbb", "libtbb.so.12"), ("intel-cmplr-lib-rt", "libintlc.so.5"), ("intel-cmplr-lib-rt", "libimf.so"),
               ("intel-cmplr-lib-rt", "libsvml.so"), ("umf", "libumf.so.1"),
               ("intel-cmplr-lib-ur", "libur_loader.so.0"), ("intel-sycl-rt", "libsycl.so.9")),
}  # fmt: skip
"""Libraries of other packages that a package's library needs but does not find, in the order in which to load them."""

INSTALL = {
    "openblas": "`pip install scipy-openblas32`, or the system's package libopenblas0 (openblas in dnf and conda)",
    "mkl": "`pip install mkl`",
    "onednn": "`pip install onednn-cpu-gomp`, or the system's package libdnnl3 (onednn in dnf and conda)",
}


class Library(NamedTuple):
    """A library that is loaded.

    `origin` is its package or the system, `confinement` says what keeps it in the calling thread. `kernels` are the
    address and the first argument of the native core's kernel that calls it, by dtype.
    """

    provider: Provider
    path: str
    origin: str
    confinement: str
    kernels: dict[DType, tuple[int, int]]


_lock = forking.lock()
_loaded: dict[str, Library] = {}
_kept: list[ctypes.CDLL] = []


def load(name: str) -> Library:
    """Return the library of the provider `name` (a key of PACKAGES); the first call loads it.

    Raises ProviderError that lists the files looked for and says how to install one.
    """
    with _lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def is_available(name: str) -> bool:
    """True if the library of the provider `name` is installed and can be used; it is loaded then."""
    try:
        load(name)
    except ProviderError:
        return False
    return True


def loaded() -> list[str]:
    """Return the providers whose libraries treadle has loaded."""
    return sorted(_loaded)


def kernel(name: str, dtype: DType) -> tuple[int, int]:
    """Return the kernel of the provider `name` for `dtype`, and its first argument. Raises as load() does."""
    return load(name).kernels[dtype]


def _load(name: str) -> Library:
    faults = []
    for file, origin in _candidates(name):
        try:
            library = _open(file)
            made = _MAKERS[name](library, origin)
        except (OSError, AttributeError, ProviderError) as error:
            if origin != SYSTEM or "No such file" not in str(error):
                faults.append(f"{origin}: {error}")
            continue
        _kept.append(library)
        return made
    raise ProviderError(
        f"matmul provider {name!r}: no library that can be used was found; install one: {INSTALL[name]} "
        f"(looked for the packages {', '.join(PACKAGES[name])} and for {', '.join(FILES[name])} of the system"
        f"{''.join(f'; {fault}' for fault in faults)})"
    )


def _candidates(name: str) -> Iterator[tuple[str, str]]:
    """Yield files and their origins: those of installed packages, then the system's."""
    from importlib import metadata

    for package in PACKAGES[name]:
        found = packaged(package, FILES[name])
        if found is not None:
            for needed, file in NEEDS.get(package, ()):
                with suppress(OSError):
                    _kept.append(_open(str(packaged(needed, (file,)) or file)))
            yield str(found), f"package {package} {metadata.version(package)}"
    for file in FILES[name]:
        yield file, SYSTEM


def packaged(package: str, names: tuple[str, ...]) -> Path | None:
    """Return the file of an installed Python package with the first of `names` that it has; None if it has none."""
    from importlib import metadata

    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return None
    for name in names:
        for file in files:
            if file.name == name:
                return Path(str(file.locate())).resolve()
    return None


def _open(file: str) -> ctypes.CDLL:
    """Load a library on a thread that is pinned to one CPU.

    OpenBLAS starts a thread for each other CPU of the loading thread as soon as it is loaded.
    """
    found: list[ctypes.CDLL] = []
    faults: list[OSError] = []

    def work() -> None:
        with suppress(OSError, AttributeError):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        try:
            found.append(ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_LOCAL))
        except OSError as error:
            faults.append(error)

    thread = threading.Thread(target=work, name="treadle-load")
    thread.start()
    thread.join()
    if faults:
        raise faults[0]
    return found[0]


def address(library: ctypes.CDLL, name: str) -> int:
    """Return the address of a function of `library` or its dependencies. Raises AttributeError if there is none."""
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


class _DlInfo(ctypes.Structure):
    """Dl_info of dladdr()."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def path_of(function: int) -> str:
    """Return the file that contains the function at this address."""
    where = _DlInfo()
    ctypes.CDLL(None).dladdr(ctypes.c_void_p(function), ctypes.byref(where))
    return os.fsdecode(where.file or b"")


def _openmp(library: ctypes.CDLL) -> dict[str, int]:
    return {
        "get_threads": address(library, "omp_get_max_threads"),
        "set_threads": address(library, "omp_set_num_threads"),
    }


def _openblas(library: ctypes.CDLL, origin: str) -> Library:
    for prefix, suffix in (("scipy_", ""), ("scipy_", "64_"), ("", ""), ("", "64_")):
        if hasattr(library, f"{prefix}cblas_sgemm{suffix}"):
            break
    else:
        raise ProviderError("it has no cblas_sgemm")

    def function(name: str) -> ctypes._NamedFuncPointer:
        return getattr(library, f"{prefix}{name}{suffix}")  # type: ignore[no-any-return]

    describe = function("openblas_get_config")
    describe.restype = ctypes.c_char_p
    version = " ".join(describe().decode().split())
    function("openblas_set_num_threads")(1)
    with_openmp = function("openblas_get_parallel")() == 2
    wide = "USE64BITINT" in version
    guards = _openmp(library) if with_openmp else {}
    gemms = {
        f32: address(library, f"{prefix}cblas_sgemm{suffix}"),
        f64: address(library, f"{prefix}cblas_dgemm{suffix}"),
    }
    return Library(
        Provider("openblas", version, tuple(gemms), INT64 if wide else INT32),
        path_of(gemms[f32]),
        origin,
        "openblas_set_num_threads(1)" + (", omp_set_num_threads(1) around each call" if with_openmp else ""),
        _kernels("cblas64" if wide else "cblas", gemms, guards),
    )


_SEQUENTIAL = 1  # MKL_THREADING_SEQUENTIAL
_AUTO = 2  # MKL_CBWR_AUTO


def _mkl(library: ctypes.CDLL, origin: str) -> Library:
    path = path_of(address(library, "cblas_sgemm"))
    for layer in ("libmkl_core", "libmkl_sequential"):
        # MKL ends the process if one of these is missing.
        if not any(Path(path).parent.glob(f"{layer}.so*")):
            raise ProviderError(f"{layer} is not beside {path}")
    layer = library.MKL_Set_Threading_Layer(_SEQUENTIAL)
    wide = library.MKL_Set_Interface_Layer(0) & 1 == 1
    confinement = "MKL_Set_Num_Threads_Local(1) around each call"
    if layer == _SEQUENTIAL:
        confinement = "sequential threading layer, " + confinement
    if not os.environ.get("MKL_CBWR") and library.MKL_CBWR_Set(_AUTO) == 0:
        confinement += "; MKL_CBWR=AUTO: results do not depend on alignment"
    text = ctypes.create_string_buffer(256)
    library.MKL_Get_Version_String(text, len(text))
    version = " ".join(text.value.decode(errors="replace").split())
    gemms = {f32: address(library, "cblas_sgemm"), f64: address(library, "cblas_dgemm")}
    return Library(
        Provider("mkl", version, tuple(gemms), INT64 if wide else INT32),
        path,
        origin,
        confinement,
        _kernels(
            "cblas64" if wide else "cblas", gemms, {"swap_threads": address(library, "MKL_Set_Num_Threads_Local")}
        ),
    )


class _DnnlVersion(ctypes.Structure):
    """dnnl_version_t."""

    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


_DNNL_OPENMP, _DNNL_TBB, _DNNL_SYCL = 2, 4, 512


def _onednn(library: ctypes.CDLL, origin: str) -> Library:
    describe = library.dnnl_version
    describe.restype = ctypes.POINTER(_DnnlVersion)
    about = describe().contents
    guards, confinement = {}, "built without threads"
    if about.cpu_runtime == _DNNL_OPENMP:
        guards, confinement = _openmp(library), "omp_set_num_threads(1) around each call"
    elif about.cpu_runtime in (_DNNL_TBB, _DNNL_SYCL):
        bridge = backends.tbb_bridge()
        _kept.append(bridge)
        guards, confinement = (
            {"alone": address(bridge, "treadle_tbb_alone")},
            "each call in an arena of one thread of oneTBB",
        )
    gemms = {f32: address(library, "dnnl_sgemm")}
    return Library(
        Provider("onednn", f"oneDNN {about.major}.{about.minor}.{about.patch}", tuple(gemms), INT64),
        path_of(gemms[f32]),
        origin,
        confinement,
        _kernels("dnnl", gemms, guards),
    )


def _kernels(form: str, gemms: dict[DType, int], guards: dict[str, int]) -> dict[DType, tuple[int, int]]:
    return {dtype: _native.library_gemm(form, dtype == f64, gemm, **guards) for dtype, gemm in gemms.items()}


_MAKERS: dict[str, Callable[[ctypes.CDLL, str], Library]] = {"openblas": _openblas, "mkl": _mkl, "onednn": _onednn}
