"""DynamicPartition, DynamicStitch and SparseToDense: rows by the numbers of their parts, and back by their places."""

from __future__ import annotations

import numpy as np

from treadle import dtypes
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.rules.gather import boolean_mask, gather, nonnegative
from treadle.frontends.tensorflow.rules.kinds import Value


def dynamic_partition(e: Emitter, data: Value, partitions: Value, num_partitions: int) -> list[Value]:
    """Return the rows of data for each number of a part, in order; `partitions` has the number of each row.

    A run raises KernelError for a number that no part has.
    """
    numbers = e.constant(np.arange(num_partitions, dtype=partitions.known_dtype.numpy))
    checked = gather(e, numbers, partitions)
    return [boolean_mask(e, data, e.add("eq", checked, e.scalar(number, checked))) for number in range(num_partitions)]


def dynamic_stitch(e: Emitter, *inputs: Value) -> Value:
    """Return a value whose row indices[m][i] is data[m][i]; a later row of the same place wins, others are 0.

    `inputs` are all indices, then as many data.

    Raises ValueError if data has not the shape of indices and of a row.
    """
    indices, data = inputs[: len(inputs) // 2], inputs[len(inputs) // 2 :]
    row = e.shape(data[0])[e.rank(indices[0]) :]
    for each, part in zip(indices, data, strict=True):
        if e.shape(part) != (*e.shape(each), *row):
            raise ValueError(f"wanted data of shape {[*e.shape(each), *row]}, got {list(e.shape(part))}")
    flat = e.add("concat", *(e.reshape(each, [-1]) for each in indices), axis=0)
    rows = e.add("concat", *(e.reshape(part, [-1, *row]) for part in data), axis=0)
    before_first = e.constant(np.full(1, -1, indices[0].known_dtype.numpy))
    last = e.add("reduce_max", e.add("concat", before_first, flat, axis=0), axes=(0,), keepdims=True)
    length = e.cast(e.add("add", last, e.scalar(1, last)), dtypes.i64)
    shape = e.add("concat", length, e.integers(row), axis=0)
    blank = e.add("expand", e.scalar(0, data[0]), shape)
    places = e.cast(e.add("unsqueeze", nonnegative(e, flat), e.integers([1])), dtypes.i64)
    found = e.add("scatter_nd", blank, places, rows, reduction="none")
    return e.described(found, lambda: (None, *row))


def sparse_to_dense(
    e: Emitter, sparse_indices: Value, output_shape: Value, sparse_values: Value, default_value: Value
) -> Value:
    """Return a value of this shape with values at these indices [n, rank], or [n] or one, else the default.

    Raises ValueError for other ranks of indices.
    """
    places, (rank,) = e.shape(sparse_indices), e.shape(output_shape)
    if len(places) > 2 or (len(places) < 2 and rank != 1) or (len(places) == 2 and places[1] != rank):
        raise ValueError(f"sparse_to_dense: indices of shape {list(places)} are not places of rank {rank}")
    count = places[0] if places else 1
    indices = e.reshape(nonnegative(e, sparse_indices), [count, rank])
    values = e.add("expand", sparse_values, e.integers([count]))
    blank = e.add("expand", default_value, e.cast(output_shape, dtypes.i64))
    found = e.add("scatter_nd", blank, e.cast(indices, dtypes.i64), values, reduction="none")
    return e.described(found, lambda: (None,) * rank)
