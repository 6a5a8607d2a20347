"""Names of devices, and the device that an op runs on."""

from __future__ import annotations

import re

from treadle.compat.tensorflow.errors import InvalidArgumentError

DEVICE = re.compile(
    r"(?:/job:\w+)?(?:/replica:\d+)?(?:/task:\d+)?/?(?:device:)?(?P<kind>[CGTX]PU|[cgtx]pu|XLA_[CG]PU|xla_[cg]pu)(?::(?P<number>\d+|\*))?$"
)


def full_name(number: int) -> str:
    """The name of the logical CPU `number`."""
    return f"/job:localhost/replica:0/task:0/device:CPU:{number}"


def placed(asked: str) -> str:
    """The full name of the device `asked` for; "" for none. A device that may be missing is judged by checked()."""
    found = DEVICE.match(asked)
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
