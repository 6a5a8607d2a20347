"""Lets matmul read and write permuted tensors, so that no transpose copies them."""

from __future__ import annotations

from typing import Any

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep
from treadle.passes.simplify_transposes import compose


class AbsorbTransposes:
    """%t = transpose(%q) perm=(0, 2, 1, 3); %m = matmul(%t, %k); %y = transpose(%m) perm=(0, 2, 1, 3)
    ->  %y = matmul(%q, %k) a_perm=(0, 2, 1, 3) out_perm=(0, 2, 1, 3)

    An operand's permutation is absorbed if its contiguous axis ends as a row or column of the
    matrices; the result's, if columns stay contiguous. A permutation that only swaps the last two
    axes becomes `transpose_a` or `transpose_b`; a permuted operand has that flag off.
    """

    name = "absorb_transposes"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def operands(node: Node, edit: Edit) -> list[Value] | None:
    """matmul(transpose(a), transpose(b)) -> matmul(a, b) a_perm b_perm"""
    inputs, attrs = list(node.inputs), dict(node.attrs)
    changed = False
    for index, side in enumerate("ab"):
        transpose = produced_by(inputs[index], "transpose")
        if transpose is None or transpose.attrs["perm"] is None:
            continue
        perm = tuple(transpose.attrs["perm"])
        rank = len(perm)
        if attrs.get(f"{side}_perm") is not None:
            perm = compose(perm, attrs[f"{side}_perm"])
        if rank < 2 or rank - 1 not in perm[-2:]:
            continue
        inputs[index] = transpose.inputs[0]
        _write_perm(attrs, side, perm)
        changed = True
    return edit.again(inputs, attrs) if changed else None


def _write_perm(attrs: dict[str, Any], side: str, perm: tuple[int, ...]) -> None:
    """State in `attrs` that the operand is permuted by `perm`, then swapped if its transpose flag was set."""
    attrs.pop(f"{side}_perm", None)
    if attrs.get(f"transpose_{side}"):
        perm = (*perm[:-2], perm[-1], perm[-2])
    rank = len(perm)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    attrs[f"transpose_{side}"] = perm == swapped
    if perm not in (swapped, tuple(range(rank))):
        attrs[f"{side}_perm"] = perm


def result(node: Node, edit: Edit) -> Value | None:
    """transpose(matmul(a, b)) -> matmul(a, b) out_perm"""
    matmul = produced_by(node.inputs[0], "matmul")
    if matmul is None or "epilogue" in matmul.attrs or not edit.graph.has_one_use(matmul.output):
        return None
    if node.attrs["perm"] is None:
        return None
    perm = tuple(node.attrs["perm"])
    if matmul.attrs.get("out_perm") is not None:
        perm = compose(matmul.attrs["out_perm"], perm)
    rank = len(perm)
    if perm[-1] != rank - 1 or any(len(value.shape or ()) < 2 for value in (matmul.operand(0), matmul.operand(1))):
        return None
    attrs = {key: value for key, value in matmul.attrs.items() if key != "out_perm"}
    if perm != tuple(range(rank)):
        attrs["out_perm"] = perm
    return edit.add("matmul", matmul.inputs, attrs, name=f"{matmul.name}+{node.name}")


_RULES: Rules = {"matmul": (operands,), "transpose": (result,)}
