"""Initializers of variables: functions of shape and dtype that return the initial value."""

from __future__ import annotations

import math
from typing import Any

from treadle.compat.tensorflow import random
from treadle.compat.tensorflow.convert import constant
from treadle.compat.tensorflow.dispatch import call


class Initializer:
    """Base class: `initializer(shape, dtype)` returns a tensor."""

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        raise NotImplementedError


class Zeros(Initializer):
    """Returns zeros. See tf.zeros_initializer in TensorFlow's documentation."""

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        return call("zeros", shape, dtype)


class Ones(Initializer):
    """Returns ones. See tf.ones_initializer in TensorFlow's documentation."""

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        return call("ones", shape, dtype)


class Constant(Initializer):
    """Returns a constant. See tf.constant_initializer in TensorFlow's documentation."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        return constant(self.value, dtype, shape)


class RandomNormal(Initializer):
    """Returns random.normal. See tf.random_normal_initializer in TensorFlow's documentation."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        return random.normal(shape, self.mean, self.stddev, dtype, self.seed)


class TruncatedNormal(RandomNormal):
    """Returns random.truncated_normal. See tf.compat.v1.truncated_normal_initializer in TensorFlow's documentation."""

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        return random.truncated_normal(shape, self.mean, self.stddev, dtype, self.seed)


class RandomUniform(Initializer):
    """Returns random.uniform. See tf.random_uniform_initializer in TensorFlow's documentation."""

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None) -> None:
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        return random.uniform(shape, self.minval, self.maxval, dtype, self.seed)


class GlorotUniform(Initializer):
    """Returns uniform numbers in [-l, l], l = sqrt(6 / (fan in + fan out)).

    See tf.compat.v1.glorot_uniform_initializer in TensorFlow's documentation.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed

    def __call__(self, shape: Any, dtype: Any = "float32") -> Any:
        """Return a tensor of this shape and dtype."""
        dims = [int(dim) for dim in shape]
        window = math.prod(dims[:-2])
        fans = (dims[-2] if len(dims) > 1 else dims[0] if dims else 1) + (dims[-1] if dims else 1)
        limit = math.sqrt(6 / max(1, window * fans))
        return random.uniform(shape, -limit, limit, dtype, self.seed)
