"""Names of devices, and the device that an op runs on."""

from __future__ import annotations

import re

from treadle.compat.tensorflow.errors import InvalidArgumentError

DEVICE = re.compile(
    r"(?:/job:\w+)?(?:/replica:\d+)?(?:/task:\d+)?/?(?:device:)?(?P<kind>[CGTX]PU|[cgtx]pu|XLA_[CG]PU|xla_[cg]pu)(?::(?P<number>\d+|\*))?$"
)


def cpu_name(number: int) -> str:
    """Return the name of the logical CPU `number`."""
    return f"/job:localhost/replica:0/task:0/device:CPU:{number}"


def canonical_device(requested: str) -> str:
    """Return the full name of a CPU. Other names are returned unchanged; resolve_device() checks them."""
    found = DEVICE.match(requested)
    if not requested or found is None or found["kind"].upper() != "CPU":
        return requested
    number = found["number"]
    return cpu_name(0 if number in (None, "*") else int(number))


def resolve_device(device: str, name: str, *, soft: bool, cpus: int) -> str:
    """Return the device that runs the op `name`, for which `device` was requested.

    With `soft` placement the first CPU replaces a missing device. Raises InvalidArgumentError otherwise.
    """
    available = [cpu_name(number) for number in range(cpus)]
    if not device or device in available:
        return device or available[0]
    if soft:
        return available[0]
    raise InvalidArgumentError(
        None,
        None,
        f"Cannot assign a device for operation {name}: Operation was explicitly assigned to {device} but available "
        f"devices are [ {', '.join(available)} ]. Make sure the device specification refers to a valid device, or set "
        "allow_soft_placement=True.",
    )
