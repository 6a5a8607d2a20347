"""Every exception treadle raises on purpose.

    TreadleError
    ├── ModelError                    the model cannot be used; `.faults` lists every fault found
    │   ├── ModelFormatError          not a readable model file (unreadable, truncated, not protobuf)
    │   └── UnsupportedModelError     readable, but asks for something treadle cannot do
    ├── GraphError                    a graph breaks an invariant (cycle, undefined value, bad arity)
    ├── ShapeError                    shapes or ranks of an op do not fit together
    │   └── DtypeError                dtypes of an op do not fit together
    ├── InputError                    what was given to `run` does not fit the model's inputs or outputs
    ├── StateError                    a session's state is in use, closed, or has nothing yet
    ├── RunError                      a node failed while it ran
    │   ├── KernelError               a kernel reported bad data (a division by zero, ...)
    │   │   └── OutOfRangeError       an index is outside the axis that it selects from
    │   ├── WorkerError               a worker process could not run a Python function, or died in it
    │   ├── RunTimeoutError           the run did not end within its timeout
    │   └── RunCancelledError         the run's token or future was cancelled
    ├── ThreadSettingError            a thread number, pool or environment value is impossible
    │   ├── BackendError              the parallel backend is missing, or another one is in use
    │   ├── ProviderError             the matmul provider is unknown or its library is missing
    │   └── SettingsFileError         a file of tuned settings is damaged, or of another model or machine
    ├── KnobError                     a TREADLE_* environment value is impossible
    ├── MachineFileError              a file of a machine model is damaged, incomplete or missing
    ├── LimitError                    a model asks for more than the limits allow
    │   ├── MemoryLimitError          a run or a load needs more memory than the system has
    │   └── ThreadLimitError          the system lets the process start no more threads
    └── InternalError                 treadle's own fault, never the user's

A message says where, what was wanted, what came, and what to do.
"""

from collections.abc import Sequence


class TreadleError(Exception):
    """The base class of all errors that treadle raises.

    Args:
        what: What is wrong, what was wanted, what came, and what to do.
        place: Where it is wrong, such as "node 'conv1'"; it is put before `what` in the message.
        node: The name of the node that is wrong or failed; None if it is no node, or not known.

    Attributes:
        what: The message without `place`.
        node: As given.

    Example:
        >>> try:
        ...     session.run({"x": x})
        ... except treadle.errors.TreadleError as error:
        ...     print(error)
    """

    def __init__(self, what: str = "", place: str = "", node: str | None = None) -> None:
        super().__init__(f"{place}: {what}" if place else what)
        self.what = what
        self.node = node


class ModelError(TreadleError):
    """A model cannot be used.

    Args:
        message: What is wrong with the model as a whole.
        faults: One sentence for each fault found; they are listed in the message.

    Attributes:
        faults: The faults, as a tuple of strings.
    """

    def __init__(self, message: str, faults: Sequence[str] = ()) -> None:
        self.faults = tuple(faults)
        lines = [message, *(f"  - {fault}" for fault in self.faults)]
        super().__init__("\n".join(lines))


class ModelFormatError(ModelError):
    """The bytes are not a readable model."""


class UnsupportedModelError(ModelError):
    """The model is readable but uses something treadle does not offer."""


class GraphError(TreadleError):
    """A graph breaks an invariant of the IR: it has a cycle, an undefined value, or a wrong number of operands."""


class ShapeError(TreadleError, ValueError):
    """Shapes or ranks of an op's operands do not fit together."""


class DtypeError(ShapeError):
    """Dtypes of an op's operands do not fit the op, or each other."""


class InputError(TreadleError, ValueError):
    """An argument of a session or run does not fit the model by name, dtype, rank or shape, or is an unknown choice."""


class StateError(TreadleError, RuntimeError):
    """A session's state is in use by another run, is closed, or keeps nothing yet."""


class RunError(TreadleError, RuntimeError):
    """A node failed while the graph ran."""


class KernelError(RunError):
    """A kernel found data that it cannot process, such as an index out of range."""


class OutOfRangeError(KernelError, IndexError):
    """An index is outside the axis that it selects from."""


class WorkerError(RunError):
    """A worker process could not be started, sent a Python function, or died while it ran one."""


class RunTimeoutError(RunError, TimeoutError):
    """A run did not end within its timeout; the session stays usable."""


class RunCancelledError(RunError):
    """A run was cancelled by its token, its future, or the end of the run around it; the session stays usable."""


class ThreadSettingError(TreadleError, ValueError):
    """A thread setting is impossible; the message names the setting, the value and its source."""


class BackendError(ThreadSettingError):
    """A parallel backend is unknown or not installed, or another one is in use."""


class ProviderError(ThreadSettingError):
    """A matmul provider is unknown, or its library is not installed."""


class SettingsFileError(ThreadSettingError):
    """A file of tuned settings cannot be read, is damaged, or was measured with another model or on another machine."""


class ThreadSettingWarning(UserWarning):
    """A thread setting is legal but cannot be honoured; the message names it, its value, and why."""


class KnobError(TreadleError, ValueError):
    """A TREADLE_* environment variable has an impossible value."""


class MachineFileError(TreadleError, ValueError):
    """A file of a machine model cannot be read, is damaged or lacks a figure; the message names both."""


class LimitError(TreadleError):
    """A model asks for more memory, depth or size than the limits allow."""


class MemoryLimitError(LimitError, MemoryError):
    """A run, or loading and compiling a model, needs more memory than there is; the session stays usable."""


class ThreadLimitError(LimitError, RuntimeError):
    """The system lets the process start no more threads; the session stays usable."""


class InternalError(TreadleError):
    """A fault of treadle itself, not of its user. Please report it."""
