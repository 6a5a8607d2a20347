"""Bodies of loops in files as `LoopStep`s, to be split where they read and write lists (see `list_loops`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.body import Body, needed
from treadle.frontends.tensorflow.list_loops import LoopStep, SplitStep, split_step
from treadle.frontends.tensorflow.node import Ref


@dataclass(frozen=True, slots=True)
class BodyPart:
    """The part of a body between `given` tensors and `wanted` ones."""

    title: str
    body: Body
    given: list[Ref]
    wanted: list[Ref]


def split_body(body: Body, given: Sequence[Ref], lists: Sequence[bool], wanted: Sequence[Ref]) -> SplitStep[Ref] | None:
    """Split the step of `body` that computes `wanted` from `given`; `lists` says which of `given` are lists.

    Returns None if the step cannot be split.
    """
    if len(lists) != len(given):
        return None

    def producer(ref: Ref) -> tuple[str, Sequence[Ref]] | None:
        node = body.nodes.get(ref[0])
        return None if node is None else (node.op, node.inputs)

    def dependencies(ends: Sequence[Ref], known: Sequence[Ref]) -> Sequence[Ref] | None:
        try:
            nodes = needed(body, ends, dict.fromkeys(known))
        except Fault:
            return None
        return [(node.name, 0) for node in nodes]

    def resizes(ref: Ref) -> bool:
        return bool(body.nodes[ref[0]].attr("resize_if_index_out_of_bounds", False))

    return split_step(LoopStep(given, lists, wanted, producer, dependencies, resizes, body.constant))
