"""Files of limits for one model on one kind of machine: `treadle tune --save` writes them, sessions read them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from treadle.errors import SettingsFileError, ThreadSettingError
from treadle.records import dataclass
from treadle.runtime.limits import MOST, Setting, checked, chosen
from treadle.runtime.report import cpu
from treadle.runtime.topology import Topology

FORMAT = "treadle-settings-1"
MOST_BYTES = 1 << 20
_SHOWN = 100
"""How many characters of a value a message shows."""
_ADVICE = "write a new one with `treadle tune MODEL --save FILE`"


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that limits were chosen on: processor, instruction set of kernels, number of CPUs available."""

    name: str
    isa: str
    available: int


def machine(isa: str, topology: Topology) -> Machine:
    """Return this machine, with kernels for `isa`."""
    return Machine(cpu()["model"], isa, topology.available)


@dataclass(frozen=True, slots=True)
class Tuned:
    """Limits (0: automatic) for the model with the SHA-256 `digest`, on `machine`.

    `model` (its name), `why` (the reason for the limits) and `measured` (the measurements, as plain data) are for
    readers.
    """

    intra_op: int
    inter_op: int
    model: str
    digest: str
    machine: Machine
    why: str
    measured: Mapping[str, Any]

    def limits(self, source: str, topology: Topology) -> dict[str, Setting]:
        """Return both limits, with `source` as what decided them."""
        limits = {"intra_op": self.intra_op, "inter_op": self.inter_op}
        return {name: chosen(value, source, topology) for name, value in limits.items()}

    def must_fit(self, file: str, digest: str | None, machine: Machine) -> None:
        """Raise SettingsFileError, which names `file`, if the limits are of another model or machine."""
        if digest is None:
            raise SettingsFileError(
                f"settings {file!r} are of the model file {_shown(self.model)}: wanted a model given as a file or its "
                "bytes, got one that has none; give the path, or leave settings= out"
            )
        if digest != self.digest:
            raise SettingsFileError(
                f"settings {file!r} are of another model: wanted {_shown(self.model)} with SHA-256 "
                f"{_shown(self.digest)}, got one with {digest!r}; {_ADVICE} for this model, or leave settings= out"
            )
        came = asdict(machine)
        for name, wanted in asdict(self.machine).items():
            if came[name] != wanted:
                raise SettingsFileError(
                    f"settings {file!r} are of another machine: wanted cpu.{name} {_shown(wanted)}, got "
                    f"{came[name]!r}; {_ADVICE} on this machine, or leave settings= out"
                )


def write_tuned(path: Path, tuned: Tuned) -> None:
    """Write the file in one step: a reader sees the old content or the new one. Raises OSError."""
    content = {
        "format": FORMAT,
        "model": {"name": tuned.model, "sha256": tuned.digest},
        "cpu": asdict(tuned.machine),
        "intra_op": tuned.intra_op,
        "inter_op": tuned.inter_op,
        "why": tuned.why,
        "measured": tuned.measured,
    }
    text = json.dumps(content, indent=1) + "\n"
    target = path.resolve()
    if target.exists() and not target.is_file():  # a pipe or a device has no old content
        target.write_text(text, encoding="utf-8")
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def read_tuned(path: str | os.PathLike[str]) -> Tuned:
    """Return the content of the file. Raises SettingsFileError that says what is wrong with it."""
    try:
        file = os.fsdecode(path)
    except TypeError:
        raise SettingsFileError(
            f"settings from Session(settings=): wanted a path or None, got {_shown(path)}; {_ADVICE} and give its path"
        ) from None
    text = _content(file)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsFileError(f"settings {file!r}: wanted JSON, got {error}; {_ADVICE}") from None
    read = _Reader(file, content)
    if read.get("format", str) != FORMAT:
        raise read.fault("format", repr(FORMAT), content["format"])
    return Tuned(
        read.limit("intra_op"),
        read.limit("inter_op"),
        read.get("model.name", str),
        read.get("model.sha256", str),
        Machine(read.get("cpu.name", str), read.get("cpu.isa", str), read.get("cpu.available", int)),
        read.get("why", str),
        read.get("measured", dict),
    )


def _content(file: str) -> bytes:
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            status = os.fstat(stream.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES:
                return stream.read(MOST_BYTES)
            came = f"one of {status.st_size}" if stat.S_ISREG(status.st_mode) else "a folder, a pipe or a device"
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL character
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsFileError(f"settings {file!r} cannot be read: {reason}; check the path, or {_ADVICE}") from None
    raise SettingsFileError(
        f"settings {file!r}: wanted a regular file of at most {MOST_BYTES} bytes, got {came}; {_ADVICE}"
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the entries of a settings file by their dotted names."""

    file: str
    content: Any

    def get(self, name: str, kind: type) -> Any:
        found = self.content
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if type(found) is not kind:
            raise self.fault(name, {str: "a text", int: "an int", dict: "an object"}[kind], found)
        return found

    def limit(self, name: str) -> int:
        value = self.get(name, int)
        try:
            return checked(name, value, f"settings {self.file!r}")
        except ThreadSettingError:
            raise self.fault(name, f"an int in 0..{MOST} (0 = automatic)", value) from None

    def fault(self, name: str, wanted: str, came: Any) -> SettingsFileError:
        """Return the error for an entry that is missing or not valid."""
        shown = "nothing" if came is None else _shown(came)
        return SettingsFileError(f"settings {self.file!r}, {name}: wanted {wanted}, got {shown}; {_ADVICE}")


def _shown(part: Any) -> str:
    """Return repr(part), shortened: messages contain no control characters and no long text."""
    text = repr(part)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
