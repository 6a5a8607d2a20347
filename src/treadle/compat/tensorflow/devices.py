"""Devices: logical CPUs, all of which share one team of threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.placement import DEVICE, canonical_device, resolve_device
from treadle.compat.tensorflow.scopes import on_device


@dataclass(frozen=True, slots=True)
class LogicalDevice:
    """A device that ops can be placed on. See tf.config.LogicalDevice in TensorFlow's documentation."""

    name: str
    device_type: str


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """A device of the machine. See tf.config.PhysicalDevice in TensorFlow's documentation."""

    name: str
    device_type: str


class _Devices:
    def __init__(self) -> None:
        self.cpus = 1
        self.soft = True


_devices = _Devices()


def device(name: Any) -> AbstractContextManager[None]:
    """Request a device for the ops of the block.

    See tf.device in TensorFlow's documentation. All devices are names for the same team of threads.

    Args:
        name: a device such as "/CPU:1", or None for no request.

    Raises:
        ValueError: a malformed name.
        tf.errors.InvalidArgumentError: eagerly, a device that does not exist, without soft placement.
    """
    requested = "" if name is None else str(name)
    if requested and not DEVICE.match(requested):
        raise ValueError(f"Unknown attribute is encountered while parsing the device spec: {requested!r}.")
    if context.executing_eagerly():
        resolve_device(canonical_device(requested), "of the block", soft=_devices.soft, cpus=_devices.cpus)
    return on_device(requested)


def set_soft_device_placement(enabled: bool) -> None:
    """Set whether an op whose device does not exist runs on the first CPU.

    See tf.config.set_soft_device_placement in TensorFlow's documentation.

    Args:
        enabled: False makes such ops raise tf.errors.InvalidArgumentError.
    """
    _devices.soft = bool(enabled)


def get_soft_device_placement() -> bool:
    """Return whether an op whose device does not exist runs on the first CPU.

    See tf.config.get_soft_device_placement.
    """
    return _devices.soft


def set_logical_cpus(count: int) -> None:
    """Set the number of logical CPUs. They are names only: all share one team of threads."""
    _devices.cpus = max(1, count)


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the logical devices, all of them CPUs.

    See tf.config.list_logical_devices in TensorFlow's documentation.

    Args:
        device_type: None for all devices; there are none but those of type "CPU".
    """
    if device_type not in (None, "CPU"):
        return []
    return [LogicalDevice(f"/device:CPU:{number}", "CPU") for number in range(_devices.cpus)]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the one physical CPU device.

    See tf.config.list_physical_devices in TensorFlow's documentation.

    Args:
        device_type: None for all devices; there are none but those of type "CPU".
    """
    return [PhysicalDevice("/physical_device:CPU:0", "CPU")] if device_type in (None, "CPU") else []


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the visible physical devices: the one CPU device. See tf.config.get_visible_devices."""
    return list_physical_devices(device_type)


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Accept the visible devices: GPUs, of which there are none, may be hidden, the CPU may not.

    See tf.config.set_visible_devices in TensorFlow's documentation.

    Args:
        devices: a physical device, or a list of them.
        device_type: the type of the devices; None for all types.

    Raises:
        ValueError: an unknown device, or no CPU among the visible ones.
    """
    given = list(devices) if isinstance(devices, (list, tuple)) else [devices]
    known = list_physical_devices()
    for each in given:
        if each not in known:
            raise ValueError(f"Unrecognized device: {each!r}")
        if device_type not in (None, each.device_type):
            raise ValueError(f"Device {each!r} is not of type {device_type}")
    if device_type in (None, "CPU") and not given:
        raise ValueError("set_visible_devices: the CPU cannot be hidden; treadle runs on nothing else")


def set_memory_growth(device: Any, enable: bool) -> None:
    """Refuse: only GPUs have this setting. See tf.config.experimental.set_memory_growth.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"Cannot set memory growth on device {device!r}: it is no GPU")


def enable_op_determinism() -> None:
    """Do nothing: results are deterministic. See tf.config.experimental.enable_op_determinism."""
