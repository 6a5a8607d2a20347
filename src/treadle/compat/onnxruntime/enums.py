"""The enumerations of onnxruntime, with its names and numbers."""

from __future__ import annotations

from enum import IntEnum


class _Named(IntEnum):
    """Prints as `Class.MEMBER`, as the enumerations of onnxruntime do."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Named):
    """How much a session optimises the graph. Here every session optimises it: results are the same."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Named):
    """Whether independent nodes may run at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    """The order of nodes. Here the longest path goes first, whatever is set."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(_Named):
    """The kind of an allocator."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class ArenaExtendStrategy(_Named):
    """How an arena grows."""

    kNextPowerOfTwo = 0  # noqa: N815 - onnxruntime's own name
    kSameAsRequested = 1  # noqa: N815


class OrtMemType(_Named):
    """The kind of memory of an allocator."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtSparseFormat(_Named):
    """How a sparse tensor is stored."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtMemoryInfoDeviceType(_Named):
    """The kind of a device that has memory."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtDeviceMemoryType(_Named):
    """The kind of memory of a device."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtDeviceVendorId(_Named):
    """The maker of a device, by its number among PCI devices."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtHardwareDeviceType(_Named):
    """The kind of a device that computes."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtExecutionProviderDevicePolicy(_Named):
    """Which devices a session prefers. Here every session runs on the CPU."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6
