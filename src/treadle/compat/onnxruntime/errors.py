"""The exceptions of onnxruntime, and treadle's errors as such.

Like those of onnxruntime they derive from Exception alone, and their texts begin with the name and number of a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.errors import (
    InputError,
    InternalError,
    MemoryLimitError,
    ModelError,
    ModelFormatError,
    RunCancelledError,
    RunError,
    ThreadLimitError,
    TreadleError,
    UnsupportedModelError,
)


class Fail(Exception):
    """Status 1: a run or a model failed."""


class InvalidArgument(Exception):
    """Status 2: an argument or a model does not fit."""


class NoSuchFile(Exception):
    """Status 3: the model's file does not exist."""


class NoModel(Exception):
    """Status 4: the session has no model."""


class EngineError(Exception):
    """Status 5: the engine failed."""


class RuntimeException(Exception):
    """Status 6: something failed while the engine ran."""


class InvalidProtobuf(Exception):
    """Status 7: the model's bytes cannot be read."""


class ModelLoaded(Exception):
    """Status 8: the session has a model already."""


class NotImplemented(Exception):  # noqa: A001 - the name that onnxruntime gives it
    """Status 9: the model or call needs what the engine does not have."""


class InvalidGraph(Exception):
    """Status 10: the model's graph is not valid."""


class EPFail(Exception):
    """Status 11: an execution provider failed."""


class ModelLoadCanceled(Exception):
    """Status 12: a load was cancelled."""


class ModelRequiresCompilation(Exception):
    """Status 13: the model has to be compiled for a device first."""


class NotFound(Exception):
    """Status 14: something that was asked for is not there."""


class DeviceReset(Exception):
    """Status 15: a device was reset."""


_STATUS: dict[type[Exception], tuple[int, str]] = {
    Fail: (1, "FAIL"),
    InvalidArgument: (2, "INVALID_ARGUMENT"),
    NoSuchFile: (3, "NO_SUCHFILE"),
    NoModel: (4, "NO_MODEL"),
    EngineError: (5, "ENGINE_ERROR"),
    RuntimeException: (6, "RUNTIME_EXCEPTION"),
    InvalidProtobuf: (7, "INVALID_PROTOBUF"),
    ModelLoaded: (8, "MODEL_LOADED"),
    NotImplemented: (9, "NOT_IMPLEMENTED"),
    InvalidGraph: (10, "INVALID_GRAPH"),
    EPFail: (11, "EP_FAIL"),
    ModelLoadCanceled: (12, "MODEL_LOAD_CANCELED"),
    ModelRequiresCompilation: (13, "MODEL_REQUIRES_COMPILATION"),
    NotFound: (14, "NOT_FOUND"),
    DeviceReset: (15, "DEVICE_RESET"),
}

BY_NAME: dict[str, type[Exception]] = {kind.__name__: kind for kind in _STATUS}
"""The exceptions by their names."""

_KINDS: tuple[tuple[type[TreadleError], type[Exception]], ...] = (
    (InputError, InvalidArgument),
    (ModelFormatError, InvalidProtobuf),
    (UnsupportedModelError, NotImplemented),
    (ModelError, InvalidGraph),
    (MemoryLimitError, RuntimeException),
    (ThreadLimitError, RuntimeException),
    (InternalError, RuntimeException),
    (RunError, Fail),
)
"""treadle's errors, the more special first, and what they are here; others are Fail."""


def error(kind: type[Exception], text: str) -> Exception:
    """Return the exception of class `kind` with the text that onnxruntime would give it."""
    number, name = _STATUS[kind]
    return kind(f"[ONNXRuntimeError] : {number} : {name} : {text}")


def unreadable(path: str | None, failure: ModelFormatError) -> Exception:
    """Return the error for a model, of the file `path` or of bytes, that cannot be read."""
    text = "Failed to load model because protobuf parsing failed."
    if path is not None:
        text = f"Load model from {path} failed:Protobuf parsing failed."
    return error(InvalidProtobuf, f"{text} {failure}")


def bare(failure: BaseException) -> str:
    """Return the text of an exception without its status."""
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(failure))


@contextmanager
def translated() -> Iterator[None]:
    """Turn treadle's errors in the block into those of onnxruntime. The error itself is the cause."""
    try:
        yield
    except TreadleError as failure:
        raise of(failure) from failure


def of(failure: TreadleError) -> Exception:
    """Return the exception of onnxruntime for an error of treadle."""
    if isinstance(failure, RunCancelledError):
        return error(Fail, "Exiting due to terminate flag being set to true.")
    kind = next((kind for ours, kind in _KINDS if isinstance(failure, ours)), Fail)
    if kind is Fail and failure.node is not None:
        where = f"Non-zero status code returned while running the node. Name:'{failure.node}' Status Message: "
        return error(Fail, where + str(failure))
    return error(kind, str(failure))
