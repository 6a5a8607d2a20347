"""Eager calls made again with arguments of the same form, which go straight to the compiled op."""

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
def nothing_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_cache, "CACHE", LRU(replay_cache.CAPACITY))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ops of which the arguments were looked at in full, one name a time."""
    names: list[str] = []
    whole = Op._bind

    def noted(self: Op, *given: Any) -> Any:
        names.append(self.name)
        return whole(self, *given)

    monkeypatch.setattr(Op, "_bind", noted)
    return names


def bits(result: Any) -> Any:
    """A result as data that can be compared, dtypes, shapes and signs of zeros included."""
    if isinstance(result, (list, tuple)):
        return type(result).__name__, [bits(each) for each in result]
    array = np.asarray(result)
    return str(array.dtype), array.shape, array.tolist() if array.dtype.hasobject else array.tobytes()


def tensor(seed: int, *shape: int) -> Any:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape, np.float32))


SAME: dict[str, Callable[[Any], Any]] = {
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


@pytest.mark.parametrize("call", SAME.values(), ids=SAME)
def test_the_third_call_of_a_form_goes_straight_to_the_compiled_op(
    call: Callable[[Any], Any], planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Its arguments are not looked at in full, its elements are those of its own tensors, its bits those of the long way.
    """
    inputs = [tensor(seed, 4, 4) for seed in range(4)]
    found = [bits(call(x)) for x in inputs[:2]]
    planned.clear()
    found.extend(bits(call(x)) for x in inputs[2:])
    assert planned == []

    monkeypatch.setattr(replay_cache, "signature_of", lambda *_: None)
    assert found == [bits(call(x)) for x in inputs]


APART: dict[str, list[Callable[[], Any]]] = {
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


@pytest.mark.parametrize("calls", APART.values(), ids=APART)
def test_what_differs_in_more_than_elements_is_told_apart(calls: list[Callable[[], Any]]) -> None:
    """
    Calls of one op in turn, often enough that each could be taken for another; also where a tensor's elements decide.
    """
    wanted = [bits(call()) for call in calls]
    assert len({str(each) for each in wanted}) == len(calls)
    for _ in range(3):
        assert [bits(call()) for call in calls] == wanted


def test_a_compiled_op_is_compiled_once_for_all_of_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Calls that differ in numbers among the operands share what was compiled for the first.
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
def test_errors_are_those_of_the_first_call(call: Callable[[Any], Any], good: Any, bad: Any) -> None:
    """
    Of the same type, in the same words; what is good still goes through.
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
    And are the same again after the seed is set again.
    """

    def draws() -> list[Any]:
        tf.random.set_seed(3)
        return [bits(tf.random.uniform([4]) + tf.nn.dropout(tf.ones([4]), rate=0.5)) for _ in range(4)]

    found = draws()
    assert len({str(each) for each in found}) == 4
    assert draws() == found


def test_graphs_and_functions_take_ops_that_were_met_eagerly() -> None:
    """
    In a graph, in a function while it is traced, and under scopes; and eagerly again afterwards.
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


def test_results_cannot_be_written() -> None:
    """
    Neither those of the first call nor those of later ones; numpy() gives a copy.
    """
    x = tf.constant([1.0, 2.0])
    for call in (lambda: x + x, lambda: tf.identity(x), lambda: tf.split(x, 2)[0]):
        for _ in range(4):
            result = call()
            assert not np.asarray(result).flags.writeable
            result.numpy()[:] = 9
            assert 9 not in np.asarray(result)


def test_a_call_that_no_form_tells_goes_the_long_way() -> None:
    """
    NumPy's arrays, whose elements may decide, long lists and long texts: nothing is kept of them.
    """
    for _ in range(3):
        tf.add(np.ones(3, np.float32), 1.0)
        tf.reduce_sum([1.0] * (replay_cache.MAX_PARTS + 1))
        tf.equal("a" * (replay_cache.MAX_PARTS + 1), "b")
    assert len(replay_cache.CACHE) == 0


def test_no_more_calls_are_known_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    However many numbers stand beside a tensor; a call made between all of them stays known.
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


def test_another_provider_of_matrix_products_is_used_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A product is compiled for the provider in force; other ops have nothing to do with it.
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


def test_threads_and_their_limits_change_nothing() -> None:
    """
    Several threads make the same new calls while limits change; every result has the bits of the first.
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


def test_recalled_calls_are_recorded_like_the_first() -> None:
    """
    A recording has their op, under its name.
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
def test_the_child_of_a_fork_makes_calls_that_its_parent_knew() -> None:
    """
    By the code that the parent compiled.
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


def test_what_is_met_once_is_not_learnt() -> None:
    """
    A form that never comes again costs its key alone.
    """
    x = tf.constant([1.0, 2.0])
    tf.square(x)
    form = replay_cache.signature_of("square", (x,), {}, [])
    assert replay_cache.CACHE.get(form) is Uncached.ONCE
    tf.square(x)
    assert isinstance(replay_cache.CACHE.get(form), replay_cache.CachedCall)
