"""The cache folder: stores compiled kernels and models on disk, so that a later process does not compile them again.

Processes execute code from the folder. So it must belong to the user and be closed to all others, and each file carries
a hash of its content. An unsafe folder is not used, with one warning; a damaged file counts as missing.
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
"""One file may take a quarter of the folder's limit."""
_KEPT = 7 / 8
"""The share of the folder's limit that is kept when files have to go: the next store must not look through it again."""
_PARTIAL_SECONDS = 3600
"""An unfinished file of this age was left by a process that died while it wrote."""


class KernelCache:
    """An open cache folder. Many processes may use it at once: files appear complete, and one name has one content."""

    def __init__(self, folder: int, path: Path, max_bytes: int) -> None:
        self._folder = folder
        self._path = path
        self._max_bytes = max_bytes
        self._stored = 0

    def load(self, key: str) -> bytes | None:
        """Returns the content stored under `key`; None if there is none, or if the file is damaged."""
        file = self._open(key)
        if file is None:
            return None
        try:
            with os.fdopen(file, "rb") as stream:
                content = stream.read()
                _touch(stream.fileno())
        except OSError:
            return None
        start = len(MAGIC) + _DIGEST_BYTES
        code = content[start:]
        return code if content[:start] == _header(key, code) else None

    def open(self, key: str) -> int | None:
        """Opens the file `key`, whose content the caller has to verify; None if there is none."""
        file = self._open(key)
        if file is not None:
            _touch(file)
        return file

    def _open(self, key: str) -> int | None:
        """Opens a regular file. To open a FIFO without O_NONBLOCK waits until someone writes to it."""
        try:
            file = os.open(key, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._folder)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
        return None

    def has(self, key: str) -> bool:
        """True if there is a file `key`."""
        return os.access(key, os.F_OK, dir_fd=self._folder)

    def is_writable(self) -> bool:
        """True if files can be made in the folder."""
        return os.access(".", os.W_OK, dir_fd=self._folder)

    def has_room_for(self, size: int) -> bool:
        """True if a file of `size` bytes takes at most the part of the folder's limit that one file may take."""
        return size <= self._max_bytes // _SHARE

    def store(self, key: str, code: bytes) -> None:
        """Stores `code` under `key`, replacing any previous file. Warns once if the folder cannot be written."""
        self.store_parts(key, (_header(key, code), code))

    def store_parts(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        """Stores the concatenation of `parts` as the file `key`, as `store` does."""
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
        """Creates an unfinished file. Returns its descriptor and name, or None after a warning."""
        partial = f"{key}.{os.getpid()}.{time.monotonic_ns()}{_PARTIAL}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(partial, flags, 0o600, dir_fd=self._folder), partial
        except OSError as error:
            self._warn_unwritable(error)
            return None

    def finish(self, partial: str, key: str) -> None:
        """Renames the unfinished file `partial` to `key`, replacing any previous file."""
        try:
            size = os.stat(partial, dir_fd=self._folder).st_size
            os.rename(partial, key, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            self.abandon(partial, error)
        else:
            self._stored += max(size, 1)

    def abandon(self, partial: str, error: OSError | None = None) -> None:
        """Removes the unfinished file `partial`; warns if the reason is an `error`."""
        with suppress(OSError):
            os.unlink(partial, dir_fd=self._folder)
        if error is not None:
            self._warn_unwritable(error)

    def _warn_unwritable(self, error: OSError) -> None:
        _warn(f"compiled kernels cannot be kept in {self._path}: {error.strerror}")

    def trim(self) -> None:
        """After a store, removes the least recently used files if the folder may hold more than its limit.

        Looking through the folder takes time for each file in it. So a process looks after its first store, and again
        each time it has stored a quarter of the bytes that were free when it looked. That leaves three quarters for
        what other processes store meanwhile.
        """
        if not self._stored:
            return
        status = os.fstat(self._folder)
        folder = (status.st_dev, status.st_ino, self._max_bytes)
        unscanned = _UNSCANNED.get(folder, 0) - self._stored
        self._stored = 0
        _UNSCANNED[folder] = unscanned if unscanned > 0 else self._remove_excess() // 4

    def _remove_excess(self) -> int:
        """Removes the files that were not used for longest if the folder exceeds its limit; returns the bytes free."""
        files: list[tuple[float, int, str]] = []
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if not entry.name.endswith(_PARTIAL):
                        files.append((status.st_mtime, status.st_size, entry.name))
                    elif status.st_mtime < time.time() - _PARTIAL_SECONDS:
                        os.unlink(entry.name, dir_fd=self._folder)
        held = sum(size for _, size, _ in files)
        if held <= self._max_bytes:
            return self._max_bytes - held
        for _, size, name in sorted(files):
            if held <= self._max_bytes * _KEPT:
                break
            with suppress(OSError):
                os.unlink(name, dir_fd=self._folder)
            held -= size
        return max(0, self._max_bytes - held)


_UNSCANNED: dict[tuple[int, int, int], int] = {}
"""Bytes that this process may still store before it looks through a folder, by device, inode and limit."""


def _touch(file: int) -> None:
    """Marks the file as used now, for `trim`. Does nothing on a read-only file system."""
    with suppress(OSError):
        os.utime(file)


@contextmanager
def open_cache() -> Iterator[KernelCache | None]:
    """Opens the cache that TREADLE_CACHE and TREADLE_CACHE_MB describe, trims it at the end. Yields None without one.

    Creates the folder if it is missing. If it cannot be used safely, warns once with the reason.
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
    """Returns the path of the cache folder; None if TREADLE_CACHE is `off` or the user has no home.

    An empty or relative HOME is no home: the folder would be in the root folder, or in that of the process.
    """
    setting = knobs.get("TREADLE_CACHE")
    if setting == "off":
        return None
    try:
        if setting is not None:
            return _home() / setting[2:] if setting.startswith("~/") else Path(setting).expanduser()
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return (base if base.is_absolute() else _home() / ".cache") / "treadle"
    except RuntimeError:
        return None


def _home() -> Path:
    """Returns the user's home. Raises RuntimeError if there is none."""
    if not Path(os.environ.get("HOME", "/")).is_absolute():
        raise RuntimeError("HOME is no absolute path")
    return Path.home()


def _open_folder(path: Path) -> int | None:
    """Opens the folder, which it creates with mode 0700 if missing; None, and one warning, if it is not safe."""
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
    """Warns of each fault once per process."""
    warnings.warn(f"{message}; set TREADLE_CACHE to another folder, or to `off`", RuntimeWarning, stacklevel=2)


def _header(key: str, code: bytes) -> bytes:
    return MAGIC + hashlib.sha256(key.encode() + code).digest()


def kernel_key(spec: KernelSpec, target: Target) -> str:
    """Returns the name of the kernel's code: a hash of everything that the code depends on."""
    parts = (str(spec), repr(target), __version__, generator_hash(), *compiler_version())
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


@lru_cache(maxsize=1)
def compiler_version() -> tuple[str, ...]:
    """Identifies LLVM without loading it, by llvmlite's version and the size of its library."""
    folder = Path(llvmlite.__file__).parent / "binding"
    sizes = [f"{file.name} {file.stat().st_size}" for file in sorted(folder.glob("*llvmlite.*"))]
    return (llvmlite.__version__, *sizes)


def generator_sources() -> list[Path]:
    """Returns the files that turn specs into code: generators, and the records that they read."""
    package = Path(__file__).parent.parent
    folders = (package / "codegen" / "emit", package / "codegen" / "kernels", package / "plan" / "kernels")
    return [package / "codegen" / "jit.py", *(path for folder in folders for path in sorted(folder.rglob("*.py")))]


@lru_cache(maxsize=1)
def generator_hash() -> str:
    """Returns a hash of the sources that turn specs into code."""
    package = Path(__file__).parent.parent
    total = hashlib.sha256()
    for source in generator_sources():
        content = source.read_bytes()
        total.update(f"{source.relative_to(package).as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()
