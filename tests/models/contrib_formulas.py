"""What operators of ONNX Runtime (com.microsoft) compute, as NumPy formulas in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: Array) -> Array:
    x = x.astype(np.float64)
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def fast_gelu(x: Array) -> Array:
    x = x.astype(np.float64)
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x.astype(np.float64))))


def layer_norm(x: Array, gamma: Array, beta: Array | float, epsilon: float) -> Array:
    x = x.astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta)


def rms_norm(x: Array, gamma: Array, epsilon: float) -> Array:
    x = x.astype(np.float64)
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma)


def heads(x: Array, count: int) -> Array:
    """[N, tokens, width] -> [N, heads, tokens, size]"""
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def attention(q: Array, k: Array, v: Array, mask: Array | float = 0.0, scale: float | None = None) -> Array:
    """softmax(scale q k + mask) v of heads [N, heads, tokens, size], as [N, tokens, width]."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = (weights @ v).transpose(0, 2, 1, 3)
    return np.asarray(mixed.reshape(*mixed.shape[:2], -1))


def excluded(allowed: Array, low: float = -10000.0) -> Array:
    """What a mask adds to scores."""
    return np.where(allowed, 0.0, low)


def causal(queries: int, keys: int) -> Array:
    """What excludes later keys, the last query at the last key."""
    return np.where(np.arange(keys) <= np.arange(keys - queries, keys)[:, None], 0.0, -np.inf)


def rotate(x: Array, cosines: Array, sines: Array, *, interleaved: bool) -> Array:
    """Rotated pairs of x [N, heads, tokens, size]; cosines and sines are [N, tokens, size / 2]."""
    cosines, sines = cosines[:, None], sines[:, None]
    if interleaved:
        first, second = x[..., 0::2], x[..., 1::2]
    else:
        first, second = np.split(x, 2, axis=-1)
    real, imaginary = first * cosines - second * sines, first * sines + second * cosines
    if interleaved:
        return np.stack([real, imaginary], axis=-1).reshape(x.shape)
    return np.concatenate([real, imaginary], axis=-1)
