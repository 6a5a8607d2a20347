"""Scaler, Normalizer, Imputer, Binarizer and ArrayFeatureExtractor of ai.onnx.ml: preprocessing of features."""

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.scores import as_float
from treadle.graph.value import Value
from treadle.ops.op import Array


def scaler(node: OnnxNode, b: Builder) -> Value | None:
    """(x - offset) scale, of x [rows, features], with one number for all features or one for each."""
    offset, scale = node.floats("offset"), node.floats("scale")
    if offset is None or scale is None or node.rank() != 2:
        return None
    x = as_float(node.input(0), b)
    assert x.dtype is not None
    moved = b.add("sub", x, b.constant(offset.astype(x.dtype.numpy)))
    return b.cast(b.add("mul", moved, b.constant(scale.astype(x.dtype.numpy))), dtypes.f32)


def normalizer(node: OnnxNode, b: Builder) -> Value | None:
    """x [rows, features] with each row divided by its norm (MAX: the largest |x|), zeros staying zeros."""
    norm = node.choice("norm", "MAX", "MAX", "L1", "L2")
    if node.rank() != 2:
        return None
    x = as_float(node.input(0), b)
    parts = b.add("mul", x, x) if norm == "L2" else b.add("abs", x)
    over = b.add("reduce_max" if norm == "MAX" else "reduce_sum", parts, axes=(1,), keepdims=True)
    length = b.add("sqrt", over) if norm == "L2" else over
    return b.cast(b.add("div", x, b.add("max", length, b.scalar(1e-30, x.dtype))), dtypes.f32)


def imputer(node: OnnxNode, b: Builder) -> Value | None:
    """x [rows, features] with what equals `replaced_value` (NaN: what is NaN) replaced by the value of its feature."""
    x = node.input(0)
    if x.dtype is None or node.rank() != 2:
        return None
    values, missing = _imputed(node)
    values = values.astype(x.dtype.numpy)
    if np.isnan(missing):
        found = b.add("isnan", x) if x.dtype.is_float else None
    else:
        found = b.add("eq", x, b.scalar(missing, x.dtype))
    return x if found is None else b.add("where", found, b.constant(values), x)


def _imputed(node: OnnxNode) -> tuple[Array, float]:
    """Returns the imputed values and the value that they replace. Raises Fault if neither list is given."""
    floats, integers = node.floats("imputed_value_floats"), node.integers("imputed_value_int64s")
    if floats is not None and len(floats):
        return floats, node.number("replaced_value_float", 0.0)
    if integers:
        return np.array(integers, np.int64), node.integer("replaced_value_int64", 0)
    raise Fault("it needs the attribute 'imputed_value_floats' or 'imputed_value_int64s'")


def binarizer(node: OnnxNode, b: Builder) -> Value | None:
    """1 where x is above the threshold, 0 elsewhere, in the dtype of x."""
    x = node.input(0)
    if x.dtype is None or not x.dtype.is_float:
        return None
    above = b.add("gt", x, b.scalar(node.number("threshold", 0.0), x.dtype))
    return b.add("cast", above, to=x.dtype)


def array_feature_extractor(node: OnnxNode, b: Builder) -> Value | None:
    """x [..., features] at the indices y, flattened, along its last axis; a vector counts as a matrix of one row."""
    rank = node.rank()
    if rank is None or rank == 0:
        return None
    indices = b.add("reshape", node.input(1), b.integers([-1]), allowzero=False)
    x = node.input(0)
    if rank == 1:
        x = b.add("unsqueeze", x, b.integers([0]))
    if indices.dtype != dtypes.i64:
        indices = b.add("cast", indices, to=dtypes.i64)
    return b.add("gather", x, indices, axis=max(rank, 2) - 1)
