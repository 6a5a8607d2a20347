"""ConfigProto and RunOptions, TensorFlow's protobuf messages, and the records of RunMetadata.

The field numbers are those of the public file tensorflow/core/protobuf/config.proto, without fields that belong to
clusters, debuggers and TPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from treadle.frontends.tensorflow.protobuf import Enums, Messages, message_classes

MESSAGES: Messages = {
    "ThreadPoolOptionProto": (("num_threads", 1, "int32"), ("global_name", 2, "string")),
    "GPUOptions": (
        ("per_process_gpu_memory_fraction", 1, "double"), ("allocator_type", 2, "string"),
        ("deferred_deletion_bytes", 3, "int64"), ("allow_growth", 4, "bool"), ("visible_device_list", 5, "string"),
        ("polling_active_delay_usecs", 6, "int32"), ("polling_inactive_delay_msecs", 7, "int32"),
        ("force_gpu_compatible", 8, "bool"),
    ),
    "OptimizerOptions": (
        ("do_common_subexpression_elimination", 1, "bool"), ("do_constant_folding", 2, "bool"),
        ("opt_level", 3, "OptimizerOptions.Level"), ("do_function_inlining", 4, "bool"),
        ("global_jit_level", 5, "OptimizerOptions.GlobalJitLevel"), ("max_folded_constant_in_bytes", 6, "int64"),
        ("cpu_global_jit", 7, "bool"),
    ),
    "GraphOptions": (
        ("enable_recv_scheduling", 2, "bool"), ("optimizer_options", 3, "OptimizerOptions"),
        ("build_cost_model", 4, "int64"), ("infer_shapes", 5, "bool"), ("place_pruned_graph", 6, "bool"),
        ("enable_bfloat16_sendrecv", 7, "bool"), ("timeline_step", 8, "int32"), ("build_cost_model_after", 9, "int64"),
    ),
    "ConfigProto": (
        ("device_count", 1, "map int32"), ("intra_op_parallelism_threads", 2, "int32"),
        ("placement_period", 3, "int32"), ("device_filters", 4, "repeated string"),
        ("inter_op_parallelism_threads", 5, "int32"), ("gpu_options", 6, "GPUOptions"),
        ("allow_soft_placement", 7, "bool"), ("log_device_placement", 8, "bool"),
        ("use_per_session_threads", 9, "bool"), ("graph_options", 10, "GraphOptions"),
        ("operation_timeout_in_ms", 11, "int64"),
        ("session_inter_op_thread_pool", 12, "repeated ThreadPoolOptionProto"),
        ("isolate_session_state", 15, "bool"), ("experimental", 16, "ConfigProto.Experimental"),
        ("share_cluster_devices_in_session", 17, "bool"), ("pluggable_device_options", 18, "GPUOptions"),
    ),
    "ConfigProto.Experimental": (
        ("collective_group_leader", 1, "string"), ("executor_type", 3, "string"), ("recv_buf_max_chunk", 4, "int32"),
        ("use_numa_affinity", 5, "bool"), ("collective_deterministic_sequential_execution", 6, "bool"),
        ("collective_nccl", 7, "bool"), ("disable_thread_spinning", 9, "bool"),
        ("share_cluster_devices_in_session", 10, "bool"), ("optimize_for_static_graph", 12, "bool"),
        ("enable_mlir_bridge", 13, "bool"), ("disable_output_partition_graphs", 14, "bool"),
        ("enable_mlir_graph_optimization", 16, "bool"), ("use_tfrt", 18, "bool"),
        ("disable_functional_ops_lowering", 21, "bool"),
    ),
    "RunOptions": (
        ("trace_level", 1, "RunOptions.TraceLevel"), ("timeout_in_ms", 2, "int64"),
        ("inter_op_thread_pool", 3, "int32"), ("output_partition_graphs", 5, "bool"),
        ("report_tensor_allocations_upon_oom", 7, "bool"),
    ),
}  # fmt: skip

ENUMS: Enums = {
    "OptimizerOptions.Level": {"L1": 0, "L0": -1},
    "OptimizerOptions.GlobalJitLevel": {"DEFAULT": 0, "OFF": -1, "ON_1": 1, "ON_2": 2},
    "RunOptions.TraceLevel": {"NO_TRACE": 0, "SOFTWARE_TRACE": 1, "HARDWARE_TRACE": 2, "FULL_TRACE": 3},
}

_CLASSES = message_classes(__name__, MESSAGES, ENUMS)

ThreadPoolOptionProto: Any = _CLASSES["ThreadPoolOptionProto"]
"""A pool of threads for a session. See tf.compat.v1.ConfigProto in TensorFlow's documentation.

Attributes:
    num_threads: the number of threads; 0 is automatic.
    global_name: sessions with the same name share the pool.
"""

GPUOptions: Any = _CLASSES["GPUOptions"]
"""Options for GPUs. They are accepted and have no effect."""

OptimizerOptions: Any = _CLASSES["OptimizerOptions"]
"""Options for TensorFlow's graph optimizer. They are accepted and have no effect."""

GraphOptions: Any = _CLASSES["GraphOptions"]
"""Options for TensorFlow's graph optimizer and compiler. They are accepted and have no effect."""

ConfigProto: Any = _CLASSES["ConfigProto"]
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
    experimental: with executor_type "SINGLE_THREADED_EXECUTOR" one op runs at a time, in the calling thread.

All other fields are accepted and have no effect.

Raises:
    ValueError: an unknown field or a number out of range.
    TypeError: a value of another type.
"""

RunOptions: Any = _CLASSES["RunOptions"]
"""Options of one run. See tf.compat.v1.RunOptions in TensorFlow's documentation.

Attributes:
    timeout_in_ms: the timeout in milliseconds; 0 for that of the session.
    trace_level: anything but NO_TRACE records the run in RunMetadata.step_stats.
    inter_op_thread_pool: the index of the session's pool to run in; -1 runs one op at a time in the calling thread.

All other fields are accepted and have no effect.
"""

NO_TRACE = int(RunOptions.NO_TRACE)


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
