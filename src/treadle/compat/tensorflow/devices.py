"""Devices: logical CPUs, which share the one team, and what becomes of those that are not there."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.errors import InvalidArgumentError

_PATTERN = re.compile(
    r"(?:/job:\w+)?(?:/replica:\d+)?(?:/task:\d+)?/?(?:device:)?(?P<kind>[CGTX]PU|[cgtx]pu|XLA_[CG]PU|xla_[cg]pu)(?::(?P<number>\d+|\*))?$"
)


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


def full_name(number: int) -> str:
    """The name of the logical CPU `number`."""
    return f"/job:localhost/replica:0/task:0/device:CPU:{number}"


def placed(asked: str) -> str:
    """The full name of the device `asked` for; "" for none. A device that may be missing is judged by checked()."""
    found = _PATTERN.match(asked)
    if not asked or found is None or found["kind"].upper() != "CPU":
        return asked
    number = found["number"]
    return full_name(0 if number in (None, "*") else int(number))


def checked(device: str, name: str, *, soft: bool, cpus: int) -> str:
    """Where the op `name` runs that was asked for on `device`.

    With `soft` placement a missing device becomes the first CPU. Raises InvalidArgumentError without.
    """
    there = [full_name(number) for number in range(cpus)]
    if not device or device in there:
        return device or there[0]
    if soft:
        return there[0]
    raise InvalidArgumentError(
        None,
        None,
        f"Cannot assign a device for operation {name}: Operation was explicitly assigned to {device} but available "
        f"devices are [ {', '.join(there)} ]. Make sure the device specification refers to a valid device, or set "
        "allow_soft_placement=True.",
    )


def device(name: Any) -> AbstractContextManager[None]:
    """Ask for a device for the ops of the block: '/CPU:1'. Eager ops of a missing device fail without soft placement."""
    asked = "" if name is None else str(name)
    if asked and not _PATTERN.match(asked):
        raise ValueError(f"Unknown attribute is encountered while parsing the device spec: {asked!r}.")
    if context.executing_eagerly():
        checked(placed(asked), "of the block", soft=_devices.soft, cpus=_devices.cpus)
    return context.on_device(asked)


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
