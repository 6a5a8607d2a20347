"""Eager calls with a cached signature, which go straight to the compiled op."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle
import treadle.compat.tensorflow as tf
from treadle.compat.calls import Uncached
from treadle.compat.tensorflow import eager, replay_cache
from treadle.compat.tensorflow.api import Op
from treadle.lru import LRU
from treadle.tracing.record import record


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_cache, "CACHE", LRU(replay_cache.CAPACITY))


@pytest.fixture
def bound_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the ops whose arguments were bound, one for each call."""
    names: list[str] = []
    bind = Op._bind

    def recorded(self: Op, *given: Any) -> Any:
        names.append(self.name)
        return bind(self, *given)

    monkeypatch.setattr(Op, "_bind", recorded)
    return names


def bits(result: Any) -> Any:
    """Return a result as data for comparison, with dtypes, shapes and signs of zeros."""
    if isinstance(result, (list, tuple)):
        return type(result).__name__, [bits(each) for each in result]
    array = np.asarray(result)
    return str(array.dtype), array.shape, array.tolist() if array.dtype.hasobject else array.tobytes()


def tensor(seed: int, *shape: int) -> Any:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape, np.float32))


REPLAYABLE: dict[str, Callable[[Any], Any]] = {
    "two tensors": lambda x: x + tensor(7, 4, 4),
    "one tensor twice": lambda x: x - x,
    "a number": lambda x: x * 2.5,
    "a number first": lambda x: 1 - x,
    "a variable": lambda x: tf.matmul(x, tf.Variable(tensor(8, 4, 4))),
    "parameters by name, in another order": lambda x: tf.subtract(y=x, x=tensor(7, 4, 4)),
    "TensorFlow 1's names": lambda x: tf.reduce_sum(x, keep_dims=True, reduction_indices=[0]),
    "a name": lambda x: tf.add(x, x, "sum"),
    "a list of tensors": lambda x: tf.concat([x, tensor(7, 4, 4)], 1),
    "a shape": lambda x: tf.reshape(x, [2, -1]),
    "a shape of a tensor": lambda x: tf.reshape(x, tensor(7, 2, 8).shape),
    "a dtype": lambda x: tf.cast(x, tf.int32),
    "a position": lambda x: x[1],
    "slices": lambda x: x[1:, ::2, None],
    "several results": lambda x: tf.split(x, 2, axis=1),
    "results with names": lambda x: tf.math.top_k(x, k=2),
    "a size that elements tell": lambda x: tf.boolean_mask(x, x > 0),
    "no tensor": lambda _: tf.range(3, 9, 2),
}


@pytest.mark.parametrize("call", REPLAYABLE.values(), ids=REPLAYABLE)
def test_the_third_call_with_a_signature_is_replayed(
    call: Callable[[Any], Any], bound_calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Its arguments are not bound again; its result is that of its own tensors, with the same bits.
    """
    inputs = [tensor(seed, 4, 4) for seed in range(4)]
    found = [bits(call(x)) for x in inputs[:2]]
    bound_calls.clear()
    found.extend(bits(call(x)) for x in inputs[2:])
    assert bound_calls == []

    monkeypatch.setattr(replay_cache, "signature_of", lambda *_: None)
    assert found == [bits(call(x)) for x in inputs]


DIFFERENT_SIGNATURES: dict[str, list[Callable[[], Any]]] = {
    "dtypes": [lambda t=t: tf.add(tf.constant([1, 2], t), 1) for t in ("float32", "int32", "float64", "int64")],
    "shapes": [lambda s=s: tf.ones(s) + tf.ones([2, 1]) for s in ([2, 2], [4], [3, 1, 1])],
    "attributes": [lambda a=a: tf.reduce_sum(tf.constant([[1.0, 2.0], [3.0, 4.0]]), axis=a) for a in (0, 1, None)],
    "signs of zero": [lambda z=z: tf.constant([1.0, -1.0]) * z for z in (0.0, -0.0)],
    "numbers of two types": [lambda n=n: tf.constant(n) for n in (1, 1.0, True)],
    "which parameter": [
        lambda: tf.subtract(x=tf.constant(5.0), y=tf.constant(3.0)),
        lambda: tf.subtract(y=tf.constant(5.0), x=tf.constant(3.0)),
    ],
    "elements of shapes": [lambda s=s: tf.reshape(tf.range(6), tf.constant(s)) for s in ([2, 3], [3, 2], [6, 1])],
    "elements of attributes": [lambda a=a: tf.reduce_sum(tf.ones([2, 3]), axis=tf.constant(a)) for a in (0, 1)],
    "tensors in a list of numbers": [lambda n=n: tf.add([tf.constant(n), 2.0], 1.0) for n in (1.0, 5.0)],
    "positions": [lambda i=i: tf.constant([1, 2, 3])[tf.constant(i)] for i in (0, 1, 2)],
}  # fmt: skip


@pytest.mark.parametrize("calls", DIFFERENT_SIGNATURES.values(), ids=DIFFERENT_SIGNATURES)
def test_calls_that_differ_in_more_than_elements_have_other_signatures(calls: list[Callable[[], Any]]) -> None:
    """
    Calls of one op alternate, often enough to be replayed; in some the elements of a tensor decide the result.
    """
    wanted = [bits(call()) for call in calls]
    assert len({str(each) for each in wanted}) == len(calls)
    for _ in range(3):
        assert [bits(call()) for call in calls] == wanted


def test_calls_share_a_compiled_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Calls that differ in a number among the operands use the code compiled for the first.
    """
    x = tensor(1, 3)
    tf.multiply(x, 0.5)
    monkeypatch.setattr(eager, "Session", None)

    for factor in (0.25, 0.75):
        for _ in range(3):
            np.testing.assert_array_equal(tf.multiply(x, factor), np.asarray(x) * np.float32(factor))


def test_variables_are_read_at_each_call() -> None:
    """
    After an assignment, and when the value has another shape.
    """
    v = tf.Variable([1.0, 2.0], shape=tf.TensorShape(None))
    for turn in range(4):
        np.testing.assert_array_equal(v + 1.0, [turn + 2.0, turn + 3.0])
        v.assign_add([1.0, 1.0])
    v.assign([[7.0]])
    assert bits(v + 1.0) == bits(tf.constant([[8.0]]))


ERRORS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "when it runs": (lambda i: tf.gather(tf.constant([1.0, 2.0]), i), [0, 1], [0, 9]),
    "when its shapes are known": (lambda x: tf.matmul(x, tf.ones([2, 2])), [[1.0, 2.0]], [[1.0, 2.0, 3.0]]),
    "when dtypes are": (lambda x: x + tf.constant([1.0]), [1.0], [1]),
}


@pytest.mark.parametrize(("call", "good", "bad"), ERRORS.values(), ids=ERRORS)
def test_replayed_calls_raise_the_same_errors(call: Callable[[Any], Any], good: Any, bad: Any) -> None:
    """
    They have the same type and message; valid calls still work.
    """

    def fault() -> tuple[type[Exception], str]:
        with pytest.raises(tf.errors.OpError) as caught:
            call(tf.constant(bad))
        return caught.type, str(caught.value)

    first = fault()
    wanted = bits(call(tf.constant(good)))
    for _ in range(3):
        assert bits(call(tf.constant(good))) == wanted
        assert fault() == first


def test_random_numbers_are_drawn_at_each_call() -> None:
    """
    Setting the seed restarts the sequence.
    """

    def draws() -> list[Any]:
        tf.random.set_seed(3)
        return [bits(tf.random.uniform([4]) + tf.nn.dropout(tf.ones([4]), rate=0.5)) for _ in range(4)]

    found = draws()
    assert len({str(each) for each in found}) == 4
    assert draws() == found


def test_cached_eager_ops_work_in_graphs_and_functions() -> None:
    """
    In a graph, in a function while it is traced, in scopes, and eagerly again afterwards.
    """
    x = tf.constant([1.0, 2.0])
    for _ in range(3):
        with tf.name_scope("outer"), tf.device("/CPU:0"):
            assert bits(tf.add(x, x)) == bits(tf.constant([2.0, 4.0]))
    traced: list[Any] = []

    @tf.function
    def twice(value: Any) -> Any:
        traced.append(tf.add(x, x))
        return tf.add(value, value)

    with tf.Graph().as_default() as graph, tf.name_scope("scope"):
        assert tf.add(x, x).name == "scope/Add:0"
        assert graph.get_operations()
    assert bits(twice(x)) == bits(tf.add(x, x)) == bits(tf.constant([2.0, 4.0]))
    assert isinstance(traced[0], tf.Tensor)
    assert not hasattr(traced[0], "numpy")


def test_results_are_read_only() -> None:
    """
    Those of first and of replayed calls; numpy() returns a copy.
    """
    x = tf.constant([1.0, 2.0])
    for call in (lambda: x + x, lambda: tf.identity(x), lambda: tf.split(x, 2)[0]):
        for _ in range(4):
            result = call()
            assert not np.asarray(result).flags.writeable
            result.numpy()[:] = 9
            assert 9 not in np.asarray(result)


def test_calls_without_a_signature_are_not_cached() -> None:
    """
    NumPy arrays, whose elements may decide the result, long lists and long texts.
    """
    for _ in range(3):
        tf.add(np.ones(3, np.float32), 1.0)
        tf.reduce_sum([1.0] * (replay_cache.MAX_PARTS + 1))
        tf.equal("a" * (replay_cache.MAX_PARTS + 1), "b")
    assert len(replay_cache.CACHE) == 0


def test_the_cache_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It holds however many numbers are used with a tensor; a call made in between stays cached.
    """
    monkeypatch.setattr(replay_cache, "CACHE", LRU(20))
    x = tf.constant([1.0, 2.0])
    for number in range(100):
        assert bits(x + number) == bits(tf.constant([1.0 + number, 2.0 + number]))
        tf.square(x)
        assert len(replay_cache.CACHE) <= 20
    assert isinstance(
        replay_cache.CACHE.get(replay_cache.signature_of("square", (x,), {}, [])), replay_cache.CachedCall
    )


def test_a_change_of_provider_takes_effect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A product is compiled for the current provider; other ops do not depend on it.
    """
    x = tensor(1, 4, 4)
    calls = {"matmul": (x, x), "add": (x, x)}
    known = {}
    for op, args in calls.items():
        for _ in range(2):
            getattr(tf, op)(*args)
        known[op] = replay_cache.CACHE.get(replay_cache.signature_of(op, args, {}, []))
    assert all(isinstance(call, replay_cache.CachedCall) and call.fits() for call in known.values())
    chosen = replay_cache.providers.Choice("another", "test")
    monkeypatch.setattr(replay_cache.providers, "current", lambda: chosen)
    assert not known["matmul"].fits()
    assert known["add"].fits()


def test_results_do_not_depend_on_threads() -> None:
    """
    Several threads make the same new calls while limits change; all results have the same bits.
    """
    x = tensor(1, 96, 96)
    wanted = bits(tf.nn.softmax(tf.matmul(x, x)))
    wrong: list[Any] = []

    def client() -> None:
        for turn in range(20):
            found = bits(tf.nn.softmax(tf.matmul(x, x)))
            wrong.extend([found] if found != wanted else [])
            treadle.threads.set(intra_op=1 + turn % 2, inter_op=1 + turn // 2 % 2)

    clients = [threading.Thread(target=client) for _ in range(3)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert not wrong


def test_replayed_calls_are_traced() -> None:
    """
    A recording shows their op under its name.
    """
    x = tf.constant([1.0, 2.0])
    seen = []
    for _ in range(4):
        with record() as recording:
            tf.add(x, x)
        seen.append({(event.node, event.op) for event in recording.events})
    assert seen == [seen[0]] * 4
    assert seen[0]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python's, from 3.12 on, where there are threads
def test_the_child_of_a_fork_replays_calls_of_its_parent() -> None:
    """
    It uses the code that the parent compiled.
    """
    x = tf.constant([1.0, 2.0])
    for _ in range(3):
        x + x
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        status = 1
        try:
            status = 0 if bits(x + x) == bits(tf.constant([2.0, 4.0])) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_signature_seen_once_is_not_cached() -> None:
    """
    It costs the memory of its key only.
    """
    x = tf.constant([1.0, 2.0])
    tf.square(x)
    form = replay_cache.signature_of("square", (x,), {}, [])
    assert replay_cache.CACHE.get(form) is Uncached.ONCE
    tf.square(x)
    assert isinstance(replay_cache.CACHE.get(form), replay_cache.CachedCall)
