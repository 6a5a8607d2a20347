"""tf.errors: TensorFlow's classes of errors, and the conversion of treadle's errors to them."""

from __future__ import annotations

from typing import Any

from treadle import errors as core


class OpError(Exception):
    """The base class of errors of runs. See tf.errors.OpError in TensorFlow's documentation.

    Attributes:
        message: what happened.
        op: the Operation that failed, if known.
        node_def: its NodeDef, if known.
        error_code: the number of the class, as in google.rpc.Code.
    """

    code = 2

    def __init__(self, node_def: Any, op: Any, message: str, *details: Any) -> None:
        super().__init__(message)
        self.node_def = node_def
        self.op = op
        self.message = message
        self.details = details

    @property
    def error_code(self) -> int:
        """The number of the class, as in google.rpc.Code."""
        return self.code


class OperatorNotAllowedInGraphError(TypeError):
    """Python code needs the value of a tensor that has none before its graph runs."""


class CancelledError(OpError):
    """The run was cancelled."""

    code = 1


class UnknownError(OpError):
    """An exception of a Python function that no other class fits."""

    code = 2


class InvalidArgumentError(OpError):
    """An argument that does not fit: operands of an op, feeds, options."""

    code = 3


class MisfitError(InvalidArgumentError, ValueError):
    """Operands that do not fit an op.

    It is raised when the op is added to a graph, where TensorFlow may wait for the run.
    """


class DeadlineExceededError(OpError):
    """The timeout of the run expired."""

    code = 4


class NotFoundError(OpError):
    """Something that was requested does not exist."""

    code = 5


class AlreadyExistsError(OpError):
    """Something to be created exists already."""

    code = 6


class PermissionDeniedError(OpError):
    """The caller has no permission."""

    code = 7


class ResourceExhaustedError(OpError):
    """Memory or another limit is exhausted."""

    code = 8


class FailedPreconditionError(OpError):
    """The state does not allow the op, such as a read of an uninitialized variable."""

    code = 9


class AbortedError(OpError):
    """The op was aborted, such as by the death of a worker process."""

    code = 10


class OutOfRangeError(OpError):
    """An index or iteration beyond the end."""

    code = 11


class UnimplementedError(OpError):
    """An op that treadle does not have."""

    code = 12


class InternalError(OpError):
    """An error in treadle itself."""

    code = 13


class UnavailableError(OpError):
    """A service is unavailable."""

    code = 14


class DataLossError(OpError):
    """Data is lost or corrupt."""

    code = 15


class UnauthenticatedError(OpError):
    """The caller is not authenticated."""

    code = 16


CODES = {
    "OK": 0, "CANCELLED": 1, "UNKNOWN": 2, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6, "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10,
    "OUT_OF_RANGE": 11, "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14, "DATA_LOSS": 15, "UNAUTHENTICATED": 16,
}  # fmt: skip
"""tf.errors.INVALID_ARGUMENT and the other codes: the values of `error_code`."""


_OF_PYTHON: tuple[tuple[type[BaseException], type[OpError]], ...] = (
    (NotImplementedError, UnimplementedError),
    (MemoryError, ResourceExhaustedError),
    (StopIteration, OutOfRangeError),
    (ValueError, InvalidArgumentError),
    (TypeError, InvalidArgumentError),
)
"""The classes for exceptions of Python functions; UnknownError for all others."""

_OF_TREADLE: tuple[tuple[type[core.TreadleError], type[OpError]], ...] = (
    (core.RunTimeoutError, DeadlineExceededError),
    (core.RunCancelledError, CancelledError),
    (core.LimitError, ResourceExhaustedError),
    (core.InternalError, InternalError),
    (core.KernelError, InvalidArgumentError),
    (core.ShapeError, InvalidArgumentError),
    (core.InputError, InvalidArgumentError),
    (core.ThreadSettingError, InvalidArgumentError),
)


def error_class(table: Any, error: BaseException) -> type[OpError]:
    """Return the first class in `table` for an error; UnknownError if there is none."""
    return next((kind for cause, kind in table if isinstance(error, cause)), UnknownError)


def from_python_error(error: Exception, where: str = "") -> OpError:
    """Convert an exception of a user's Python function. Raise the result from `error`."""
    if isinstance(error, OpError):
        return type(error)(error.node_def, error.op, error.message)
    text = f"{type(error).__name__}: {error}"
    return error_class(_OF_PYTHON, error)(None, None, f"{where}: {text}" if where else text)


def from_treadle_error(error: core.TreadleError) -> OpError:
    """Convert one of treadle's errors. Raise the result from python_cause(error)."""
    if isinstance(error, core.RunTimeoutError):
        return DeadlineExceededError(None, None, f"Timed out waiting for notification: {error}")
    cause = python_cause(error)
    if isinstance(cause, core.WorkerError):
        return AbortedError(None, None, str(error))
    if isinstance(error, core.RunError) and cause is not error:
        if isinstance(cause, OpError):
            return type(cause)(cause.node_def, cause.op, cause.message)
        if isinstance(cause, core.TreadleError):
            return error_class(_OF_TREADLE, cause)(None, None, str(error))
        return error_class(_OF_PYTHON, cause)(None, None, f"{type(cause).__name__}: {cause}\n{error}")
    return error_class(_OF_TREADLE, error)(None, None, str(error))


def message_of(error: BaseException) -> str:
    """Return the message of `error` without its node, for messages that name the operation themselves."""
    return error.what if isinstance(error, core.TreadleError) else str(error)


def python_cause(error: BaseException) -> BaseException:
    """Return the exception of a Python function that caused `error`, or `error` itself."""
    found = error
    while isinstance(found, core.TreadleError) and found.__cause__ is not None:
        found = found.__cause__
    return found
