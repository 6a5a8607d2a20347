"""Steps of loops without lists of tensors: the tensors that lists are take their places (see `list_parts`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.tensorflow.body import Body, ordered
from treadle.frontends.tensorflow.list_loops import IDENTITIES, SIGNS
from treadle.frontends.tensorflow.list_parts import ListForm, form_of
from treadle.frontends.tensorflow.lists import Dims
from treadle.frontends.tensorflow.node import Node, Ref
from treadle.frontends.tensorflow.part_rules import APPEND, FORM, PART_RULES, PREFIX, PUSH_NEW, SET_NEW, grows
from treadle.graph.dim import is_expression
from treadle.graph.value import Value
from treadle.ops.sizes import known_sizes

PUSH, POP, SET = "TensorListPushBack", "TensorListPopBack", "TensorListSetItem"


@dataclass(frozen=True, slots=True)
class ListUse:
    """What a step does with a list that it is given: the ops on it, and the tensors that it writes into it.

    `index` is that of its only write, if it writes one item at an index.
    """

    ops: frozenset[str]
    written: tuple[Ref, ...]
    index: Ref | None
    grows: bool


class NotTensorsError(Exception):
    """A list cannot be tensors: something else than the ops on its items needs it."""


@dataclass(slots=True)
class Unlisted:
    """A body whose lists are tensors: those that it is given, what it gives, and what of that is appended."""

    body: Body
    given: list[Ref]
    wanted: list[Ref]
    grown: frozenset[Ref]


def uses_of(body: Body, given: Sequence[Ref], lists: Mapping[int, object], wanted: Sequence[Ref]) -> dict[int, ListUse]:
    """Return what a step of `body` does with the `lists` among `given`, by their numbers.

    Raises NotTensorsError, and Fault.
    """
    owners: dict[Ref, int] = {given[number]: number for number in lists}
    found: dict[int, list[Node]] = {number: [] for number in lists}
    for node in ordered(body, wanted, dict.fromkeys(given)):
        held = [ref for ref in node.inputs if ref in owners]
        if not held:
            continue
        if node.op in IDENTITIES:
            owners[node.name, 0] = owners[held[0]]
            continue
        rule = PART_RULES.get(node.op)
        if rule is None or len(held) > 1 or node.inputs[0] != held[0]:
            raise NotTensorsError
        found[owners[held[0]]].append(node)
        if rule.makes_list:
            owners[node.name, 0] = owners[held[0]]
    for number, ref in enumerate(wanted):
        if owners.get(ref, number) != number or (ref in owners) != (number in lists):
            raise NotTensorsError
    return {number: _use(nodes) for number, nodes in found.items()}


def _use(nodes: Sequence[Node]) -> ListUse:
    writes = [node for node in nodes if node.op in (SET, PUSH)]
    changes = [node for node in nodes if PART_RULES[node.op].makes_list]
    index = writes[0].inputs[1] if len(changes) == 1 and writes and writes[0].op == SET else None
    return ListUse(
        frozenset(node.op for node in nodes), tuple(node.inputs[-1] for node in writes), index, any(map(grows, writes))
    )


def unlisted(
    body: Body,
    given: Sequence[Ref],
    wanted: Sequence[Ref],
    forms: Mapping[int, ListForm],
    appended: Collection[int] = (),
    read: Collection[int] = (),
) -> Unlisted:
    """Return `body` with tensors in place of the lists among `given`, which have these `forms` by their numbers.

    A write into a list of `appended` is behind its last item. More than the loop itself reads the results that are
    lists of `read`. The body fits `uses_of`.
    """
    parts: dict[Ref, list[Ref]] = {}
    origin: dict[Ref, int] = {}
    for number, form in forms.items():
        name, index = given[number]
        parts[given[number]] = [(f"{name}/part{place}", index) for place in range(len(form.dtypes))]
        origin[given[number]] = number
    nodes = dict(body.nodes)
    for node in ordered(body, wanted, dict.fromkeys(given)):
        held = next((ref for ref in node.inputs if ref in parts), None)
        if held is None:
            continue
        origin[node.name, 0] = origin[held]
        if node.op in IDENTITIES:
            parts[node.name, 0] = parts[held]
            continue
        rule, form, op = PART_RULES[node.op], forms[origin[held]], node.op
        if op == SET and origin[held] in appended:
            op = APPEND
        inputs = [*parts[held], *node.inputs[1:]]
        nodes[node.name] = replace(node, op=PREFIX + op, inputs=inputs, attrs={**node.attrs, FORM: form})
        if rule.makes_list:
            parts[node.name, 0] = [(node.name, PART_RULES[op].part_index(place)) for place in range(len(form.dtypes))]

    def expanded(refs: Sequence[Ref]) -> list[Ref]:
        return [each for ref in refs for each in parts.get(ref, [ref])]

    grown: list[Ref] = []
    for number, form in forms.items():
        ref = wanted[number] if number < len(wanted) else given[number]
        last = None if number in read else _last_write(nodes, given[number], ref)
        if last is None or (form.stacked and last.op == PREFIX + SET):
            continue
        is_set = last.op == PREFIX + SET
        nodes[last.name] = replace(last, op=PREFIX + (SET_NEW if is_set else PUSH_NEW))
        grown += parts[last.name, 0][: 1 if is_set else None]
    return Unlisted(replace(body, nodes=nodes), expanded(given), expanded(wanted), frozenset(grown))


def _last_write(nodes: Mapping[str, Node], given: Ref, made: Ref) -> Node | None:
    """Return the node that makes the list `made` of the list `given` by a write that nothing but the loop reads."""
    stages = [made]
    while nodes[made[0]].op in IDENTITIES:
        made = nodes[made[0]].inputs[0]
        stages.append(made)
    node = nodes[made[0]]
    writes = [PREFIX + op for op in (PUSH, APPEND, SET)]
    if node.op not in writes or node.inputs[0][0].rpartition("/part")[0] != given[0]:
        return None
    names = {name for name, _ in stages}
    readers = [each for each in nodes.values() if any(name in names for name, _ in each.inputs)]
    return node if len(readers) < len(stages) else None


def counts_by_one(
    body: Body, given: Sequence[Ref], wanted: Sequence[Ref], values: Sequence[Value], index: Ref
) -> int | None:
    """Return the number of the variable that `index` is, if each iteration adds 1 to it.

    `values` are those of `given` tensors before the loop.
    """
    places = {ref: number for number, ref in enumerate(given)}
    number = places.get(_source(body, given, index))
    if number is None or number >= len(wanted):
        return None
    same = [at for at, ref in enumerate(given) if at >= len(wanted) or _source(body, [ref], wanted[at]) == ref]
    ones = [given[at] for at in same if first_count(values[at]) == 1]
    return number if adds_one(body, given[number], wanted[number], ones) else None


def adds_one(body: Body, given: Ref, wanted: Ref, ones: Sequence[Ref]) -> bool:
    """Return whether `wanted` is one more than `given`; the tensors `ones` are 1."""
    known = [given, *ones]
    added = body.nodes.get(_source(body, known, wanted)[0])
    if added is None or SIGNS.get(added.op) != 1 or len(added.inputs) != 2:
        return False
    left, right = (_source(body, known, ref) for ref in added.inputs)
    if left != given:
        left, right = right, left
    return left == given and (right in ones or _is_one(body, right))


def first_count(value: Value) -> int | None:
    """Return what a variable begins with, if it is one integer that is known."""
    if value.shape != () or value.dtype not in (dtypes.i32, dtypes.i64):
        return None
    found = known_sizes(value)
    return None if found is None or is_expression(found[0]) else int(found[0])


def _source(body: Body, given: Sequence[Ref], ref: Ref) -> Ref:
    while ref not in given and ref[0] in body.nodes and body.nodes[ref[0]].op in IDENTITIES:
        ref = body.nodes[ref[0]].inputs[0]
    return ref


def _is_one(body: Body, ref: Ref) -> bool:
    found = body.constant(ref)
    return found is not None and found.dtype.kind in "iu" and found.size == 1 and found.item() == 1


def form_of_list(
    dtype: DType, dims: Dims, shape: Sequence[int] | None, rank: int | None, use: ListUse
) -> ListForm | None:
    """Return what tensors a list is in a loop that uses it so; None if it cannot be tensors.

    Args:
        dtype: The element type of its items.
        dims: What is declared of their shape.
        shape: That of all items before the loop, if it is known.
        rank: The rank of items that the loop writes, if it is known.
        use: What the loop does with it.
    """
    if not use.written and shape is not None:
        dims = tuple(shape)
    known = rank if shape is None else len(shape)
    return form_of(dtype, dims, known, counted=POP in use.ops and not use.written)
