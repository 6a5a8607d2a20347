"""Steps of loops in files, taken apart where they read and write lists (see `peeled`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.frontends.faults import Fault
from treadle.frontends.tensorflow.body import Body, needed
from treadle.frontends.tensorflow.node import Ref
from treadle.frontends.tensorflow.peeled import Peeled, Step, peeled
from treadle.ops.op import Array


def taken_apart(body: Body, given: Sequence[Ref], lists: Sequence[bool], wanted: Sequence[Ref]) -> Peeled[Ref] | None:
    """The step of `body` from `given` tensors, of which some are `lists`, to those `wanted`; None where it stays whole."""
    if len(lists) != len(given):
        return None

    def reader(ref: Ref) -> tuple[str, Sequence[Ref]] | None:
        node = body.nodes.get(ref[0])
        return None if node is None else (node.op, node.inputs)

    def behind(ends: Sequence[Ref], known: Sequence[Ref]) -> Sequence[Ref] | None:
        try:
            nodes = needed(body, ends, dict.fromkeys(known))
        except Fault:
            return None
        return [(node.name, 0) for node in nodes]

    def resizes(ref: Ref) -> bool:
        return bool(body.nodes[ref[0]].attr("resize_if_index_out_of_bounds", False))

    def constant(ref: Ref) -> Array | None:
        node = body.nodes.get(ref[0])
        value = None if node is None or node.op != "Const" else node.attr("value", None)
        return value if isinstance(value, np.ndarray) else None

    return peeled(Step(given, lists, wanted, reader, behind, resizes, constant))
