"""Compiled kernels kept on disk, so that a model that was loaded once is not compiled again.

A cache folder is a way into every process that reads it: what lies in it is executed. So it must belong to
the user and be closed to everybody else, and each file carries a hash of what it holds. Anything amiss with
the folder means no cache and one warning; anything amiss with a file means that its kernel is compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import llvmlite

from treadle import __version__, knobs
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import Target

MAGIC = b"treadle-kernel-1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_PARTIAL = ".partial"
_SHARE = 4
"""One file may take this part of the folder's limit."""
_PARTIAL_SECONDS = 3600
"""How old a file must be to count as left behind by a process that died while it wrote."""


class KernelCache:
    """An open cache folder. Many processes may use one at once: files appear whole, and equal names hold equal code."""

    def __init__(self, folder: int, path: Path, max_bytes: int) -> None:
        self._folder = folder
        self._path = path
        self._max_bytes = max_bytes
        self._stored = False

    def load(self, key: str) -> bytes | None:
        """The object code kept under `key`; None if there is none, or not as it was written."""
        file = self._opened(key)
        if file is None:
            return None
        try:
            with os.fdopen(file, "rb") as stream:
                content = stream.read()
                _used(stream.fileno())
        except OSError:
            return None
        start = len(MAGIC) + _DIGEST_BYTES
        code = content[start:]
        return code if content[:start] == _header(key, code) else None

    def open(self, key: str) -> int | None:
        """A descriptor of the file kept under `key`, which its reader checks; None if there is none."""
        file = self._opened(key)
        if file is not None:
            _used(file)
        return file

    def _opened(self, key: str) -> int | None:
        try:
            return os.open(key, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            return None

    def has(self, key: str) -> bool:
        """Whether a file is kept under `key`."""
        return os.access(key, os.F_OK, dir_fd=self._folder)

    def may_grow(self) -> bool:
        """Whether files can be made here: not on a file system that is only read."""
        return os.access(".", os.W_OK, dir_fd=self._folder)

    def has_room_for(self, size: int) -> bool:
        """Whether a file of `size` bytes takes so little of the folder's limit that it does not drive all others out."""
        return size <= self._max_bytes // _SHARE

    def store(self, key: str, code: bytes) -> None:
        """Keep `code` under `key`, in place of what may be there. One warning if the folder cannot be written."""
        self.store_parts(key, (_header(key, code), code))

    def store_parts(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        """Keep `parts` behind each other as the file `key`, as `store` does."""
        begun = self.begin(key)
        if begun is None:
            return
        file, partial = begun
        try:
            with os.fdopen(file, "wb") as stream:
                for part in parts:
                    stream.write(part)
        except OSError as error:
            self.abandon(partial, error)
        else:
            self.finish(partial, key)

    def begin(self, key: str) -> tuple[int, str] | None:
        """A new file to write and read: its descriptor, and the name for `finish` or `abandon`. None after a warning."""
        partial = f"{key}.{os.getpid()}.{time.monotonic_ns()}{_PARTIAL}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(partial, flags, 0o600, dir_fd=self._folder), partial
        except OSError as error:
            self._tell(error)
            return None

    def finish(self, partial: str, key: str) -> None:
        """Keep the file that `begin` called `partial` under `key`, in place of what may be there."""
        try:
            os.rename(partial, key, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            self.abandon(partial, error)
        else:
            self._stored = True

    def abandon(self, partial: str, error: OSError | None = None) -> None:
        """Remove the file that `begin` called `partial`; with a warning if that is for an `error`."""
        with suppress(OSError):
            os.unlink(partial, dir_fd=self._folder)
        if error is not None:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        _warn(f"compiled kernels cannot be kept in {self._path}: {error.strerror}")

    def trim(self) -> None:
        """If anything was stored, drop the files not used for longest until the folder fits its limit."""
        if not self._stored:
            return
        files: list[tuple[float, int, str]] = []
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if not entry.name.endswith(_PARTIAL):
                        files.append((status.st_mtime, status.st_size, entry.name))
                    elif status.st_mtime < time.time() - _PARTIAL_SECONDS:
                        os.unlink(entry.name, dir_fd=self._folder)
        excess = sum(size for _, size, _ in files) - self._max_bytes
        for _, size, name in sorted(files):
            if excess <= 0:
                break
            with suppress(OSError):
                os.unlink(name, dir_fd=self._folder)
            excess -= size


def _used(file: int) -> None:
    """Let `trim` know that the file is in use; a folder on a file system that is only read needs no trimming."""
    with suppress(OSError):
        os.utime(file)


@contextmanager
def open_cache() -> Iterator[KernelCache | None]:
    """The cache that the knobs TREADLE_CACHE and TREADLE_CACHE_MB ask for, trimmed at the end; None if there is none.

    The folder is made if it is missing. Where it cannot be used safely, one warning says why.
    """
    path = cache_folder()
    folder = None if path is None else _open_folder(path)
    if path is None or folder is None:
        yield None
        return
    try:
        cache = KernelCache(folder, path, knobs.get("TREADLE_CACHE_MB") << 20)
        yield cache
        cache.trim()
    finally:
        os.close(folder)


def cache_folder() -> Path | None:
    """The folder that compiled kernels are kept in; None if TREADLE_CACHE is `off` or the user has no home."""
    asked = knobs.get("TREADLE_CACHE")
    if asked == "off":
        return None
    if asked is not None:
        return Path(asked).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".cache") / "treadle"
    except RuntimeError:
        return None


def _open_folder(path: Path) -> int | None:
    """A descriptor of the folder, which is made with mode 0700 if missing; None, and one warning, if it is not safe."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        _warn(f"compiled kernels cannot be kept in {path}: {error.strerror}")
        return None
    status = os.fstat(folder)
    fault = None
    if status.st_uid != os.geteuid():
        fault = f"it belongs to user {status.st_uid}, not to you ({os.geteuid()})"
    elif stat.S_IMODE(status.st_mode) & 0o077:
        fault = f"others may use it (mode {stat.S_IMODE(status.st_mode):04o}); wanted 0700: chmod 700 {path}"
    if fault is None:
        return folder
    os.close(folder)
    _warn(f"compiled kernels are not kept in {path}: {fault}")
    return None


@lru_cache(maxsize=64)
def _warn(message: str) -> None:
    """Warn of each fault once a process."""
    warnings.warn(f"{message}; set TREADLE_CACHE to another folder, or to `off`", RuntimeWarning, stacklevel=2)


def _header(key: str, code: bytes) -> bytes:
    return MAGIC + hashlib.sha256(key.encode() + code).digest()


def kernel_key(spec: KernelSpec, target: Target) -> str:
    """A name for the kernel's code that changes with everything that the code depends on."""
    parts = (str(spec), repr(target), __version__, generator_hash(), *compiler_version())
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


@lru_cache(maxsize=1)
def compiler_version() -> tuple[str, ...]:
    """What tells one LLVM from another, without loading it: llvmlite's version and the size of its library."""
    folder = Path(llvmlite.__file__).parent / "binding"
    sizes = [f"{file.name} {file.stat().st_size}" for file in sorted(folder.glob("*llvmlite.*"))]
    return (llvmlite.__version__, *sizes)


@lru_cache(maxsize=1)
def generator_hash() -> str:
    """A hash of the sources that turn specs into code."""
    here = Path(__file__).parent
    total = hashlib.sha256()
    for source in (here / "jit.py", *sorted(here.glob("emit/*.py")), *sorted(here.glob("kernels/*.py"))):
        content = source.read_bytes()
        total.update(f"{source.name} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()
