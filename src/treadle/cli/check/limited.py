"""Starts the process that judges a model, waits for it within a time, and says what became of it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from treadle.cli.check.judge import READY, STAGES
from treadle.errors import InputError
from treadle.frontends import TITLES, TORCH, front_end
from treadle.runtime import interpreter

_PROGRAM = "from treadle.cli.check.judge import judge; judge({path!r}, {dims!r}, {seconds}, {memory})"

_ENVIRONMENT = {
    "TREADLE_CACHE": "off",
    "TREADLE_OUT_OF_PROCESS": "off",
    "TREADLE_INTRA_OP_THREADS": "1",
    "TREADLE_INTER_OP_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
}
"""It stores nothing, and starts neither processes nor threads, whose stacks would take address space."""


_START_SECONDS = 600
"""How long its start may take, during which it has nothing of the model: on a busy machine imports take long."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the process.

    Attributes:
        ending: "usable" if every stage is complete; "refused" with a typed error; "inputs" where it was read, but no
            inputs can be made up to run it; "time" or "memory" where a limit is in the way; "crash" where the process
            ended by a signal or with another error, which is a fault of treadle.
        stage: The stage in which it ended; "run" if all are complete.
        message: The error, or what ended the process; empty if the model is usable.
        facts: What each complete stage reported, by stage.
    """

    ending: str
    stage: str
    message: str
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)


def check(path: str, dims: dict[str, int], seconds: int, memory: int) -> Verdict:
    """Read, compile and run the model at `path` in a process with limits.

    Args:
        path: An ONNX file or a frozen TensorFlow graph.
        dims: Sizes of open dimensions, by name; 1 for others, or large ones if the model does not fit that.
        seconds: How long the process may take for the model, both as CPU time and on the clock.
        memory: Bytes of memory that the model may need.

    Raises:
        InputError: The file is a program, whose loading runs code.
        OSError: No process can be started.
    """
    if front_end(path) == TORCH:
        raise InputError(
            f"check: wanted a file that is data, got {path!r}: {TITLES[TORCH]}'s files are programs, and their own "
            "loader may run code of them; ask for the model as ONNX"
        )
    program = _PROGRAM.format(path=path, seconds=seconds, memory=memory, dims=dims)
    with interpreter.start(program, environment=_ENVIRONMENT, answers=True) as process:
        expired = threading.Event()

        def stop() -> None:
            expired.set()
            process.kill()

        timers = [threading.Timer(_START_SECONDS + seconds, stop), threading.Timer(seconds, stop)]
        timers[0].start()
        try:
            facts = _answers(process, timers[1].start)
            code = process.wait()
        finally:
            for timer in timers:
                timer.cancel()
            process.kill()
    return _verdict(facts, code, seconds, expired=expired.is_set())


def _answers(process: subprocess.Popen[bytes], ready: Callable[[], None]) -> dict[str, dict[str, Any]]:
    """Return what the process reports, by stage, until it closes its output; call `ready` before it opens the model."""
    assert process.stdout is not None
    facts: dict[str, dict[str, Any]] = {}
    for line in process.stdout:
        report = json.loads(line)
        stage = report.pop("stage")
        if stage == READY:
            ready()
        else:
            facts[stage] = report
    return facts


def _verdict(facts: dict[str, dict[str, Any]], code: int, seconds: int, *, expired: bool) -> Verdict:
    refused, fault, inputs = (facts.pop(name, None) for name in ("refused", "fault", "inputs"))
    stage = next((each for each in STAGES if each not in facts), STAGES[-1])
    if refused is not None:
        memory = refused["error"] in ("MemoryError", "MemoryLimitError")
        return Verdict("memory" if memory else "refused", stage, f"{refused['error']}: {refused['message']}", facts)
    if inputs is not None:
        return Verdict("inputs", stage, inputs["message"], facts)
    if fault is not None:
        return Verdict("crash", stage, f"{fault['error']}: {fault['message']}", facts)
    return _without_answer(facts, stage, code, seconds, expired=expired)


def _without_answer(facts: dict[str, dict[str, Any]], stage: str, code: int, seconds: int, *, expired: bool) -> Verdict:
    if expired or code == -signal.SIGXCPU:
        return Verdict("time", stage, f"it was not done after {seconds} s", facts)
    if code < 0:
        return Verdict("crash", stage, f"the process ended by {signal.Signals(-code).name}", facts)
    if code != 0 or STAGES[-1] not in facts:
        return Verdict("crash", stage, f"the process ended with exit code {code}", facts)
    return Verdict("usable", stage, "", facts)
