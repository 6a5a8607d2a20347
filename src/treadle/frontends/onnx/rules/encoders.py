"""LabelEncoder and OneHotEncoder of ai.onnx.ml for numbers; those of texts run by ONNX's reference."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.ops.op import Array


def label_encoder(node: OnnxNode, b: Builder) -> Value | None:
    """LabelEncoder(x): for each element the value of the key that is equal to it, or the default."""
    x, keys, values = node.input(0), _list(node, "keys"), _list(node, "values")
    if keys is None or values is None or x.dtype is None or x.dtype.numpy != keys.dtype:
        return None
    default = _default(node, values)
    if default is None:
        return None
    if len(keys) != len(values):
        raise Fault(f"it has {len(keys)} keys and {len(values)} values; wanted as many")
    missing = np.isnan(keys) if keys.dtype.kind == "f" else np.zeros(keys.shape, np.bool_)
    order = np.argsort(keys[~missing], kind="stable")
    known, found = keys[~missing][order], values[~missing][order]
    if missing.sum() > 1 or (known[1:] == known[:-1]).any() or not len(known):  # ONNX does not say which value counts
        return None
    place = b.add("search_sorted", b.constant(known), x, right=False)
    number = b.add("min", place, b.scalar(len(known) - 1, dtypes.i64))
    is_key = b.add("eq", b.add("gather", b.constant(known), number, axis=0), x)
    otherwise = b.constant(default)
    if missing.any():
        otherwise = b.add("where", b.add("isnan", x), b.constant(values[missing][0]), otherwise)
    return b.add("where", is_key, b.add("gather", b.constant(found), number, axis=0), otherwise)


def one_hot_encoder(node: OnnxNode, b: Builder) -> Value | None:
    """OneHotEncoder(x [...]) -> [..., categories] of 1 for the category that is equal to x, else 0."""
    x, categories = node.input(0), node.integers("cats_int64s")
    if not categories or x.dtype is None or not (x.dtype.is_integer or x.dtype.is_float):
        return None
    if not node.flag("zeros", default=True):  # an unknown category is an error
        return None
    last = b.add("unsqueeze", b.cast(x, dtypes.i64), b.integers([-1]))
    return b.cast(b.add("eq", last, b.constant(np.array(categories, np.int64))), dtypes.f32)


def _list(node: OnnxNode, name: str) -> Array | None:
    """The numbers of `keys` or `values`; None if these are texts, or none are given."""
    tensor = node.tensor(f"{name}_tensor")
    if tensor is not None:
        return tensor.reshape(-1) if tensor.dtype.kind in "fi" else None
    integers, floats = node.integers(f"{name}_int64s"), node.floats(f"{name}_floats")
    if integers:
        return np.array(integers, np.int64)
    return None if floats is None or not len(floats) else floats.astype(np.float32)


def _default(node: OnnxNode, values: Array) -> Array | None:
    """The value for what has no key, of the dtype of `values`; None if it is of another one."""
    tensor = node.tensor("default_tensor")
    if tensor is not None:
        return tensor.reshape(-1)[:1].reshape(()) if tensor.size and tensor.dtype == values.dtype else None
    if values.dtype == np.int64:
        return np.array(node.integer("default_int64", -1), np.int64)
    return np.array(node.number("default_float", -0.0), values.dtype)
