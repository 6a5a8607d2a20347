"""Scripts called again: replayed while their guards hold, recorded again otherwise."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle.compat.torch as torch
from tests.compat.torch.calls import Recorded, warm
from treadle.compat.torch.jit import replays

X = torch.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
Y = torch.from_numpy(np.ones((2, 3), np.float32))
SCALE = 2.0
SETTINGS = SimpleNamespace(depth=2)


def chain(x, y, n: int = 3):
    for _ in range(n):
        x = torch.relu(x * SCALE + y)
    return x


def chained(x: np.ndarray, y: np.ndarray, n: int = 3, scale: float = 2.0) -> np.ndarray:
    for _ in range(n):
        x = np.maximum(x * np.float32(scale) + y, 0)
    return x


def test_two_calls_are_recorded_and_later_ones_replayed(recorded: Recorded) -> None:
    """
    With other elements too; every call returns a tensor of its own.
    """
    script = torch.jit.script(chain)
    results = [script(X, Y) for _ in range(5)]

    assert recorded.since() == 2
    assert len({each.data_ptr() for each in results}) == 5
    other = torch.rand(2, 3)
    assert np.array_equal(script(other, X).numpy(), chained(other.numpy(), X.numpy()))
    assert recorded.since() == 0


def test_other_signatures_are_recorded(recorded: Recorded) -> None:
    """
    Each combination of shapes, dtypes and numbers has its own replay, and keeps it.
    """
    script = torch.jit.script(chain)
    row, wide, strided = torch.ones(3), torch.rand(4, 3), torch.rand(3, 2).t()
    calls = [(X, Y), (X, row), (wide, wide), (X.double(), Y.double()), (X, Y, 1), (strided, Y)]
    for call in calls:
        warm(script, *call)

    assert recorded.since() == 2 * len(calls)
    for x, y, *n in calls:
        assert np.array_equal(script(x, y, *n).numpy(), chained(x.numpy(), y.numpy(), *n))
    assert recorded.since() == 0


def test_equal_arguments_and_distinct_ones_have_distinct_replays(recorded: Recorded) -> None:
    """
    A recording with one tensor passed twice is not replayed for two tensors, nor the other way round.
    """
    script = torch.jit.script(chain)
    warm(script, X, X)
    other = torch.rand(2, 3)

    assert np.array_equal(script(X, other).numpy(), chained(X.numpy(), other.numpy()))
    assert recorded.since() == 3


SCRIPT = torch.jit.script(chain)


class Steps(torch.nn.Module):
    steps = 2

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3, 3))
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])
        self.double = False
        self.sizes = [1, 2]
        self.act = torch.sigmoid

    def forward(self, x):
        for _ in range(self.steps):
            x = torch.mm(x, self.weight)
        for layer in self.layers:
            x = self.act(layer(x))
        if self.double:
            x = x * 2
        return x + sum(self.sizes)


CHANGES = {
    "a parameter is another one": lambda m: setattr(m, "weight", torch.nn.Parameter(torch.rand(3, 3))),
    "elements of a parameter": lambda m: m.weight.fill_(0.5),
    "a state that was loaded": lambda m: m.load_state_dict({n: t.numpy() * 2 for n, t in m.state_dict().items()}),
    "a flag": lambda m: setattr(m, "double", True),
    "a flag in the dictionary of attributes": lambda m: vars(m).update(double=True),
    "a number of the class": lambda m: setattr(Steps, "steps", 3),
    "a number of the instance before that of the class": lambda m: setattr(m, "steps", 1),
    "an entry of a list": lambda m: m.sizes.append(3),
    "a layer": lambda m: m.layers.append(torch.nn.Linear(3, 3)),
    "a layer's bias": lambda m: setattr(m.layers[0], "bias", None),
    "a function": lambda m: setattr(m, "act", torch.tanh),
    "the element type of the parameters": lambda m: m.to(torch.float64),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_attributes_of_a_module_may_change_between_calls(change: Callable[[Any], Any], monkeypatch: Any) -> None:
    """
    The script computes what the module itself computes, called op by op.
    """
    monkeypatch.setattr(Steps, "steps", 2)
    module = Steps()
    script = torch.jit.script(module)
    warm(script, X)
    change(module)
    x = X.to(module.weight.dtype)
    expected = module(x).numpy()

    for _ in range(4):
        np.testing.assert_allclose(script(x).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_flag_that_alternates_keeps_both_replays(recorded: Recorded) -> None:
    """
    Each value is recorded twice, and replayed from then on.
    """
    script = torch.jit.script(Steps())
    for number in range(8):
        script.double = bool(number % 2)
        script(X)
    assert recorded.since() <= 5
    for number in range(8):
        script.double = bool(number % 2)
        script(X)
    assert recorded.since() == 0


def test_globals_and_closures_may_change(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    They are guarded as attributes are.
    """
    shift, factors = 1.0, [2.0]

    def shifted(x):
        return chain(x, x, SETTINGS.depth) * factors[0] + shift

    script = torch.jit.script(shifted)
    warm(script, X)
    assert recorded.since() == 2
    x = X.numpy()

    assert np.array_equal(script(X).numpy(), chained(x, x, 2) * 2 + 1)
    monkeypatch.setattr(f"{__name__}.SCALE", 3.0)
    assert np.array_equal(script(X).numpy(), chained(x, x, 2, 3.0) * 2 + 1)
    monkeypatch.setattr(SETTINGS, "depth", 1)
    assert np.array_equal(script(X).numpy(), chained(x, x, 1, 3.0) * 2 + 1)
    factors[0], shift = 3.0, 2.0
    assert np.array_equal(script(X).numpy(), chained(x, x, 1, 3.0) * 3 + 2)


def branch(x, w):
    return torch.mm(x, w)


class Forks(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.rand(size, size))
        self.b = torch.nn.Parameter(torch.rand(size, size))

    def forward(self, x):
        futures = [torch.jit.fork(branch, x, w) for w in (self.a, self.b)]
        y = torch.softmax(torch.mm(x, x), 1)
        for future in futures:
            y = y + torch.jit.wait(future)
        return y


@pytest.mark.usefixtures("threads_as_before")
def test_replays_of_forks_are_bitwise_the_same_at_every_setting() -> None:
    """
    From several threads, while the settings change.
    """
    script = torch.jit.script(Forks(48))
    x = torch.rand(48, 48)
    expected = script(x).numpy()
    warm(script, x)
    found: list[bool] = []

    def client() -> None:
        found.extend(np.array_equal(script(x).numpy(), expected) for _ in range(30))

    clients = [threading.Thread(target=client) for _ in range(3)]
    for each in clients:
        each.start()
    for number in range(20):
        torch.set_num_threads(1 + number % 2)
        torch.set_num_interop_threads(1 + number // 2 % 2)
        clients[number % 3].join(0.001)
    for each in clients:
        each.join()

    assert found == [True] * 90


def test_threads_that_call_a_new_script_concurrently_agree() -> None:
    """
    Recording and replaying may overlap.
    """
    script = torch.jit.script(Steps())
    expected = torch.jit.script(script)(X).numpy()
    found: list[bool] = []
    start = threading.Barrier(4)

    def client() -> None:
        start.wait()
        found.extend(np.array_equal(script(X).numpy(), expected) for _ in range(20))

    clients = [threading.Thread(target=client) for _ in range(4)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()

    assert found == [True] * 80


def test_signatures_are_evicted_and_a_script_can_be_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The least recently used signature is dropped first; no cache keeps an unreferenced module alive.
    """
    monkeypatch.setattr(replays, "MOST_SIGNATURES", 4)
    script = torch.jit.script(Steps())
    for size in range(1, 8):
        warm(script, torch.rand(size, 3))
    assert len(script._replays._signatures) == 4
    gone = weakref.ref(script)
    del script
    gc.collect()

    assert gone() is None


def test_replaced_parameters_are_freed() -> None:
    """
    Replays do not keep weights that the module does not have any more.
    """
    script = torch.jit.script(Steps())
    warm(script, X)
    gone = weakref.ref(script.weight)
    script.weight = torch.nn.Parameter(torch.rand(3, 3))
    warm(script, X)
    gc.collect()

    assert gone() is None


def test_attributes_that_change_in_every_call_cost_few_attempts(recorded: Recorded) -> None:
    """
    Such calls are recorded each time, and tried as a replay only now and then.
    """
    script = torch.jit.script(Steps())
    for number in range(40):
        script.sizes = [number]
        assert script(X).shape == (2, 3)
    (signature,) = script._replays._signatures.values()

    assert recorded.since() == 40
    assert len(signature.variants) <= replays.MOST_VARIANTS


def test_exported_methods_and_frozen_modules_are_replayed(recorded: Recorded) -> None:
    """
    As forward is; a frozen copy has its own replays.
    """

    class Exports(Steps):
        @torch.jit.export
        def shifted(self, x):
            return self.forward(x) + 1

    script = torch.jit.script(Exports()).eval()
    expected = script.shifted(X).numpy()
    frozen = torch.jit.freeze(script)
    warm(script.shifted, X)
    warm(frozen, X)
    assert recorded.since() == 4
    script.weight.zero_()

    np.testing.assert_allclose(frozen(X).numpy() + 1, expected, rtol=1e-5)
    assert not np.allclose(script.shifted(X).numpy(), expected)


def test_copies_of_scripts_have_their_own_replays(recorded: Recorded) -> None:
    """
    Scripts can be copied and pickled, as functions can.
    """
    warm(SCRIPT, X, Y)
    recorded.since()
    for copied in (copy.deepcopy(SCRIPT), pickle.loads(pickle.dumps(SCRIPT))):
        assert np.array_equal(copied(X, Y).numpy(), SCRIPT(X, Y).numpy())
        assert recorded.since() == 1
