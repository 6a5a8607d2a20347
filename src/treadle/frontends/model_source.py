"""The model that a session was made with, which is read when its graph is needed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from treadle import forking
from treadle.errors import ModelError, ModelFormatError
from treadle.frontends import ONNX, TENSORFLOW, TORCH, front_end, load
from treadle.frontends.files import MAX_BYTES, SAVED_MODEL, checkpoint_files, folder_of
from treadle.graph.formed_model import FormedModel
from treadle.graph.graph import Graph
from treadle.graph.template import Template

Stamp = tuple[int, ...]


class DigestStore(NamedTuple):
    """What is remembered of model files between processes.

    Attributes:
        load_digest: Returns the digest of a large file by its stamp (device, inode, size, time of the last write, and
            time of the last change, which no program can set); None if it is not stored.
        store_digest: Stores it.
        load_external: Returns the external data files of the model with a digest, as paths relative to the model's
            folder; none if they are not stored.
        store_external: Stores them.
    """

    load_digest: Callable[[Stamp], str | None]
    store_digest: Callable[[Stamp, str], None]
    load_external: Callable[[str], Sequence[str]]
    store_external: Callable[[str, Sequence[str]], None]


LARGE = 1 << 20
"""Bytes from which a file's hash is stored."""
SETTLED_NS = 4_000_000_000
"""The age in ns from which a file's times identify its content: it may be written twice in one tick of the clock."""


class ModelSource:
    """A model and the options of `load`.

    Attributes:
        path: The file, or the folder of a SavedModel; None if the model is neither.
        suffix: That of the file that has the graph; "" if the model is no file.
        form: "", for the model itself.
        reader: The front end that reads a file or bytes; None for other models.
        options: Those options of `load` that are given.
        digest: The SHA-256 of a model given as a path or as bytes; None for other models, for files that cannot be
            read (`load` says why), and if there are options that have no form on disk.
        content_digest: Identifies the model with its front end, its options and all of its external data; None if
            there is no digest or a file cannot be read. External data are known from the first time that a model is
            loaded on: `digests` remembers them.
    """

    def __init__(self, model: Any, *, digests: DigestStore | None = None, **options: Any) -> None:
        if isinstance(model, str | os.PathLike):
            model = _absolute(Path(os.fsdecode(model)))
        self.path = model if isinstance(model, Path) else None
        folder = folder_of(self.path)
        self._file = self.path if folder is None else folder / SAVED_MODEL
        self.suffix = "" if self._file is None else self._file.suffix
        self._follows = folder is not None
        self._digests = digests
        self._load: Callable[[], Graph | Template | FormedModel] | None = partial(load, model, **options)
        self._bytes = model if isinstance(model, bytes) else None
        self._lock = forking.lock()
        self._loaded: Graph | Template | FormedModel | None = None
        self._stamps: dict[Path, Stamp] = {}
        self._external: Sequence[str] = ()
        self.form = ""
        self.options: Mapping[str, Any] = {name: value for name, value in options.items() if value is not None}
        self.reader = front_end(model) if isinstance(model, bytes | Path) else None
        self.digest: str | None = None
        self.content_digest: str | None = None
        options_text = _options_text(self.reader, self.options)
        if self.reader is None or options_text is None:
            return
        self._options_text = options_text
        most = math.inf if self.reader == TORCH else MAX_BYTES
        self.digest, stamp = _hashed(model if self._file is None else self._file, digests, most)
        self.content_digest = self._named(self.digest)
        if self._file is not None and self.digest is not None:
            self._stamps[self._file] = stamp
            if folder is not None:
                self._add_external(checkpoint_files(folder))
            elif digests is not None and self.reader == ONNX:
                self._add_external(digests.load_external(self.digest))

    @property
    def content(self) -> Path | bytes | None:
        """The file or folder of the model, or its bytes until it is loaded; None for other models."""
        return self._bytes if self.path is None else self.path

    def load(self) -> Graph | Template | FormedModel:
        """Return the model's graph or template; the first call reads it.

        Raises what `frontends.load` raises, and ModelError if a file has changed since `content_digest` was computed.
        """
        with self._lock:
            if self._load is not None:
                loaded = self._load()
                if not self.is_unchanged():
                    raise ModelError(
                        f"the model {str(self.path)!r} was changed after its session was made; "
                        "make a new session of the file, or put the old one back"
                    )
                if isinstance(loaded, Graph):
                    self._store_external(loaded.files)
                self._loaded, self._load, self._bytes = loaded, None, None
            assert self._loaded is not None
            return self._loaded

    def is_unchanged(self) -> bool:
        """True if `content_digest` is still that of the model."""
        try:
            if all(_stamp(path.stat()) == stamp for path, stamp in self._stamps.items()):
                return True
            assert self._file is not None
            digest = _hashed(self._file)[0]
            if digest != self.digest or not self._external:
                return digest == self.digest
            stamps, content = _content_digest(self._file, digest, self._external, None, follow_links=self._follows)
        except OSError:
            return False
        return stamps.keys() | {self._file} == self._stamps.keys() and self._named(content) == self.content_digest

    def _store_external(self, files: Sequence[str]) -> None:
        """Remember the external data files of the model, which has just been read."""
        if self._file is None or self.reader != ONNX or self.digest is None:
            return
        if sorted(files) == sorted(self._external):
            return
        self._stamps = {self._file: self._stamps[self._file]}
        self._add_external(sorted(files))
        if self._digests is not None:
            self._digests.store_external(self.digest, self._external)

    def _add_external(self, files: Sequence[str]) -> None:
        """Let `content_digest` cover the external data `files`."""
        assert self._file is not None
        self._external = files
        stamps, content = _content_digest(self._file, self.digest, files, self._digests, follow_links=self._follows)
        self.content_digest = self._named(content)
        self._stamps.update(stamps)

    def _named(self, content: str | None) -> str | None:
        """Return the digest of `content` with the front end and its options."""
        assert self.reader is not None
        return _with_reader(content, self.reader, self._options_text)


class ModelForm:
    """A graph that is made of a model's, or a template that is made of one.

    Attributes:
        form: Says how, uniquely for the model.
        reader, digest, content_digest: Those of the model.
    """

    def __init__(
        self, source: ModelSource | ModelForm, form: str, make: Callable[[], Graph | Template | FormedModel]
    ) -> None:
        """Make the form of `source` that `make` returns."""
        self.form: str = f"{source.form} {form}"
        self.reader: str | None = source.reader
        self.digest: str | None = source.digest
        self.content_digest: str | None = source.content_digest
        self.is_unchanged: Callable[[], bool] = source.is_unchanged
        self._make = make
        self._lock = forking.lock()
        self._made: Graph | Template | FormedModel | None = None

    def load(self) -> Graph | Template | FormedModel:
        """Return the graph or template. Raises what loading the model raises."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


def _absolute(path: Path) -> Path:
    """Return `path` from the root: the current folder may have changed when the model is read."""
    if path.is_absolute():
        return path
    try:
        return Path.cwd() / path
    except OSError as error:
        raise ModelFormatError(
            f"the model {str(path)!r} cannot be read: there is no current folder any more "
            f"({error.strerror}); give its whole path"
        ) from None


def file_digest(model: Any) -> str | None:
    """Return the SHA-256 of a model given as a path or as bytes; None for folders, unreadable files, other objects."""
    if isinstance(model, str | os.PathLike):
        model = Path(os.fsdecode(model))
    return _hashed(model)[0]


def _options_text(reader: str | None, options: Mapping[str, Any]) -> str | None:
    """Return the text of the `options` of a front end; None if some have none."""
    if not options:
        return ""
    if reader == ONNX:
        return json.dumps(options, sort_keys=True) if all(type(each) is bool for each in options.values()) else None
    texts = [value if isinstance(value, list | tuple) else [value] for value in options.values()]
    if reader != TENSORFLOW or not all(isinstance(text, str) for each in texts for text in each):
        return None
    return json.dumps(options, sort_keys=True)


def _with_reader(digest: str | None, reader: str, options: str) -> str | None:
    """Return the digest of a model that `reader` reads with these `options`: another front end takes it otherwise."""
    if digest is None or (reader == ONNX and not options):
        return digest
    return hashlib.sha256(f"{reader}\n{digest}\n{options}".encode()).hexdigest()


def _content_digest(
    path: Path, digest: str | None, files: Sequence[str], digests: DigestStore | None, *, follow_links: bool
) -> tuple[dict[Path, Stamp], str | None]:
    """Return the stamps of the external data `files` of the model at `path`, and the digest of all.

    The digest is None if a file cannot be read: loading the model says what is wrong. An ONNX model names files of its
    choice, so loading it refuses symbolic links. The files of a SavedModel have fixed names: `follow_links`.
    """
    if not files or digest is None:
        return {}, digest
    folder = path.parent if follow_links else Path(os.path.realpath(path.parent))
    stamps: dict[Path, Stamp] = {}
    total = hashlib.sha256(digest.encode())
    for location in files:
        file = folder / location
        readable = follow_links or Path(os.path.realpath(file)) == file
        found, stamp = _hashed(file, digests) if readable else (None, ())
        if found is None:
            return stamps, None
        stamps[file] = stamp
        total.update(f"\n{location}\0{found}".encode())
    return stamps, total.hexdigest()


def _hashed(model: Any, digests: DigestStore | None = None, most: float = math.inf) -> tuple[str | None, Stamp]:
    """Return the digest of bytes, or the digest and stamp of a file of at most `most` bytes, read in pieces."""
    if isinstance(model, bytes | bytearray | memoryview):
        return hashlib.sha256(model).hexdigest(), ()
    if not isinstance(model, Path):
        return None, ()
    try:
        with os.fdopen(os.open(model, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                return None, ()
            stamp = _stamp(status)
            large = status.st_size >= LARGE
            found = digests.load_digest(stamp) if digests is not None and large else None
            if found is not None:
                return found, stamp
            found = hashlib.file_digest(file, "sha256").hexdigest()
            settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS
            if digests is not None and large and settled and _stamp(os.fstat(file.fileno())) == stamp:
                digests.store_digest(stamp, found)
            return found, stamp
    except (OSError, ValueError):
        return None, ()


def _stamp(status: os.stat_result) -> Stamp:
    """Return numbers that change when a file's content does."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
