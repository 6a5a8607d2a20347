"""Functions over the first axis of tensors: map_fn, scan, foldl, foldr. Each is a while_loop over TensorArrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from treadle.compat.tensorflow import context, nest
from treadle.compat.tensorflow.control_flow import while_loop
from treadle.compat.tensorflow.convert import convert_to_tensor
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.dtypes import DType, as_dtype
from treadle.compat.tensorflow.shape import TensorShape, TensorSpec
from treadle.compat.tensorflow.tensor import Tensor
from treadle.compat.tensorflow.tensor_array import TensorArray


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Apply `fn` to each row of `elems` and stack the results. See tf.map_fn in TensorFlow's documentation.

    Args:
        fn: the function of a row, or of rows in the structure of `elems`.
        elems: a tensor, or a structure of tensors of equal length.
        dtype: the former name of `fn_output_signature`.
        parallel_iterations: has no effect.
        back_prop: has no effect.
        swap_memory: has no effect.
        infer_shape: whether all results of `fn` have the same shape.
        name: the prefix of the operations.
        fn_output_signature: what `fn` returns: dtypes or TensorSpecs in its structure; None for the dtypes of `elems`.

    Returns:
        Tensors [n, ...] in the structure that `fn` returns.

    Raises:
        TypeError: `fn` is not callable.
        ValueError: tensors of different lengths, scalars, or results of another structure.
    """
    rows = _Rows("map_fn", fn, elems)
    wanted = dtype if fn_output_signature is None else fn_output_signature
    form = elems if wanted is None else wanted
    kinds = [tensor.dtype if wanted is None else _dtype_of(leaf) for tensor, leaf in _pairs(rows.tensors, wanted)]
    with rows.scope(name or "map"):
        outputs = [TensorArray(kind, rows.count, infer_shape=infer_shape) for kind in kinds]
        shapes = [leaf.shape if isinstance(leaf, TensorSpec) else TensorShape(None) for leaf in nest.flatten(form)]

        def step(index: Any, arrays: Sequence[TensorArray]) -> tuple[Any, list[TensorArray]]:
            made = _leaves("map_fn", fn(rows.row(index)), form)
            if infer_shape:
                shapes[:] = [leaf.shape.merge_with(shape) for leaf, shape in zip(made, shapes, strict=True)]
            return index + 1, [array.write(index, leaf) for array, leaf in zip(arrays, made, strict=True)]

        _, outputs = while_loop(lambda index, _: index < rows.count, step, (convert_to_tensor(0), outputs))
        return nest.pack_sequence_as(form, [rows.stack(*pair) for pair in zip(outputs, shapes, strict=True)])


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Stack all values of `accumulator = fn(accumulator, row)` over the rows of `elems`.

    See tf.scan in TensorFlow's documentation.

    Args:
        fn: the function of the accumulator and a row.
        elems: a tensor, or a structure of tensors of equal length.
        initializer: the initial accumulator; None for the first row, which is then the first value.
        parallel_iterations: has no effect.
        back_prop: has no effect.
        swap_memory: has no effect.
        infer_shape: whether all accumulators have the same shape.
        reverse: take the rows from last to first. The value of a row keeps its index.
        name: the prefix of the operations.

    Returns:
        Tensors [n, ...] in the structure of the accumulator.

    Raises:
        TypeError: `fn` is not callable.
        ValueError: tensors of different lengths, scalars, or results of another structure.
    """
    rows = _Rows("scan", fn, elems)
    with rows.scope(name or "scan"):
        start, first, index_of = rows.start_fold(initializer, reverse=reverse)
        leaves = nest.flatten(first)
        outputs = [TensorArray(leaf.dtype, rows.count, infer_shape=infer_shape) for leaf in leaves]
        if start is not None:
            outputs = [array.write(start, leaf) for array, leaf in zip(outputs, leaves, strict=True)]

        def step(done: Any, state: Any, arrays: Sequence[TensorArray]) -> tuple[Any, Any, list[TensorArray]]:
            index = index_of(done)
            made = _leaves("scan", fn(state, rows.row(index)), first)
            written = [array.write(index, leaf) for array, leaf in zip(arrays, made, strict=True)]
            return done + 1, nest.pack_sequence_as(first, made), written

        done_first = convert_to_tensor(0 if start is None else 1)
        _, _, outputs = while_loop(lambda done, *_: done < rows.count, step, (done_first, first, outputs))
        found = [rows.stack(array, leaf.shape) for array, leaf in zip(outputs, leaves, strict=True)]
        return nest.pack_sequence_as(first, found)


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return the last value of `accumulator = fn(accumulator, row)` over the rows of `elems`, from first to last.

    See tf.foldl in TensorFlow's documentation.

    Args:
        fn: the function of the accumulator and a row.
        elems: a tensor, or a structure of tensors of equal length.
        initializer: the initial accumulator; None for the first row.
        parallel_iterations: has no effect.
        back_prop: has no effect.
        swap_memory: has no effect.
        name: the prefix of the operations.
    """
    return _folded("foldl", fn, elems, initializer, name, reverse=False)


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Fold as foldl does, from the last row to the first.

    See tf.foldr in TensorFlow's documentation.
    """
    return _folded("foldr", fn, elems, initializer, name, reverse=True)


def _folded(
    op: str, fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, name: str | None, *, reverse: bool
) -> Any:
    rows = _Rows(op, fn, elems)
    with rows.scope(name or op):
        start, first, index_of = rows.start_fold(initializer, reverse=reverse)

        def step(done: Any, state: Any) -> tuple[Any, Any]:
            made = _leaves(op, fn(state, rows.row(index_of(done))), first)
            return done + 1, nest.pack_sequence_as(first, made)

        done_first = convert_to_tensor(0 if start is None else 1)
        return while_loop(lambda done, _: done < rows.count, step, (done_first, first))[1]


class _Rows:
    """The rows of tensors of equal length, in the structure of the argument."""

    def __init__(self, op: str, fn: Any, elems: Any) -> None:
        if not callable(fn):
            raise TypeError(f"{op}: fn must be callable, got {fn!r}")
        self._form = elems if nest.is_nested(elems) else None
        given = [elems] if self._form is None else nest.flatten(elems)
        self.tensors = [convert_to_tensor(item) for item in given]
        self._graph = context.current_graph() or next((t.graph for t in self.tensors if isinstance(t, Tensor)), None)
        lengths = {tensor.shape[0] for tensor in self.tensors if _has_known_rank(tensor, op)} - {None}
        if len(lengths) > 1:
            raise ValueError(f"{op}: tensors must have the same length along their first axis, got {sorted(lengths)}")
        self._length: int | None = next(iter(lengths), None)
        first = self.tensors[0]
        known = self._length is not None
        self.count: Any = (
            convert_to_tensor(self._length) if known else call("_index", call("shape", first), [0], (("at", 0),))
        )
        self._arrays: list[TensorArray] = []

    def scope(self, name: str) -> ExitStack:
        """Enter the graph and name scope of the ops, and turn the tensors into TensorArrays there."""
        stack = ExitStack()
        if self._graph is not None:
            if context.current_graph() is None:
                stack.enter_context(self._graph.as_default())
            stack.enter_context(self._graph.name_scope(name))
        for tensor in self.tensors:
            array = TensorArray(tensor.dtype, self.count, clear_after_read=False, element_shape=tensor.shape[1:])
            self._arrays.append(array.unstack(tensor))
        return stack

    def row(self, index: Any) -> Any:
        """Return the rows at one index, in the structure of the argument."""
        found = [array.read(index) for array in self._arrays]
        return found[0] if self._form is None else nest.pack_sequence_as(self._form, found)

    def start_fold(self, initializer: Any, *, reverse: bool) -> tuple[Any, Any, Callable[[Any], Any]]:
        """Return how a fold starts.

        The results are the index of the row that is the initial value (None if that is `initializer`), the initial
        value, and a function from the number of rows done to the index of the next row.
        """
        last = self.count - 1
        start = (last if reverse else convert_to_tensor(0)) if initializer is None else None
        first = self.row(start) if start is not None else nest.map_structure(convert_to_tensor, initializer)
        return start, first, lambda done: last - done if reverse else done

    def stack(self, array: TensorArray, shape: TensorShape) -> Any:
        """Stack an array of as many elements as there are rows, each of this shape as far as it is known."""
        found = array.shaped(shape).stack()
        if isinstance(found, Tensor):
            found.set_shape(TensorShape(None if shape.dims is None else [self._length, *shape.dims]))
        return found


def _has_known_rank(tensor: Any, op: str) -> bool:
    if tensor.shape.rank == 0:
        raise ValueError(f"{op}: elements in elems must be 1+ dimensional Tensors, not scalars")
    return tensor.shape.rank is not None


def _pairs(tensors: Sequence[Any], wanted: Any) -> list[tuple[Any, Any]]:
    if wanted is None:
        return [(tensor, None) for tensor in tensors]
    return [(tensors[0], leaf) for leaf in nest.flatten(wanted)]


def _dtype_of(leaf: Any) -> DType:
    return leaf.dtype if isinstance(leaf, TensorSpec) else as_dtype(leaf)


def _leaves(op: str, found: Any, form: Any) -> list[Any]:
    """Convert what `fn` returned to tensors. Raises ValueError for another structure."""
    if nest.structure_of(found) != nest.structure_of(form):
        raise ValueError(f"{op}: fn must return values of the form of {form!r}, got {found!r}")
    return [convert_to_tensor(leaf) for leaf in nest.flatten(found)]
