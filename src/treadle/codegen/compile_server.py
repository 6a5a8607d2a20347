"""The program of a child process that compiles: it does one request after another, until none comes for some seconds.

It imports what compiles when that is first asked for. To describe the CPU takes LLVM alone.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from treadle.runtime.interpreter import die_with

LINGER_SECONDS = 2.0
"""How long a child waits for the next request. It keeps the model of the last one, which a first run may need."""

DESCRIBE = "describe the CPU"
"""The message whose answer is the text of LLVM's description of the CPU."""

_LENGTH_BYTES = 8


class Request(NamedTuple):
    """What a child is to compile.

    Attributes:
        path: The model's file or folder; empty if its content is in a file whose descriptor comes along.
        key: The name of its artifact, which identifies the content.
        arguments: Those of the session.
        more: What to compile once the session is made, as `compile_more` takes it; None: nothing.
    """

    path: str
    key: str
    arguments: Mapping[str, Any]
    more: Mapping[str, Any] | None = None


def send(channel: socket.socket, message: Any, file: int | None = None) -> None:
    """Send `message`, and the descriptor `file` with it if it is given."""
    content = pickle.dumps(message)
    length = len(content).to_bytes(_LENGTH_BYTES, "little")
    socket.send_fds(channel, [length], [] if file is None else [file])
    channel.sendall(content)


def receive(channel: socket.socket) -> Any:
    """Return the next message; None at the end of the stream."""
    return _receive(channel)[0]


def _receive(channel: socket.socket) -> tuple[Any, int | None]:
    """Return the next message and the descriptor that came with it."""
    length, files, _, _ = socket.recv_fds(channel, _LENGTH_BYTES, 1)
    content = bytearray()
    size = int.from_bytes(length, "little")
    while len(content) < size:
        part = channel.recv(size - len(content))
        if not part:
            return None, None
        content += part
    # The content is from this program's own process.
    return pickle.loads(content) if length else None, files[0] if files else None  # noqa: S301


def main(channel: int, lifeline: int, compiler: str) -> None:
    """Serve the socket `channel`. The process ends with the last writer of the pipe `lifeline`.

    It exits without Python's finalization, which would take a tenth of a second. `compiler` is the name of the module
    that compiles.
    """
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; the child ends when the parent does
    for descriptor in (channel, lifeline):
        os.set_inheritable(descriptor, False)
    die_with(lifeline)
    with socket.socket(fileno=channel) as connection:
        server = _Server(connection, compiler)
        while select.select([connection], [], [], LINGER_SECONDS)[0]:
            message, file = _receive(connection)
            if message is None:
                break
            if message == DESCRIBE:
                server.describe()
            else:
                server.serve(message, file)
    os._exit(0)


class _Server:
    """Does requests, and keeps the session of the last one."""

    def __init__(self, connection: socket.socket, compiler: str) -> None:
        self._connection = connection
        self._name = compiler
        self._compiler: Any = None
        self._session: Any = None
        self._made: Request | None = None
        self._file: int | None = None

    def describe(self) -> None:
        """Answer with LLVM's description of the CPU."""
        from treadle.codegen.llvm_host import query_llvm

        send(self._connection, query_llvm().text())

    def serve(self, request: Request, file: int | None) -> None:
        """Do `request` and answer whether that succeeded; `file` is the descriptor of the model's content."""
        try:
            plain = request._replace(more=None)
            if request.more is None or self._made != plain:
                self._replace_session(plain, file)
            elif file is not None:
                os.close(file)
            if request.more is not None:
                self._compiler.compile_more(self._session, request.more)
        except BaseException:  # noqa: BLE001 - the parent compiles, and so gets the error
            send(self._connection, False)
        else:
            send(self._connection, True)
        if self._compiler is not None:
            self._compiler.release_heap()

    def _replace_session(self, request: Request, file: int | None) -> None:
        self._session = self._made = None
        if self._file is not None:
            os.close(self._file)
        self._file = file
        if self._compiler is None:
            self._compiler = import_module(self._name)
            gc.enable()
            gc.freeze()  # collections need not look at what modules hold
        path = request.path if file is None else f"/dev/fd/{file}"
        self._session = self._compiler.Session(
            path, matmul_provider="treadle", progress=self._report, **request.arguments
        )
        self._made = request

    def _report(self, done: int, total: int) -> None:
        send(self._connection, (done, total))
