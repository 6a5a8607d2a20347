"""Calls with TensorFlow's answers, recorded from TensorFlow 2.21. Where it is installed, it is asked again."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

import treadle.compat.tensorflow as ours

NUMBERS = (10.0, -7.0, -0.5)

CASES: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    ("leaky_relu of ints", lambda tf: tf.nn.leaky_relu(tf.constant([-5, -1, 0, 2]), 0.5), [-2.5, -0.5, 0.0, 2.0]),
    ("truncatediv", lambda tf: tf.truncatediv(tf.constant(NUMBERS), tf.constant([3.0, 2.0, 1.0])), [3.0, -3.0, -0.0]),
    ("truncatediv of ints", lambda tf: tf.truncatediv(tf.constant([7, -7]), tf.constant([2, 2])), [3, -3]),
    ("count_nonzero of text", lambda tf: tf.math.count_nonzero(tf.constant(["", "a", ""])), 1),
    ("count_nonzero along an axis", lambda tf: tf.math.count_nonzero(tf.constant([[0, 3], [2, 1]]), axis=0), [1, 2]),
    ("NULs at the end of text", lambda tf: tf.constant([b"a\0", b"\0", b"b"]), [b"a\0", b"\0", b"b"]),
    ("NULs at the end of one text", lambda tf: tf.constant("a\0"), b"a\0"),
    ("NULs in a graph", lambda tf: tf.function(lambda x: tf.concat([x, [b"c\0"]], 0))(tf.constant([b"a\0"])),
     [b"a\0", b"c\0"]),
    ("divide_no_nan of ints", lambda tf: tf.math.divide_no_nan(tf.constant([1, 3]), tf.constant([0, 2])), [0.0, 1.5]),
    ("divide_no_nan", lambda tf: tf.math.divide_no_nan(tf.constant([1.0, 3.0]), tf.constant([0.0, 2.0])), [0.0, 1.5]),
    ("switch_case of pairs",
     lambda tf: tf.switch_case(tf.constant(1), [(1, lambda: tf.constant(5)), (0, lambda: tf.constant(8))]), 5),
    ("gather with two batch axes",
     lambda tf: tf.gather(_grid(tf), tf.constant([[[0], [1], [2]], [[3], [0], [1]]]), batch_dims=2),
     [[[0], [5], [10]], [[15], [16], [21]]]),
    ("gather with a batch axis, further on",
     lambda tf: tf.gather(_grid(tf), tf.constant([[0, 1], [2, 3]]), batch_dims=1, axis=2),
     [[[0, 1], [4, 5], [8, 9]], [[14, 15], [18, 19], [22, 23]]]),
    ("gather with a negative batch axis",
     lambda tf: tf.gather(_grid(tf), tf.constant([[0, 1], [2, 0]]), batch_dims=-1),
     [[[0, 1], [4, 5], [8, 9]], [[14, 12], [18, 16], [22, 20]]]),
    ("meshgrid of matrices", lambda tf: tf.meshgrid(tf.constant([[1, 2], [3, 4]]), tf.constant([5, 6])),
     [[[1, 2, 3, 4], [1, 2, 3, 4]], [[5, 5, 5, 5], [6, 6, 6, 6]]]),
    ("expand_dims with a list", lambda tf: tf.expand_dims(tf.constant([1, 2]), axis=[0]), [[1, 2]]),
    ("swish with beta", lambda tf: tf.nn.swish(tf.constant([0.0, 100.0]), beta=2.0), [0.0, 100.0]),
    ("matmul with output_type",
     lambda tf: tf.matmul(tf.constant([[100, 100]], tf.int8), tf.constant([[3], [4]], tf.int8), output_type=tf.int32),
     [[700]]),
    ("uniform with bounds of a graph", lambda tf: tf.function(lambda a: tf.random.uniform([3], a, a + 1, tf.int32))(
        tf.constant(7)), [7, 7, 7]),
    ("dropout that shares places", lambda tf: tf.reduce_max(_dropped(tf), 1) - tf.reduce_min(_dropped(tf), 1),
     [0.0] * 9),
    ("DType.is_complex", lambda tf: tf.float32.is_complex, False),
    ("ConfigProto in bytes", lambda tf: _configured(tf).SerializeToString(), b"\x10\x03"),
    ("ConfigProto as text", lambda tf: str(_configured(tf)), "intra_op_parallelism_threads: 3\n"),
    ("fields that are set", lambda tf: [_configured(tf).HasField(name) for name in ("gpu_options", "graph_options")],
     [False, False]),
    ("the name of a message", lambda tf: tf.compat.v1.RunOptions.DESCRIPTOR.full_name, "tensorflow.RunOptions"),
)  # fmt: skip


def _grid(tf: Any) -> Any:
    return tf.reshape(tf.range(24), [2, 3, 4])


def _dropped(tf: Any) -> Any:
    tf.random.set_seed(3)
    return tf.nn.dropout(tf.ones([9, 4]), 0.5, noise_shape=[9, 1], seed=5)


def _configured(tf: Any) -> Any:
    return tf.compat.v1.ConfigProto(intra_op_parallelism_threads=3)


def _plain(tf: Any, found: Any) -> Any:
    def plain(leaf: Any) -> Any:
        value = leaf.numpy() if hasattr(leaf, "numpy") else leaf
        return value.tolist() if hasattr(value, "tolist") else value

    return tf.nest.map_structure(plain, found)


@pytest.mark.parametrize(("call", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_answers_are_those_of_tensorflow(call: Callable[[Any], Any], wanted: Any) -> None:
    assert _plain(ours, call(ours)) == wanted
    if importlib.util.find_spec("tensorflow") is not None:
        import tensorflow as tf  # type: ignore[import-not-found]

        assert _plain(tf, call(tf)) == wanted


def test_a_config_comes_back_from_bytes_and_text() -> None:
    given = ours.compat.v1.ConfigProto(device_count={"CPU": 2}, operation_timeout_in_ms=1 << 40)
    given.session_inter_op_thread_pool.add(num_threads=2, global_name="shared")
    given.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    given.graph_options.optimizer_options.opt_level = ours.compat.v1.OptimizerOptions.L0
    read = ours.compat.v1.ConfigProto()
    read.ParseFromString(given.SerializeToString())
    assert read == given
    assert read.HasField("experimental")
    assert not read.HasField("gpu_options")
    assert "shared" in str(read)


@ours.function
def first_true(a: Any, *, exclusive: bool = False) -> Any:
    return ours.case([(a > 1, lambda: ours.constant(1)), (a > 2, lambda: ours.constant(2))], exclusive=exclusive)


def test_a_case_without_a_default_wants_a_true_predicate() -> None:
    never = ours.constant(False)
    assert int(first_true(ours.constant(3))) == 1
    with pytest.raises(ours.errors.InvalidArgumentError, match="None of the conditions"):
        first_true(ours.constant(0))
    with pytest.raises(ours.errors.InvalidArgumentError, match="None of the conditions"):
        ours.case([(never, lambda: ours.constant(1)), (never, lambda: ours.constant(2))])


def test_the_numbers_of_a_switch_are_checked() -> None:
    with pytest.raises(ValueError, match=r"contiguous range of .0 to 2. but found .3,7."):
        ours.switch_case(ours.constant(1), {3: lambda: ours.constant(1), 7: lambda: ours.constant(2)})


def test_an_exclusive_case_wants_one_true_predicate() -> None:
    assert int(first_true(ours.constant(2), exclusive=True)) == 1
    with pytest.raises(ours.errors.InvalidArgumentError, match="More than one condition"):
        first_true(ours.constant(3), exclusive=True)


@ours.function(input_signature=[ours.TensorSpec([None], ours.float32)])
def scaled(a: Any, by: float = 2.0, *, more: float = 1.0) -> Any:
    return a * by + more


def test_parameters_beyond_the_input_signature_keep_their_defaults() -> None:
    x = ours.constant([1.0, 2.0])
    assert scaled(x).numpy().tolist() == scaled(a=x).numpy().tolist() == scaled(x, 2.0).numpy().tolist() == [3.0, 5.0]
    assert scaled.get_concrete_function()(x).numpy().tolist() == [3.0, 5.0]
    for name, call in {"by": lambda: scaled(x, 3.0), "more": lambda: scaled(x, more=2.0)}.items():
        with pytest.raises(TypeError, match=f"no TensorSpec for '{name}'"):
            call()
    one_too_many = ours.function(lambda x: x, input_signature=[ours.TensorSpec([], ours.int32)] * 2)
    with pytest.raises(TypeError, match=r"too many positional|describes 2"):
        one_too_many(x, x)


def test_visible_devices_are_checked() -> None:
    (cpu,) = ours.config.experimental.list_physical_devices("CPU")
    ours.config.set_visible_devices([], "GPU")
    ours.config.set_visible_devices(cpu, "CPU")
    assert ours.config.get_visible_devices() == [cpu]
    with pytest.raises(ValueError, match="cannot be hidden"):
        ours.config.set_visible_devices([], "CPU")
    with pytest.raises(ValueError, match="Unrecognized"):
        ours.config.set_visible_devices(["/physical_device:GPU:0"])
    with pytest.raises(ValueError, match="no GPU"):
        ours.config.experimental.set_memory_growth(cpu, True)
