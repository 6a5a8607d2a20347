"""Loops that carry lists of tensors: the elements that they append become stacked values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper

from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.lists import TensorList, joined, merged, of_stack
from treadle.frontends.onnx.names import graph_of, reads
from treadle.frontends.onnx.opsets import domain_of
from treadle.graph.value import Value
from treadle.records import dataclass

MOST_COPIES = 16
"""The body of a SequenceMap is copied for each element of a list that is known to have no more elements."""

_FIRST_CARRIED = 2
"""The number of the first carried operand of a Loop. Its body has one result before those of the carried values."""


@dataclass(frozen=True, slots=True)
class Appended:
    """A list to which each iteration appends `count` elements, and which the body does not read."""

    initial: TensorList
    count: int


@dataclass(frozen=True, slots=True)
class WithoutLists:
    """A Loop without lists, made of one with lists. Its last stacked results are the appended elements, in order.

    Attributes:
        proto: The node without lists.
        operands: The operands that it keeps, by their numbers in the node with lists.
        stacked: Those of them that are lists. Each is carried as one stacked value.
        unchanged: The lists that the body returns unchanged, by their names in the body.
        appended: The lists that the body only appends to, by the number of the carried value.
    """

    proto: onnx.NodeProto
    operands: list[int]
    stacked: frozenset[int]
    unchanged: dict[str, TensorList]
    appended: dict[int, Appended]

    @property
    def stacks(self) -> frozenset[str]:
        """The body's names for the lists that are carried as stacked elements."""
        body = graph_of(self.proto)
        return frozenset(body.input[self.operands.index(number)].name for number in self.stacked)

    @property
    def uniform(self) -> int:
        """How many stacked results are appended elements."""
        return sum(each.count for each in self.appended.values())

    def results(self, found: Sequence[Value], b: Builder) -> list[Value | TensorList] | None:
        """Return the results of the node with lists; None if a list has elements of several shapes."""
        end = len(found) - self.uniform
        rest, elements = iter(found[:end]), iter(found[end:])
        unchanged = iter(self.unchanged.values())
        carried = len(self.operands) - _FIRST_CARRIED + len(self.unchanged) + len(self.appended)
        results: list[Value | TensorList] = []
        for number in range(carried):
            each = self.appended.get(number)
            if each is not None:
                parts = [next(elements) for _ in range(each.count)]
                made = joined(each.initial, of_stack(_interleaved(parts, b)), b)
                if made is None:
                    return None
                results.append(made)
            elif number + _FIRST_CARRIED in self.stacked:
                results.append(of_stack(next(rest)))
            elif number + _FIRST_CARRIED in self.operands:
                results.append(next(rest))
            else:
                results.append(next(unchanged))
        return [*results, *rest]


def without_lists(proto: onnx.NodeProto, lists: Mapping[int, TensorList]) -> WithoutLists | None:
    """Return the Loop `proto` without the lists among its operands; None if its body does not fit them.

    Args:
        proto: The node.
        lists: The operands that are lists, by their number.
    """
    body = graph_of(proto)
    if len(body.input) != len(proto.input) or len(body.output) < len(proto.input) - 1:
        return None
    unchanged: dict[str, TensorList] = {}
    appended: dict[int, Appended] = {}
    inserted: list[str] = []
    dropped: set[int] = set()
    stacked: set[int] = set()
    for operand, initial in lists.items():
        chain = _appends(body, body.input[operand].name, body.output[operand - 1].name)
        if chain is None:
            stacked.add(operand)
            continue
        elements = [body.node[number].input[1] for number in chain if body.node[number].op_type != "Identity"]
        if elements:
            dropped.update(chain)
            appended[operand - _FIRST_CARRIED] = Appended(initial, len(elements))
            inserted += elements
        else:
            unchanged[body.input[operand].name] = initial
    away = lists.keys() - stacked
    operands = [number for number in range(len(proto.input)) if number not in away]
    outputs = [value for number, value in enumerate(body.output) if number + 1 not in away]
    outputs += [onnx.ValueInfoProto(name=name) for name in inserted]
    short = helper.make_graph(
        [node for number, node in enumerate(body.node) if number not in dropped],
        body.name,
        [body.input[number] for number in operands],
        outputs,
        body.initializer,
        sparse_initializer=body.sparse_initializer,
    )
    inputs = [proto.input[number] for number in operands]
    node = helper.make_node("Loop", inputs, [value.name for value in outputs[1:]], name=proto.name, body=short)
    return WithoutLists(node, operands, frozenset(stacked), unchanged, appended)


def _appends(body: onnx.GraphProto, formal: str, result: str) -> list[int] | None:
    """The numbers of the nodes that append to the list `formal`, in order, so that it becomes `result`.

    No numbers if the list stays as it is. None if the body changes the list in another way, or reads it and changes it.
    """
    makers = {name: number for number, node in enumerate(body.node) for name in node.output}
    chain: list[int] = []
    name = result
    while name != formal:
        number = makers.get(name)
        node = None if number is None else body.node[number]
        if number is None or node is None or domain_of(node.domain):
            return None
        appends = node.op_type == "SequenceInsert" and (len(node.input) < 3 or not node.input[2])
        if not appends and node.op_type != "Identity":
            return None
        chain.append(number)
        name = node.input[0]
    if all(body.node[number].op_type == "Identity" for number in chain):
        return []
    stages = {formal, *(output for number in chain for output in body.node[number].output)}
    read = [name for node in body.node for name in reads(node) if name in stages]
    read += [value.name for value in body.output if value.name in stages]
    return list(reversed(chain)) if len(read) == len(stages) else None


def _interleaved(parts: Sequence[Value], b: Builder) -> Value:
    """One stacked value of all items of `parts`: the first item of each, then the second of each, and so on."""
    if len(parts) == 1:
        return parts[0]
    return merged(b.add("concat", *(b.add("unsqueeze", part, b.integers([1])) for part in parts), axis=1), 0, b)
