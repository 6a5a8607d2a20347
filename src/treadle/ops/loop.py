"""loop: a body again and again, with values carried from each iteration to the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import ShapeError
from treadle.graph.dim import at_least, maximum, minimum
from treadle.graph.graph import Graph
from treadle.graph.shape import elements, text
from treadle.ops.bodies import infer_body, run_body
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import absent_or, dims, numbers, operand, optional, present
from treadle.records import dataclass
from treadle.runtime.control import check_run


@dataclass(frozen=True, slots=True)
class LoopForm:
    """How many carried, sliced, captured and stacked values a loop has.

    Its operands are the limit, the condition of the first iteration, then the initial carried values, those of which
    each iteration takes an item, and captured values. Its body takes the number of the iteration, then carried values,
    items and captured values; it gives whether there is another iteration, then carried values and items to stack.
    """

    carried: int
    sliced: int
    captured: int
    stacked: int

    def initial(self) -> range:
        """The numbers of the operands that are initial carried values."""
        return range(2, 2 + self.carried)

    def items(self) -> range:
        """The numbers of the operands that are sliced."""
        return range(2 + self.carried, 2 + self.carried + self.sliced)


def form_of(attrs: Attrs) -> LoopForm:
    """Return the form of a loop with these attributes."""
    body: Graph = attrs["body"]
    carried, sliced = attrs["carried"], attrs["sliced"]
    return LoopForm(carried, sliced, len(body.inputs) - 1 - carried - sliced, len(body.outputs) - 1 - carried)


def infer_loop(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """limit (i64 of one element; absent: none), condition (bool of one element; absent: true), then as LoopForm says.

    attrs: body (graph), carried, sliced (how many such values there are), padded. The results are the carried values,
    the stacked ones, and the number of iterations made. A stacked value has an item for each iteration; if `padded`,
    for each that the limit allows, of which those beyond the iterations made hold anything. A carried value must keep
    its shape, or no result has a known one. Where there may be no iteration, operands that do not fit the body are
    those of runs without one.
    """
    form = form_of(attrs)
    most = most_iterations(attrs, inputs)
    carried = [_present(inputs, number) for number in form.initial()]
    try:
        found = infer_body(attrs["body"], body_infos(attrs, inputs))
    except ShapeError:
        if begins(inputs, most):
            raise
        return _without_iteration(attrs, carried)
    again, after, items = found[0], found[1 : 1 + form.carried], found[1 + form.carried :]
    if again.dtype != dtypes.boolean or (again.shape is not None and elements(again.shape) != 1):
        raise ShapeError(f"its body must say with one bool whether there is another iteration, got {again.dtype}")
    for number, (one, other) in enumerate(zip(carried, after, strict=True)):
        if one.dtype != other.dtype:
            raise ShapeError(f"carried value {number} begins as {one.dtype}, but its body gives {other.dtype}")
    count = Info(dtypes.i64, ())
    if again.shape is None or not all(map(_is_same, carried, after)):
        return [*(Info(info.dtype, None) for info in (*carried, *items)), count]
    if most is None or not (attrs["padded"] or makes_all(attrs, inputs)):
        return [*(Info(info.dtype, info.shape) for info in carried), *(Info(item.dtype, None) for item in items), count]
    stacked = [Info(item.dtype, None if item.shape is None else (most, *item.shape)) for item in items]
    return [*(Info(info.dtype, info.shape) for info in carried), *stacked, count]


def begins(inputs: Sequence[Info | None], most: int | None) -> bool:
    """Whether it is certain that there is a first iteration, if there are at most so many (None: not known)."""
    limit, condition = optional(inputs, 0), optional(inputs, 1)
    is_allowed = limit is None if most is None else at_least(most, 1)
    return is_allowed and (condition is None or (condition.value is not None and bool(condition.value.reshape(-1)[0])))


def _without_iteration(attrs: Attrs, carried: Sequence[Info]) -> list[Info]:
    """What is known of the results if nothing is known of the body."""
    items = attrs["body"].outputs[1 + len(carried) :]
    stacked = [Info(value.known_dtype, None) for value in items]
    return [*(Info(info.dtype, info.shape) for info in carried), *stacked, Info(dtypes.i64, ())]


def body_infos(attrs: Attrs, inputs: Sequence[Info | None]) -> list[Info]:
    """What is known of the inputs of the body in every iteration, if carried values keep their shapes."""
    form = form_of(attrs)
    infos = [_present(inputs, number) for number in range(2, len(inputs))]
    carried, items, captured = (
        infos[: form.carried],
        infos[form.carried : form.carried + form.sliced],
        infos[form.carried + form.sliced :],
    )
    return [
        Info(dtypes.i64, ()),
        *(Info(info.dtype, info.shape) for info in carried),
        *(Info(info.dtype, dims(info)[1:]) for info in items),
        *captured,
    ]


def most_iterations(attrs: Attrs, inputs: Sequence[Info | None]) -> int | None:
    """How many iterations the limit and the sliced operands allow, if that is known; None if it is not, or any number.

    Raises ShapeError if the first two operands have not one element, or a sliced one has no axis.
    """
    bounds = []
    for number, name, dtype in ((0, "limit", dtypes.i64), (1, "condition", dtypes.boolean)):
        info = optional(inputs, number)
        if info is not None and (info.dtype != dtype or elements(dims(info)) != 1):
            raise ShapeError(f"the {name} must be one {dtype}, got {info.dtype}{text(dims(info))}")
    limit = optional(inputs, 0)
    if limit is not None:
        if limit.value is None:
            return None
        bounds.append(maximum(numbers(limit.value.reshape(-1))[0], 0))
    for number in form_of(attrs).items():
        shape = dims(_present(inputs, number))
        if not shape:
            raise ShapeError("it takes items of a value of rank 0")
        bounds.append(shape[0])
    return minimum(*bounds) if bounds else None


def makes_all(attrs: Attrs, inputs: Sequence[Info | None]) -> bool:
    """Whether it is certain that nothing but the limit and the sliced operands ends the loop."""
    condition = optional(inputs, 1)
    begins = condition is None or (condition.value is not None and bool(condition.value.reshape(-1)[0]))
    again = attrs["body"].outputs[0]
    return begins and again.data is not None and bool(again.data.reshape(-1)[0])


def evaluate_loop(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """Raises as check_run() if the run around the calling step has to end."""
    form = form_of(attrs)
    body: Graph = attrs["body"]
    state = [present(arrays, number) for number in form.initial()]
    sliced = [present(arrays, number) for number in form.items()]
    captured = [present(arrays, number) for number in range(form.items().stop, len(arrays))]
    stacks: list[list[Array]] = [[] for _ in range(form.stacked)]
    limit, condition = absent_or(arrays, 0), absent_or(arrays, 1)
    bounds = (
        [len(value) for value in sliced] if limit is None else [max(int(limit.reshape(-1)[0]), 0), *map(len, sliced)]
    )
    most = min(bounds) if bounds else None
    goes_on = condition is None or bool(condition.reshape(-1)[0])
    made = 0
    while goes_on and (most is None or made < most):
        check_run()
        given = [np.array(made, np.int64), *state, *(value[made] for value in sliced), *captured]
        again, *results = run_body(body, given)
        state = results[: form.carried]
        for stack, item in zip(stacks, results[form.carried :], strict=True):
            stack.append(item)
        goes_on = bool(again.reshape(-1)[0])
        made += 1
    length = most if attrs["padded"] and most is not None else made
    stacked = [
        _stacked(stack, length) if stack else _empty(attrs, arrays, at, length) for at, stack in enumerate(stacks)
    ]
    return [*state, *stacked, np.array(made, np.int64)]


def _stacked(items: Sequence[Array], length: int) -> Array:
    """`items` in an array of `length` items."""
    result = np.zeros((length, *items[0].shape), items[0].dtype)
    result[: len(items)] = np.stack(items)
    return result


def _empty(attrs: Attrs, arrays: Sequence[Array | None], number: int, length: int) -> Array:
    """The stacked value with this number after no iteration. Its items have the shape that they have in the first."""
    infos = [None if a is None else Info(dtypes.from_numpy(a.dtype), a.shape) for a in arrays]
    item = infer_body(attrs["body"], body_infos(attrs, infos))[1 + attrs["carried"] + number]
    return np.zeros((length, *(item.shape or ())), item.dtype.numpy)


def _present(inputs: Sequence[Info | None], number: int) -> Info:
    return operand(inputs, number, "value")


def _is_same(one: Info, other: Info) -> bool:
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return False
    return all(size == same for size, same in zip(one.shape, other.shape, strict=True))
