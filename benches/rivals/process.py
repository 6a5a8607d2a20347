"""An engine's process: asked by a line, answering by a line of JSON, and stopped while others are timed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class EngineProcess:
    """A running engine, whose pool of threads must not spin while it is not its turn."""

    name: str
    process: subprocess.Popen[str]

    def answer(self) -> Any:
        """The next line that is JSON: libraries print notices of their own. Raises RuntimeError if the process ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("{", "[")):
                return json.loads(line)
        raise RuntimeError(f"{self.name} ended with {self.process.wait()}")

    def first_answer(self) -> dict[str, Any] | None:
        """What it says when it is ready, after which it is stopped; None, said on stderr, if it cannot be used."""
        answer: dict[str, Any] = self.answer()
        if "missing" in answer:
            print(f"{self.name} is skipped: {answer['missing']}", file=sys.stderr)
            self.process.wait()
            return None
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def ask(self, question: str) -> Any:
        """Wake the process, give it a line, and stop it again when it has answered."""
        assert self.process.stdin is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def close(self) -> None:
        """Wake the process and let it end."""
        self.process.send_signal(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def open_process(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """A process whose input and output are lines of text."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
