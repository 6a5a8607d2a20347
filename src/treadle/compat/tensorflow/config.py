"""ConfigProto, RunOptions and RunMetadata: records with the fields of TensorFlow's protobuf messages."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)


class Message:
    """A record whose fields have defaults and fixed types, like a protobuf message.

    Raises:
        ValueError: an unknown field in the constructor, or an integer of more than 32 bits (64 for the fields in WIDE).
        AttributeError: an unknown field in an assignment.
        TypeError: a value of another type.
    """

    FIELDS: dict[str, Any] = {}  # noqa: RUF012 - never changed
    WIDE: tuple[str, ...] = ()

    def __init__(self, **fields: Any) -> None:
        for name, preset in self.FIELDS.items():
            object.__setattr__(self, name, preset() if callable(preset) else preset)
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise ValueError(self._unknown(name))
            setattr(self, name, value)

    def _unknown(self, name: str) -> str:
        return f'Protocol message {type(self).__name__} has no "{name}" field; treadle has {", ".join(self.FIELDS)}.'

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise AttributeError(self._unknown(name))
        preset = self.FIELDS[name]
        where = f"{type(self).__name__}.{name}"
        if isinstance(preset, type) and issubclass(preset, Message):
            if not isinstance(value, preset):
                raise TypeError(f"{where}: wanted {preset.__name__}, got {value!r}")
        elif callable(preset):
            value = preset(value)
        elif isinstance(preset, bool):
            if not isinstance(value, int):
                raise TypeError(f"{where}: wanted a bool, got {value!r}")
            value = bool(value)
        elif isinstance(preset, int):
            value = _integer(value, where, 64 if name in self.WIDE else 32)
        elif isinstance(preset, float):
            value = float(value)
        elif not isinstance(value, str):
            raise TypeError(f"{where}: wanted a str, got {value!r}")
        object.__setattr__(self, name, value)

    def CopyFrom(self, other: Any) -> None:  # noqa: N802 - as in protobuf
        """Copy all fields of another message of this class."""
        for name in self.FIELDS:
            object.__setattr__(self, name, copy.deepcopy(getattr(other, name)))

    def MergeFrom(self, other: Any) -> None:  # noqa: N802 - as in protobuf
        """Take the fields of another message that differ from their defaults. Lists are extended."""
        for name, preset in self.FIELDS.items():
            mine, value = getattr(self, name), getattr(other, name)
            if isinstance(mine, Message):
                mine.MergeFrom(value)
            elif isinstance(mine, dict):
                mine.update(value)
            elif isinstance(mine, list):
                mine.extend(copy.deepcopy(value))
            elif value != preset:
                setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.FIELDS)})"


def _integer(value: Any, where: str, bits: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{where}: wanted an int, got {value!r}")
    number = int(value.__index__())
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{where}: value out of range: {number}")
    return number


class ThreadPoolOptionProto(Message):
    """A pool of threads for a session. See tf.compat.v1.ConfigProto in TensorFlow's documentation.

    Attributes:
        num_threads: the number of threads; 0 is automatic.
        global_name: sessions with the same name share the pool.
    """

    FIELDS = {"num_threads": 0, "global_name": ""}  # noqa: RUF012

    num_threads: int
    global_name: str


class Pools(list[ThreadPoolOptionProto]):
    """The field session_inter_op_thread_pool."""

    def add(self, **fields: Any) -> ThreadPoolOptionProto:
        """Append a pool with these fields and return it."""
        self.append(ThreadPoolOptionProto(**fields))
        return self[-1]


class GPUOptions(Message):
    """Options for GPUs. They are accepted and have no effect."""

    FIELDS = {  # noqa: RUF012
        "per_process_gpu_memory_fraction": 0.0, "allow_growth": False, "allocator_type": "", "visible_device_list": "",
        "deferred_deletion_bytes": 0, "polling_active_delay_usecs": 0, "polling_inactive_delay_msecs": 0,
        "force_gpu_compatible": False,
    }  # fmt: skip
    WIDE = ("deferred_deletion_bytes",)


class OptimizerOptions(Message):
    """Options for TensorFlow's graph optimizer. They are accepted and have no effect."""

    FIELDS = {  # noqa: RUF012
        "do_common_subexpression_elimination": False, "do_constant_folding": False, "do_function_inlining": False,
        "max_folded_constant_in_bytes": 0, "opt_level": 0, "global_jit_level": 0, "cpu_global_jit": False,
    }  # fmt: skip
    L1, L0 = 0, -1
    DEFAULT, OFF, ON_1, ON_2 = 0, -1, 1, 2


class GraphOptions(Message):
    """Options for TensorFlow's graph optimizer and compiler. They are accepted and have no effect."""

    FIELDS = {  # noqa: RUF012
        "enable_recv_scheduling": False, "optimizer_options": OptimizerOptions, "build_cost_model": 0,
        "build_cost_model_after": 0, "infer_shapes": False, "place_pruned_graph": False,
        "enable_bfloat16_sendrecv": False, "timeline_step": 0,
    }  # fmt: skip


class Experimental(Message):
    """Experimental options of a session.

    Args:
        executor_type: "SINGLE_THREADED_EXECUTOR" runs one op at a time in the calling thread. The other fields are
            accepted and have no effect.
    """

    FIELDS = {  # noqa: RUF012
        "executor_type": "", "collective_group_leader": "", "recv_buf_max_chunk": 0, "use_numa_affinity": False,
        "collective_deterministic_sequential_execution": False, "collective_nccl": False,
        "disable_thread_spinning": False,
        "share_cluster_devices_in_session": False, "optimize_for_static_graph": False, "enable_mlir_bridge": False,
        "use_tfrt": False, "disable_functional_ops_lowering": False,
    }  # fmt: skip

    executor_type: str


class ConfigProto(Message):
    """The configuration of a session. See tf.compat.v1.ConfigProto in TensorFlow's documentation.

    Attributes:
        intra_op_parallelism_threads: the largest number of workers that share one op; 0 is automatic. The first session
            of a process sets it for the process, unless the session has pools of its own.
        inter_op_parallelism_threads: the largest number of independent ops in progress; 0 is automatic. Negative: one
            op at a time, started by the calling thread.
        use_per_session_threads: give the session a team of its own.
        session_inter_op_thread_pool: teams for the session, among which RunOptions choose.
        device_count: the number of logical CPUs, as {"CPU": n}. They are names for the same team.
        allow_soft_placement: run ops on the first CPU whose device does not exist.
        log_device_placement: write the device of each op to stderr when it is first run.
        operation_timeout_in_ms: the timeout of runs in milliseconds; 0 for none.
        experimental: see Experimental.

    All other fields are accepted and have no effect.

    Raises:
        ValueError: an unknown field or a number out of range.
        TypeError: a value of another type.
    """

    FIELDS = {  # noqa: RUF012
        "intra_op_parallelism_threads": 0,
        "inter_op_parallelism_threads": 0,
        "use_per_session_threads": False,
        "session_inter_op_thread_pool": Pools,
        "device_count": dict,
        "allow_soft_placement": False,
        "log_device_placement": False,
        "operation_timeout_in_ms": 0,
        "placement_period": 0,
        "device_filters": list,
        "gpu_options": GPUOptions,
        "graph_options": GraphOptions,
        "isolate_session_state": False,
        "share_cluster_devices_in_session": False,
        "experimental": Experimental,
    }
    WIDE = ("operation_timeout_in_ms",)

    intra_op_parallelism_threads: int
    inter_op_parallelism_threads: int
    use_per_session_threads: bool
    session_inter_op_thread_pool: Pools
    device_count: dict[str, int]
    allow_soft_placement: bool
    log_device_placement: bool
    operation_timeout_in_ms: int
    gpu_options: GPUOptions
    graph_options: GraphOptions
    experimental: Experimental


class RunOptions(Message):
    """Options of one run. See tf.compat.v1.RunOptions in TensorFlow's documentation.

    Attributes:
        timeout_in_ms: the timeout in milliseconds; 0 for that of the session.
        trace_level: anything but NO_TRACE records the run in RunMetadata.step_stats.
        inter_op_thread_pool: the index of the session's pool to run in; -1 runs one op at a time in the calling thread.

    All other fields are accepted and have no effect.
    """

    FIELDS = {  # noqa: RUF012
        "timeout_in_ms": 0, "trace_level": NO_TRACE, "inter_op_thread_pool": 0, "output_partition_graphs": False,
        "report_tensor_allocations_upon_oom": False,
    }  # fmt: skip
    WIDE = ("timeout_in_ms",)
    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)

    timeout_in_ms: int
    trace_level: int
    inter_op_thread_pool: int


@dataclass(slots=True)
class NodeExecStats:
    """One worker's part in one op: times in micro- and nanoseconds, and the thread id of the operating system."""

    node_name: str
    timeline_label: str
    all_start_micros: int
    all_end_rel_micros: int
    op_start_rel_micros: int
    op_end_rel_micros: int
    thread_id: int
    scheduled_micros: int = 0
    all_start_nanos: int = 0
    op_start_rel_nanos: int = 0
    op_end_rel_nanos: int = 0
    all_end_rel_nanos: int = 0
    scheduled_nanos: int = 0
    memory: list[Any] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class DeviceStepStats:
    """The ops of one device."""

    device: str
    node_stats: list[NodeExecStats] = field(default_factory=list)


@dataclass(slots=True)
class StepStats:
    """The ops of a traced run, by device."""

    dev_stats: list[DeviceStepStats] = field(default_factory=list)


@dataclass(slots=True)
class RunMetadata:
    """What a run with a trace level records. See tf.compat.v1.RunMetadata in TensorFlow's documentation."""

    step_stats: StepStats = field(default_factory=StepStats)
    partition_graphs: list[Any] = field(default_factory=list)
    function_graphs: list[Any] = field(default_factory=list)
