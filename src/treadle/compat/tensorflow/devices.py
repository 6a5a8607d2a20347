"""Devices: logical CPUs, which share the one team, and what becomes of those that are not there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.placement import DEVICE, checked, placed
from treadle.compat.tensorflow.scopes import on_device


@dataclass(frozen=True, slots=True)
class LogicalDevice:
    """A device that ops can be asked to run on."""

    name: str
    device_type: str


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """A device of the machine."""

    name: str
    device_type: str


class _Devices:
    def __init__(self) -> None:
        self.cpus = 1
        self.soft = True


_devices = _Devices()


def device(name: Any) -> AbstractContextManager[None]:
    """Ask for a device for the ops of the block: '/CPU:1'. Eager ops of a missing device fail without soft placement."""
    asked = "" if name is None else str(name)
    if asked and not DEVICE.match(asked):
        raise ValueError(f"Unknown attribute is encountered while parsing the device spec: {asked!r}.")
    if context.executing_eagerly():
        checked(placed(asked), "of the block", soft=_devices.soft, cpus=_devices.cpus)
    return on_device(asked)


def set_soft_device_placement(enabled: bool) -> None:
    """Whether an op whose device is missing runs on the first CPU (else it raises InvalidArgumentError)."""
    _devices.soft = bool(enabled)


def get_soft_device_placement() -> bool:
    """Whether an op asked to be on a device that is not there runs on the CPU."""
    return _devices.soft


def set_logical_cpus(count: int) -> None:
    """Let there be so many logical CPUs: names to place ops on; all share the one team of threads."""
    _devices.cpus = max(1, count)


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The logical devices, all of them CPUs."""
    if device_type not in (None, "CPU"):
        return []
    return [LogicalDevice(f"/device:CPU:{number}", "CPU") for number in range(_devices.cpus)]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The one physical CPU device."""
    return [PhysicalDevice("/physical_device:CPU:0", "CPU")] if device_type in (None, "CPU") else []
