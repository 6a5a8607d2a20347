"""Engines in processes of their own. A process is stopped while others are timed, so that its threads cannot spin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Engine:
    """The declaration of a process: what it loads and with which interpreter.

    `factory` is `module:function`, called in the process with `arguments` (see `benches.harness.worker`); `environment`
    is added to the variables of this process. A `required` engine must load; another one is skipped if it cannot.
    """

    name: str
    factory: str
    arguments: Mapping[str, Any]
    required: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable


@dataclass(slots=True)
class StoppedProcess:
    """A process that answers lines on its stdin by JSON objects, and is stopped unless it is asked."""

    name: str
    process: subprocess.Popen[str]

    def exchange(self, question: Any) -> dict[str, Any]:
        """Wakes the process, sends it a question, waits for the next object and stops the process again."""
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f"{json.dumps(question)}\n")
        self.process.stdin.flush()
        answer = self.line()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def line(self) -> dict[str, Any]:
        """Returns the next line that is a JSON object (libraries print notices of their own).

        Raises RuntimeError if the process has ended.
        """
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")

    def close(self) -> None:
        """Wakes the process and waits for its end."""
        self.process.send_signal(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


@dataclass(slots=True)
class EngineProcess(StoppedProcess):
    """A running engine; `ready` holds the figures of its load."""

    engine: Engine
    ready: dict[str, Any] = field(default_factory=dict)

    def ask(self, question: Any) -> Any:
        """Returns the answer to a question."""
        return self.exchange(question)["answer"]


def start(engine: Engine) -> EngineProcess | None:
    """Starts a process and stops it once it is ready.

    Returns None, and prints the reason to stderr, if the engine cannot be used.
    """
    command = [
        engine.python,
        *("-m", "benches.harness.worker", engine.factory, json.dumps(dict(engine.arguments))),
        "required" if engine.required else "optional",
    ]
    process = EngineProcess(
        engine.name,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | dict(engine.environment),
        ),
        engine,
    )
    answer = process.line()
    if "missing" in answer:
        print(f"{engine.name} is skipped: {answer['missing']}", file=sys.stderr)
        process.close()
        return None
    process.process.send_signal(signal.SIGSTOP)
    process.ready = answer["ready"]
    return process


@contextmanager
def running(engines: Iterable[Engine]) -> Iterator[list[EngineProcess]]:
    """Processes of those engines that can be used, in order; all of them end with the block."""
    with ExitStack() as stack:
        processes = []
        for engine in engines:
            process = start(engine)
            if process is not None:
                stack.callback(process.close)
                processes.append(process)
        yield processes


def load(engine: Engine) -> dict[str, Any] | None:
    """Starts a process, ends it at once and returns the figures of its load; None if the engine cannot be used."""
    process = start(engine)
    if process is None:
        return None
    process.close()
    return process.ready
