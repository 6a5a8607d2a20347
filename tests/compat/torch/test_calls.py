"""Calls outside scripts: the second call with a signature runs the compiled code of the first."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from treadle.compat.torch import replay
from treadle.compat.torch.recording import Recording
from treadle.runtime.providers import Choice

X = torch.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the ops that were recorded since."""
    found: list[str] = []
    emit = Recording.emit

    def noted(self: Any, op: str, *rest: Any) -> Any:
        found.append(op)
        return emit(self, op, *rest)

    monkeypatch.setattr(Recording, "emit", noted)
    return found


def test_calls_with_a_known_signature_record_nothing(emitted: list[str]) -> None:
    """
    The second call of a function with one signature runs its compiled code; calls with others are recorded.
    """
    for number in (2.5, 0.0):
        torch.add(X, number)
    torch.clamp(X, min=0.0)
    emitted.clear()

    assert torch.add(X, 2.5).tolist() == (X.numpy() + 2.5).tolist()
    assert torch.clamp(X, min=0.0).tolist() == np.maximum(X.numpy(), 0).tolist()
    assert not emitted
    torch.add(X, 3.5)
    torch.add(X, -0.0)
    torch.add(X[:1], 2.5)
    assert emitted == ["add"] * 3


def test_products_are_compiled_again_for_another_provider(emitted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Calls with a matrix product are compiled for the current provider; other calls are not compiled again.
    """
    square = torch.rand(3, 3)
    for _ in range(2):
        torch.mm(square, square)
        torch.add(square, square)
    emitted.clear()
    monkeypatch.setattr(replay, "providers", SimpleNamespace(current=lambda: Choice("other", "a test")))
    torch.mm(square, square)
    torch.add(square, square)

    assert emitted == ["matmul"]


def test_results_that_depend_on_elements_are_computed_in_each_call() -> None:
    """
    Shapes, numbers and conditions that depend on elements are not taken from an earlier call.
    """
    for count in (1, 2, 3, 4):
        x = torch.from_numpy((np.arange(4) < count).astype(np.int64))
        assert torch.nonzero(x).shape == (count, 1)
        assert torch.masked_select(x, x > 0).tolist() == [1] * count
        assert F.one_hot(x * count).shape == (4, count + 1)
        assert torch.equal(x, torch.ones(4, dtype=torch.int64)) == (count == 4)
        assert x.clone().tolist() == x.tolist()
        assert x.contiguous().tolist() == x.tolist()


def test_results_do_not_share_memory() -> None:
    """
    Results of two equal calls share no memory; copies are copies, also of tensors that are not contiguous.
    """
    first, second = torch.add(X, 1), torch.add(X, 1)
    first.fill_(0)
    assert second.tolist() == (X.numpy() + 1).tolist()
    for x in (X, X.t(), X[:, ::2]):
        for _ in range(3):
            copy = x.clone()
            copy.fill_(7)
            assert x.contiguous().tolist() == x.tolist()
            assert torch.neg(x).tolist() == (-x.numpy()).tolist()


def test_a_trace_clones_the_argument_of_each_call() -> None:
    """
    A clone of an argument has the elements of the call's argument, not those of the example.
    """
    traced = torch.jit.trace(lambda x: x.clone() + 1, X)

    assert traced(-X).tolist() == (1 - X.numpy()).tolist()


def test_threads_call_one_function_concurrently() -> None:
    """
    Several threads use known and new signatures.
    """
    found: list[bool] = []

    def client(number: int) -> None:
        for size in range(1, 30):
            x = np.full((size % 7 + 1, number + 1), size, np.float32)
            y = torch.mul(torch.from_numpy(x), float(size % 3))
            found.append(np.array_equal(y.numpy(), x * np.float32(size % 3)))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()

    assert found == [True] * 116
