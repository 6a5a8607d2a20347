"""Devices under PyTorch's name: the CPU is the only one."""

from __future__ import annotations


class device:  # noqa: N801 - PyTorch's name
    """The CPU.

    Args:
        name: "cpu", with or without an index, or a device.
        index: Accepted and stored.

    Raises:
        RuntimeError: `name` is not the CPU.
    """

    def __init__(self, name: str | device = "cpu", index: int | None = None) -> None:
        text = str(name)
        if text.split(":", maxsplit=1)[0] != "cpu":
            raise RuntimeError(f"device {text!r}: treadle runs on CPUs; write device='cpu', or leave it out")
        self.type = "cpu"
        self.index = index

    def __str__(self) -> str:
        return "cpu"

    def __repr__(self) -> str:
        return "device(type='cpu')"

    def __eq__(self, other: object) -> bool:
        return str(other) == "cpu"

    def __hash__(self) -> int:
        return hash("cpu")
