"""Random tensors. Each op has a NumPy Philox generator of its own."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle import forking
from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.convert import constant_in, convert_to_tensor, frozen
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.dtypes import as_dtype
from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.state import EAGER, Store
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor
from treadle.frontends.tensorflow.rules.shape import zeros
from treadle.ops.op import Array, Info


class _Eager:
    """Eager execution: the number of ops without a seed of their own, and the generators of ops with one."""

    def __init__(self) -> None:
        self.count = 0
        self.generators: dict[Any, np.random.Generator] = {}
        self.lock = forking.lock()


_eager = _Eager()


def set_seed(seed: int | None) -> None:
    """Set the seed of the current graph, or of eager execution. See tf.random.set_seed in TensorFlow's documentation.

    The seed of eager execution is also that of functions traced later. Setting it restarts all of its generators.

    Args:
        seed: the seed; None for different numbers every time.
    """
    graph = context.current_graph()
    if graph is not None:
        graph.seed = seed
        return
    context.set_process_seed(seed)
    with _eager.lock:
        _eager.count = 0
        _eager.generators.clear()
        EAGER.generators.clear()


def _combined_seed(graph_seed: int | None, seed: int | None, name: str) -> int | None:
    """Return the seed of an op from its own and its graph's; None if it has neither.

    Without its own, its name counts.
    """
    if graph_seed is None and seed is None:
        return None
    own = zlib.crc32(name.encode()) if seed is None else seed
    return ((graph_seed or 0) & 0xFFFFFFFF) << 32 | own & 0xFFFFFFFF


def _random(
    kind: str,
    shape: Any,
    dtype: Any,
    seed: int | None,
    name: str | None,
    draw: Callable[..., Array],
    parameters: Sequence[Any] = (),
) -> Any:
    """Return numbers that `draw` makes of a generator, the shape and the parameters of the distribution."""
    where, *given = [convert_to_tensor(shape, dtype_hint="int32"), *map(_number_or_tensor, parameters)]
    element = as_dtype(dtype).core
    graph = next((each.graph for each in (where, *given) if isinstance(each, Tensor)), None)
    if graph is None:
        with _eager.lock:
            sizes = tuple(np.asarray(where).reshape(-1))
            found = draw(_eager_generator(kind, seed), sizes, *map(np.asarray, given))
        return EagerTensor(frozen(found.astype(element.numpy)))

    def emit(e: Any, values: Any) -> Any:
        dims = tuple(e.numbers(values[0]))
        return e.python(op, values[1:], lambda run, arrays: [_draw(run.store, op, seed, draw, dims, arrays)], dims)

    inputs = [
        each if isinstance(each, Tensor) else constant_in(graph, frozen(np.asarray(each))) for each in (where, *given)
    ]
    infos = graph.describer.results(kind, lambda e, values: zeros(e, values[0], element), [inputs[0].info])
    outputs = infos or [Info(element, None)]
    op = graph.create_op(kind, inputs, emit, name, outputs=outputs, attrs={"seed": seed})
    return op.outputs[0]


def _number_or_tensor(value: Any) -> Any:
    """Return a parameter of a distribution; numbers keep their precision."""
    return np.asarray(value) if isinstance(value, (int, float, np.generic)) else convert_to_tensor(value)


def _eager_generator(kind: str, seed: int | None) -> np.random.Generator:
    """Return a new generator for an op without a seed, or the one of the seed, which continues from call to call."""
    if seed is None:
        _eager.count += 1
        return np.random.Generator(
            np.random.Philox(_combined_seed(context.process_seed(), None, f"{kind}_{_eager.count}"))
        )
    key = kind, seed
    if key not in _eager.generators:
        _eager.generators[key] = np.random.Generator(
            np.random.Philox(_combined_seed(context.process_seed(), seed, kind))
        )
    return _eager.generators[key]


def _draw(
    store: Store,
    op: Operation,
    seed: int | None,
    draw: Callable[..., Array],
    dims: tuple[int, ...],
    parameters: Sequence[Array],
) -> Array:
    generator = store.generator(op, _combined_seed(op.graph.seed, seed, op.name))
    with store.drawing:
        return draw(generator, dims, *parameters)


def normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return random numbers of the normal distribution. See tf.random.normal in TensorFlow's documentation.

    The numbers are those of NumPy's Philox generator, not TensorFlow's. A seed gives the same numbers every time.
    """
    return _random(
        "random_normal", shape, dtype, seed, name, lambda g, dims, m, s: g.normal(m, s, dims), (mean, stddev)
    )


def truncated_normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return random numbers of the normal distribution within two standard deviations.

    See tf.random.truncated_normal in TensorFlow's documentation.

    The numbers are those of NumPy's Philox generator, not TensorFlow's. A seed gives the same numbers every time.
    """

    def draw(generator: np.random.Generator, dims: tuple[int, ...], mean: Array, stddev: Array) -> Array:
        found = generator.standard_normal(dims)
        while (far := np.abs(found) > 2).any():
            found = np.where(far, generator.standard_normal(dims), found)
        return np.asarray(found * stddev + mean)

    return _random("truncated_normal", shape, dtype, seed, name, draw, (mean, stddev))


def uniform(
    shape: Any,
    minval: float = 0,
    maxval: float | None = None,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Return random numbers of the uniform distribution over [minval, maxval).

    See tf.random.uniform in TensorFlow's documentation.

    The numbers are those of NumPy's Philox generator, not TensorFlow's. A seed gives the same numbers every time.

    Raises:
        ValueError: an integer dtype without `maxval`.
    """
    if as_dtype(dtype).is_integer:
        if maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {as_dtype(dtype)!r}")
        bounds: tuple[Any, Any] = (minval, maxval)
        return _random("random_uniform", shape, dtype, seed, name, lambda g, dims, a, b: g.integers(a, b, dims), bounds)
    bounds = (minval, 1.0 if maxval is None else maxval)
    return _random("random_uniform", shape, dtype, seed, name, lambda g, dims, a, b: g.uniform(a, b, dims), bounds)


def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """Return the rows of `value` in random order. See tf.random.shuffle in TensorFlow's documentation."""
    tensor = convert_to_tensor(value)
    rows = tensor.shape[0]
    order = _random("random_shuffle", (rows,), "int64", seed, name, lambda g, dims: g.permutation(dims[0]))
    return call("gather", tensor, order)


def dropout_v1(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Any:
    """Call dropout() with TensorFlow 1's arguments: the probability to keep an element, or `rate`.

    See tf.compat.v1.nn.dropout in TensorFlow's documentation.
    """
    given = rate if rate is not None else None if keep_prob is None else 1 - keep_prob
    if given is None:
        raise ValueError("You must provide a rate to dropout.")
    return dropout(x, given, noise_shape, seed, name)


def dropout(x: Any, rate: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None) -> Any:
    """Set elements to 0 with probability `rate` and divide the others by 1 - rate.

    See tf.nn.dropout in TensorFlow's documentation.

    Args:
        x: a tensor of floats.
        rate: a number, or a scalar.
        noise_shape: a shape that broadcasts to that of `x`: elements that share one of its places are kept or set to 0
            together. None for the shape of `x`.
        seed: the seed of the random numbers.
        name: the name of the operation.

    Raises:
        ValueError: a rate outside [0, 1).
    """
    tensor, given = convert_to_tensor(x), rate
    if isinstance(given, (int, float)):
        if not 0 <= given < 1:
            raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), got {given:g}")
        if given == 0:
            return call("identity", tensor, name=name)
    places = call("shape", tensor) if noise_shape is None else _filled(noise_shape, tensor)
    drawn = uniform(places, dtype=tensor.dtype, seed=seed)
    kept = call("cast", call("greater_equal", drawn, given), tensor.dtype)
    return call("multiply", call("truediv", tensor, call("subtract", 1.0, given)), kept, name=name)


def _filled(noise_shape: Any, tensor: Any) -> Any:
    """Return `noise_shape` with the sizes of `tensor` in place of None."""
    if not isinstance(noise_shape, (list, tuple)) or None not in noise_shape:
        return noise_shape
    sizes = call("unstack", call("shape", tensor), num=len(noise_shape))
    return [size if wanted is None else wanted for wanted, size in zip(noise_shape, sizes, strict=True)]
