"""ConfigProto, RunOptions and RunMetadata: plain records with the names of TensorFlow's messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)


class Message:
    """A record whose fields have defaults; unknown fields raise ValueError."""

    FIELDS: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def __init__(self, **fields: Any) -> None:
        for name, preset in self.FIELDS.items():
            object.__setattr__(self, name, preset() if callable(preset) else preset)
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise ValueError(
                f'Protocol message {type(self).__name__} has no "{name}" field; weft has {", ".join(self.FIELDS)}.'
            )
        preset = self.FIELDS[name]
        if preset is dict:
            value = dict(value)
        elif callable(preset):
            value = preset(value)
        elif isinstance(preset, bool):
            value = bool(value)
        elif isinstance(preset, int) and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{type(self).__name__}.{name}: wanted an int, got {value!r}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.FIELDS)})"


class ThreadPoolOptionProto(Message):
    """A pool: `num_threads` (0: automatic), and a `global_name` if sessions are to share it."""

    FIELDS = {"num_threads": 0, "global_name": ""}  # noqa: RUF012

    num_threads: int
    global_name: str


class Pools(list[ThreadPoolOptionProto]):
    """The field session_inter_op_thread_pool."""

    def add(self, **fields: Any) -> ThreadPoolOptionProto:
        """Append a pool with these fields and return it."""
        self.append(ThreadPoolOptionProto(**fields))
        return self[-1]


class ConfigProto(Message):
    """How a session runs. 0 threads: automatic."""

    FIELDS = {  # noqa: RUF012
        "intra_op_parallelism_threads": 0,
        "inter_op_parallelism_threads": 0,
        "use_per_session_threads": False,
        "session_inter_op_thread_pool": Pools,
        "device_count": dict,
        "allow_soft_placement": False,
        "log_device_placement": False,
        "operation_timeout_in_ms": 0,
    }

    intra_op_parallelism_threads: int
    inter_op_parallelism_threads: int
    use_per_session_threads: bool
    session_inter_op_thread_pool: Pools
    device_count: dict[str, int]
    allow_soft_placement: bool
    log_device_placement: bool
    operation_timeout_in_ms: int


class RunOptions(Message):
    """How one run goes: its timeout, its trace, and which of the session's pools it uses (-1: the calling thread)."""

    FIELDS = {"timeout_in_ms": 0, "trace_level": NO_TRACE, "inter_op_thread_pool": 0}  # noqa: RUF012
    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)

    timeout_in_ms: int
    trace_level: int
    inter_op_thread_pool: int


@dataclass(slots=True)
class NodeExecStats:
    """One worker's part in one op: when, in microseconds, and on which thread (as the system numbers them)."""

    node_name: str
    timeline_label: str
    all_start_micros: int
    all_end_rel_micros: int
    op_start_rel_micros: int
    op_end_rel_micros: int
    thread_id: int


@dataclass(slots=True)
class DeviceStepStats:
    """The ops of one device."""

    device: str
    node_stats: list[NodeExecStats] = field(default_factory=list)


@dataclass(slots=True)
class StepStats:
    """What a traced run did."""

    dev_stats: list[DeviceStepStats] = field(default_factory=list)


@dataclass(slots=True)
class RunMetadata:
    """Filled by a run whose options ask for a trace."""

    step_stats: StepStats = field(default_factory=StepStats)
