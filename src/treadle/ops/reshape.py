"""reshape, flatten, squeeze, unsqueeze, identity: the same elements in the same order under another shape."""

from collections.abc import Sequence

from treadle.errors import ShapeError
from treadle.graph.dim import at_least, equals
from treadle.graph.shape import StaticShape, elements, normalize_axis, text
from treadle.ops.op import Array, Attrs, Evaluate, Info
from treadle.ops.operands import absent_or, dims, integers, numbers, operand, optional, present, result


def reshaped(shape: StaticShape, wanted: Sequence[int], *, allowzero: bool) -> StaticShape:
    """`shape` reshaped to `wanted`: -1 takes what is left; 0 copies the dimension, unless `allowzero`.

    Raises ShapeError if the element counts cannot agree.
    """
    if allowzero:
        left = [axis for axis, dim in enumerate(wanted) if not at_least(dim, 0) and dim < 0]
        zeros = [axis for axis, dim in enumerate(wanted) if dim == 0] if left else []
    else:
        kept = {axis for axis, (dim, size) in enumerate(zip(wanted, shape, strict=False)) if equals(dim, size)}
        special = [axis for axis, dim in enumerate(wanted) if axis not in kept and not at_least(dim, 1) and not dim > 0]
        zeros = [axis for axis in special if at_least(wanted[axis], 0) or wanted[axis] == 0]
        left = [axis for axis in special if axis not in zeros]
    if any(wanted[axis] != -1 for axis in left) or len(left) > 1:
        raise ShapeError(f"the new shape {list(wanted)} may hold sizes, 0 and a single -1 only")
    if allowzero and zeros and left:
        raise ShapeError(f"the new shape {list(wanted)} holds both 0 and -1, which allowzero forbids")
    found = list(wanted)
    for axis in () if allowzero else zeros:
        if axis >= len(shape):
            raise ShapeError(f"the new shape {list(wanted)} copies axis {axis}, which x {text(shape)} has not")
        found[axis] = shape[axis]
    total = elements(shape)
    if left:
        others = elements(dim for axis, dim in enumerate(found) if axis not in left)
        if others == 0 or total % others:
            raise ShapeError(
                f"x {text(shape)} cannot become {list(wanted)}: {total} elements do not divide by {others}"
            )
        found[left[0]] = total // others
    if elements(found) != total:
        raise ShapeError(f"x {text(shape)} with {total} elements cannot become {list(wanted)} with {elements(found)}")
    return tuple(found)


def squeezed(shape: StaticShape, axes: Sequence[int] | None) -> StaticShape:
    """`shape` without `axes`, or without every 1 if None. Raises ShapeError unless those axes are 1."""
    if axes is None:
        return tuple(dim for dim in shape if dim != 1)
    found = {normalize_axis(axis, len(shape)) for axis in axes}
    for axis in sorted(found):
        if shape[axis] != 1:
            raise ShapeError(f"axis {axis} of x {text(shape)} has size {shape[axis]}; only size 1 can be squeezed")
    return tuple(dim for axis, dim in enumerate(shape) if axis not in found)


def unsqueezed(shape: StaticShape, axes: Sequence[int]) -> StaticShape:
    """`shape` with a 1 put in at each of `axes`, which count in the result. Raises ShapeError for doubled axes."""
    rank = len(shape) + len(axes)
    found = {normalize_axis(axis, rank) for axis in axes}
    if len(found) != len(axes):
        raise ShapeError(f"axes {list(axes)} name an axis twice")
    rest = iter(shape)
    return tuple(1 if axis in found else next(rest) for axis in range(rank))


def flattened(shape: StaticShape, axis: int) -> StaticShape:
    """[product of the dimensions before `axis`, product of the others]; `axis` may be the rank."""
    cut = axis if axis == len(shape) else normalize_axis(axis, len(shape))
    return (elements(shape[:cut]), elements(shape[cut:]))


def infer_identity(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x of any shape, as it is."""
    x = operand(inputs, 0, "x")
    return [result(x.dtype, dims(x))]


def infer_reshape(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, shape. attrs: allowzero."""
    x = operand(inputs, 0, "x")
    wanted = integers(operand(inputs, 1, "shape"), "shape")
    if wanted is None:
        return [Info(x.dtype, None)]
    return [result(x.dtype, reshaped(dims(x), wanted, allowzero=bool(attrs.get("allowzero", False))))]


def infer_flatten(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: axis."""
    x = operand(inputs, 0, "x")
    return [result(x.dtype, flattened(dims(x), attrs["axis"]))]


def infer_squeeze(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, axes (absent: every axis of size 1)."""
    x, axes = operand(inputs, 0, "x"), optional(inputs, 1)
    wanted = None if axes is None else integers(axes, "axes")
    if axes is not None and wanted is None:
        return [Info(x.dtype, None)]
    return [result(x.dtype, squeezed(dims(x), wanted))]


def infer_unsqueeze(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """x, axes."""
    x = operand(inputs, 0, "x")
    axes = integers(operand(inputs, 1, "axes"), "axes")
    return [Info(x.dtype, None) if axes is None else result(x.dtype, unsqueezed(dims(x), axes))]


def evaluate_reshaping(name: str) -> Evaluate:
    """The NumPy reference of `name`."""

    def evaluate(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
        x, second = present(arrays, 0), absent_or(arrays, 1)
        given = None if second is None else numbers(second)
        if name == "reshape":
            shape = reshaped(x.shape, given or (), allowzero=bool(attrs.get("allowzero", False)))
        elif name == "flatten":
            shape = flattened(x.shape, attrs["axis"])
        elif name == "squeeze":
            shape = squeezed(x.shape, given)
        elif name == "unsqueeze":
            shape = unsqueezed(x.shape, given or ())
        else:
            shape = x.shape
        return [x.reshape(shape).copy()]

    return evaluate
