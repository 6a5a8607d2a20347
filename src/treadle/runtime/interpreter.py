"""Other processes with this Python: how they are started, whatever program this one runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


def is_known() -> bool:
    """Whether sys.executable is a Python: in a frozen program, or one that embeds Python, it may be that program."""
    return not getattr(sys, "frozen", False) and Path(sys.executable or "").name.lower().startswith(("python", "pypy"))


def start(
    program: str,
    descriptors: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    *,
    answers: bool = False,
) -> subprocess.Popen[bytes]:
    """A process that runs the Python text `program`: with this one's flags and search path, without its main module.

    It inherits `descriptors`, and its environment is this one's with `environment` added. If it `answers`, its stdout
    is a pipe to this process, and what it writes to stderr is dropped. Starting it neither forks this process nor waits
    for the other. Raises OSError where no process can be started, or this program does not know where its Python is.
    """
    import subprocess  # a program that starts none is ready 3 ms sooner

    if not sys.executable:
        raise FileNotFoundError("this program does not know where its Python is")
    path = [entry or str(Path.cwd()) for entry in sys.path]
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, *flags, "-c", f"import sys; sys.path[:] = {path!r}; {program}"],
        stdin=subprocess.DEVNULL,
        env=os.environ | (environment or {}),
        pass_fds=descriptors,
        stdout=subprocess.PIPE if answers else None,
        stderr=subprocess.DEVNULL if answers else None,
    )
