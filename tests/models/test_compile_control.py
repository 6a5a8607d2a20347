"""Runs that have to end while they compile."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle
from tests.models import small
from treadle.codegen import compiler
from treadle.errors import RunCancelledError, RunTimeoutError
from treadle.passes.fold_constants import FoldConstants

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


WANTED = ["tanh", "cos"]

_lengths = itertools.count(1)


def session() -> treadle.Session:
    """Two chains, of whose steps each is an output: for `WANTED` alone there are two other kernels.

    Chains are longer from one session to the next, so that no kernel is linked yet.
    """
    length = next(_lengths)
    nodes = [small.node("Exp", ["x"], "exp0"), small.node("Neg", ["x"], "sin0")]
    for i in range(length):
        nodes.append(small.node("Sigmoid", [f"exp{i}"], f"exp{i + 1}"))
        nodes.append(small.node("Sin", [f"sin{i}"], f"sin{i + 1}"))
    nodes.append(small.node("Tanh", [f"exp{length}"], "tanh"))
    nodes.append(small.node("Cos", [f"sin{length}"], "cos"))
    writer = small.ModelWriter()
    writer.nodes.extend(nodes)
    outputs = ("exp0", "tanh", "sin0", "cos")
    return treadle.Session(
        writer.model({"x": (small.FLOAT, [4, 3])}, {name: (small.FLOAT, [4, 3]) for name in outputs})
    )


def _before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[], None]) -> list[str]:
    """Calls `act` before each call of a function; returns the list that names the calls."""
    function, calls = getattr(owner, name), []

    def wrapped(*arguments: Any, **named: Any) -> Any:
        calls.append(name)
        act()
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, wrapped)
    return calls


@pytest.mark.parametrize(("owner", "name"), [(FoldConstants, "run"), (compiler, "emit_ir")])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_token_ends_a_run_that_compiles(owner: Any, name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    At the next pass or kernel; the next run compiles and is right.
    """
    monkeypatch.setenv("TREADLE_CACHE", "off")
    with treadle.threads.limit(intra_op=threads, inter_op=threads):
        tested = session()
        token = treadle.CancelToken()
        with monkeypatch.context() as patched:
            calls = _before(patched, owner, name, token.cancel)
            with pytest.raises(RunCancelledError):
                tested.run({"x": X}, WANTED, cancel=token)

        assert calls == [name]
        found, every = tested.run({"x": X}, WANTED), tested.run({"x": X})
        assert [found[name].tobytes() for name in WANTED] == [every[name].tobytes() for name in WANTED]


def test_a_timeout_includes_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A pass that takes longer is the last.
    """
    monkeypatch.setenv("TREADLE_CACHE", "off")
    tested = session()
    with monkeypatch.context() as patched:
        calls = _before(patched, FoldConstants, "run", lambda: time.sleep(1.5))
        with pytest.raises(RunTimeoutError, match="compiling and waiting its turn included"):
            tested.run({"x": X}, WANTED, timeout=1.0)

    assert len(calls) == 1
    assert list(tested.run({"x": X}, WANTED, timeout=600)) == WANTED


def test_a_run_does_not_wait_for_the_compile_of_another_beyond_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The other goes on.
    """
    monkeypatch.setenv("TREADLE_CACHE", "off")
    tested = session()
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        go_on.wait(60)

    with monkeypatch.context() as patched:
        _before(patched, FoldConstants, "run", wait)
        other = threading.Thread(target=tested.run, args=({"x": X}, WANTED))
        other.start()
        inside.wait(60)
        with pytest.raises(RunTimeoutError):
            tested.run({"x": X}, WANTED, timeout=0.1)
        go_on.set()
        other.join()
