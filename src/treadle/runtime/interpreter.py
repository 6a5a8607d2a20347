"""Child processes that run this Python, whatever program this process runs."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


def is_known() -> bool:
    """True if sys.executable is a Python; it may be another program that is frozen, or embeds Python."""
    return not getattr(sys, "frozen", False) and Path(sys.executable or "").name.lower().startswith(("python", "pypy"))


def start(
    program: str,
    descriptors: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    *,
    answers: bool = False,
    silent: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a process that runs the Python text `program`, with this one's flags and search path but no main module.

    Starting it neither forks this process nor waits for the other.

    Args:
        program: What it runs.
        descriptors: What it inherits.
        environment: What is added to its environment, which is this process's.
        answers: Its stdout is a pipe to this process, and its stderr is dropped.
        silent: Its stdout and stderr are dropped.

    Raises:
        OSError: No process can be started, or sys.executable is not known.
    """
    import subprocess  # takes 3 ms, which most programs need not spend

    if not sys.executable:
        raise FileNotFoundError("this program does not know where its Python is")
    path = [entry or str(Path.cwd()) for entry in sys.path]
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, *flags, "-c", f"import sys; sys.path[:] = {path!r}; {program}"],
        stdin=subprocess.DEVNULL,
        env=os.environ | (environment or {}),
        pass_fds=descriptors,
        stdout=subprocess.PIPE if answers else subprocess.DEVNULL if silent else None,
        stderr=subprocess.DEVNULL if answers or silent else None,
    )


def die_with(lifeline: int) -> None:
    """Have the kernel end this process when `lifeline` has no writer left, whatever Python does then."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
