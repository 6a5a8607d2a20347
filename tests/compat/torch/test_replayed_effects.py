"""Effects of script calls other than new tensors: writes, shared results, exceptions, Python side effects."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import treadle
import treadle.compat.torch as torch
from tests.compat.torch.calls import Recorded, warm

X = torch.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
Y = torch.from_numpy(np.ones((2, 3), np.float32))
LAST: list[float] = []


def filled(x):
    out = torch.zeros(2, 3)
    for row in range(2):
        out[row] += x[row] * 2
    return out


class Remembers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x, at: int = 0):
        self.total[at] += x[0]
        return self.total * 2


def written(x, y):
    x.mul_(2)
    return x + y


def test_writes_are_replayed(recorded: Recorded) -> None:
    """
    Into the script's own tensors, into buffers and into arguments.
    """
    fills, remembers, writes = torch.jit.script(filled), torch.jit.script(Remembers()), torch.jit.script(written)
    for number in range(1, 6):
        found = fills(X)
        assert found.tolist() == (X.numpy() * 2).tolist()
        found.fill_(7)
        assert remembers(X)[0].tolist() == (X.numpy()[0] * 2 * number).tolist()
        assert remembers.total[0].tolist() == (X.numpy()[0] * number).tolist()
        x = X.clone()
        assert writes(x, Y).tolist() == (X.numpy() * 2 + 1).tolist()
        assert x.tolist() == (X.numpy() * 2).tolist()

    assert recorded.since() == 6


def test_writes_are_visible_in_arguments_that_share_memory(recorded: Recorded) -> None:
    """
    Such a call is not replayed, nor is one that writes to read-only memory.
    """
    script = torch.jit.script(written)
    warm(script, X.clone(), Y)
    recorded.since()
    array = X.numpy().copy()

    assert script(torch.from_numpy(array), torch.from_numpy(array)).tolist() == (X.numpy() * 4).tolist()
    locked = X.numpy().copy()
    locked.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        script(torch.from_numpy(locked), Y)
    assert recorded.since() == 2


def by_elements(x):
    return x + 1 if x.sum() > 0 else x - 1


def by_number(x):
    return x * x[0, 0].item()


def random(x):
    return x + torch.rand(2, 3)


def writes_aside(x):
    LAST.append(x.shape[0])
    return x * len(LAST)


class Counts(torch.nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def prints(x):
    print("called")  # noqa: T201
    return x + 1


NOT_REPLAYED = {
    "elements decide": torch.jit.script(by_elements),
    "an element is read": torch.jit.script(by_number),
    "random numbers": torch.jit.script(random),
    "a list outside grows": torch.jit.script(writes_aside),
    "an attribute is written": torch.jit.script(Counts()),
    "something is printed": torch.jit.script(prints),
}


@pytest.mark.parametrize("name", NOT_REPLAYED)
def test_calls_with_effects_that_a_replay_omits_are_recorded(name: str, recorded: Recorded, capsys: Any) -> None:
    """
    Control flow on elements, random numbers, and Python side effects happen in each call.
    """
    script = NOT_REPLAYED[name]
    results = [script(X).numpy() for _ in range(5)]

    assert recorded.since() == 5
    if name in ("random numbers", "a list outside grows", "an attribute is written"):
        assert not any(np.array_equal(a, b) for a, b in itertools.pairwise(results))
    assert capsys.readouterr().out.count("called") == (5 if name == "something is printed" else 0)
    assert script(-X).shape == (2, 3)


def test_control_flow_on_elements_follows_the_elements() -> None:
    """
    Also after many calls that took the other branch.
    """
    script = torch.jit.script(by_elements)
    for _ in range(4):
        script(X)

    assert script(X).tolist() == (X.numpy() + 1).tolist()
    assert script(-X).tolist() == (-X.numpy() - 1).tolist()


def appends(x, found: list[torch.Tensor]):
    found.append(x * 2)
    return x, found


def test_lists_passed_as_arguments_are_the_scripts_own_in_each_call() -> None:
    """
    As in PyTorch, a script fills a list of its own, which it may return; the caller's stays as it is.
    """
    script = torch.jit.script(appends)
    for _ in range(5):
        given: list[torch.Tensor] = []
        _, found = script(X, given)
        assert given == []
        assert [each.tolist() for each in found] == [(X.numpy() * 2).tolist()]


def gives(x, xs: list[torch.Tensor]):
    y = x + 1
    return y, y, x, xs[0], {"y": (y, [x * 2]), "n": x.shape[0]}, torch.zeros(2), math.pi


def test_results_keep_structure_and_identity() -> None:
    """
    One tensor returned twice stays one; a returned argument is the argument; new tensors are new in each call.
    """
    script = torch.jit.script(gives)
    other = torch.rand(2)
    results = [script(X, [other]) for _ in range(5)]
    for y, again, x, first, named, zeros, pi in results:
        assert y is again
        assert named["y"][0] is y
        assert x is X
        assert first is other
        assert named["n"] == 2
        assert pi == math.pi
        assert zeros.tolist() == [0.0, 0.0]
        np.testing.assert_array_equal(named["y"][1][0].numpy(), X.numpy() * 2)
        zeros.fill_(5)
        named["y"][1].append(X)


def fails(x, y):
    return torch.mm(x, y)


def caught(x):
    future = torch.jit.fork(fails, x, x)
    try:
        y = torch.jit.wait(future)
    except RuntimeError:
        y = x * 2
    return y


def rows(x, index):
    return torch.index_select(x, 0, index) * 2


def test_exceptions_are_raised_in_every_call() -> None:
    """
    Python's exceptions, caught or not; those of kernels from replays as from the first call.
    """
    script, catches, selects = (torch.jit.script(each) for each in (fails, caught, rows))
    for _ in range(4):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            script(X, X)
        assert np.array_equal(catches(X).numpy(), X.numpy() * 2)
        assert selects(X, torch.tensor([1])).tolist() == [[2.0, 4.0, 6.0]]
        with pytest.raises(treadle.errors.TreadleError, match="index_select"):
            selects(X, torch.tensor([7]))
