"""The rewriting of a graph, node by node, and what stands in its way."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.graph.dim import DimExpr, hint_of
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value
from treadle.ops.sizes import known_sizes
from treadle.passes.base import PassContext
from treadle.passes.match import Edit
from treadle.passes.skip_padding.axes import TEXT, TOKEN, Axes, PaddedSizes
from treadle.passes.skip_padding.in_the_way import InTheWay
from treadle.passes.skip_padding.masks import Mask, Masks
from treadle.passes.skip_padding.packing import FIRSTS, Packed, Packing
from treadle.passes.skip_padding.row_ops import packed_results
from treadle.passes.skip_padding.scores import Scores, attended, changed_scores, scores_of
from treadle.passes.specialize import copy_graph
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """A graph that computes tokens only.

    Attributes:
        graph: The graph, whose inputs are those of the model, and then one for each of `kinds`.
        mask: The number of the input that is the attention mask.
        kinds: What the further inputs hold, as `runtime/padded_texts.py` computes it.
        first: Whether the graph is right only if the first position of every text is a token.
        tokens: The symbol of the number of tokens.
    """

    graph: Graph
    mask: int
    kinds: tuple[str, ...]
    first: bool
    tokens: str


def skip_padding(graph: Graph, facts: Facts, context: PassContext) -> Skipped | InTheWay:
    """A copy of `graph` that computes the tokens of texts and no padding, or what stands in the way.

    Args:
        graph: One with open sizes, simplified. An input of [batch, length], both open, is the attention mask: 1 for
            tokens, 0 for padding. It is the one for which the proof succeeds, and whose name has "mask" in it if there
            are several. Inputs that a gather reads as indices are numbers of tokens.
        facts: Those of the graph's sizes. They get a symbol for the number of tokens.
        context: As passes take it.
    """
    candidates = [number for number, value in enumerate(graph.inputs) if _may_be_mask(value)]
    candidates.sort(key=lambda number: "mask" not in graph.inputs[number].name)
    first: InTheWay | None = None
    for number in candidates:
        found = _Rewrite(copy_graph(graph), facts, context, number).run()
        if isinstance(found, Skipped):
            return found
        first = first or found
    return first or InTheWay("no input is an attention mask of open batch and length")


def _may_be_mask(value: Value) -> bool:
    shape = value.shape
    if shape is None or len(shape) != 2 or not all(isinstance(dim, DimExpr) for dim in shape) or shape[0] is shape[1]:
        return False
    return not any(node.op == "gather" and node.inputs[1] is value for node in value.users)


class _Rewrite:
    def __init__(self, graph: Graph, facts: Facts, context: PassContext, mask: int) -> None:
        batch, length = graph.inputs[mask].static_shape
        assert isinstance(batch, DimExpr)
        assert isinstance(length, DimExpr)
        names = {value.name for value in graph.inputs} | set(facts.symbols)
        self.symbol = next(name for name in map("tokens{}".format, ("", *range(len(names)))) if name not in names)
        tokens = facts.symbol(self.symbol, max(1, int(hint_of(batch) * hint_of(length)) // 2))
        self.graph = graph
        self.mask = mask
        masks = Masks(graph.inputs[mask])
        self.packing = Packing(graph, context, PaddedSizes(batch, length, tokens), masks)
        self.scores: dict[Value, Scores] = {}
        self.in_the_way: dict[Value, InTheWay] = {}
        self.first = False
        self.nodes: list[Node] = []

    def run(self) -> Skipped | InTheWay:
        graph, packing = self.graph, self.packing
        for node in graph.nodes:
            packing.masks.visit(node)
            edit = Edit(graph, node, packing.context)
            self._visit(node, edit)
            self._insert(edit, node)
            self.nodes.append(node)
        outputs = []
        for value in graph.outputs:
            edit = Edit(graph, value.producer or self.nodes[-1], packing.context)
            made = packing.exact(value, edit)
            if made is None:
                return self.in_the_way.get(value) or _unmasked(value)
            self._insert(edit, edit.node)
            if made is not value:
                value.name, made.name = made.name, value.name
            outputs.append(made)
        graph.outputs = outputs
        graph.rebuild(self.nodes)
        graph.drop_unread()
        if not packing.inputs or not packing.dropped:
            return InTheWay("no node multiplies the rows of tokens by weights")
        return Skipped(graph, self.mask, tuple(packing.inputs), self.first, self.symbol)

    def _insert(self, edit: Edit, node: Node) -> None:
        for made in edit.nodes:
            made.take_over([node])
            for value in made.outputs:
                value.producer = made
        self.nodes += edit.nodes

    def _visit(self, node: Node, edit: Edit) -> None:
        packing = self.packing
        drops = any(value in packing.dropped for value in node.inputs if value is not None)
        if not drops and node.op != "matmul":
            self._pack(node, edit)
            return
        if self._pack(node, edit) or self._attend(node, edit):
            packing.dropped.update(node.outputs)
        elif drops and not self._pool(node, edit) and not self._restore(node, edit):
            packing.dropped.update(node.outputs)
            self._block(node)

    def _pack(self, node: Node, edit: Edit) -> bool:
        """Give the results of `node` packed forms, if it computes each token by itself."""
        packing = self.packing
        if any(value in self.scores for value in node.inputs if value is not None):
            return False
        if any(value.shape is None or value.dtype is None for value in node.outputs):
            return False
        known = any(value in packing.packed for value in node.inputs if value is not None)
        if not known and not (node.op in ("gather", "matmul") and node.output.known_dtype.is_float):
            return False
        results = packed_results(packing, node, edit)
        if results is None or not any(_has_rows(result) for result in results):
            return False
        packing.packed.update(zip(node.outputs, results, strict=True))
        if node.op in ("mul", "where") and _clears(packing, node, results[0].axes):
            packing.cleared[node.output] = node
        return True

    def _attend(self, node: Node, edit: Edit) -> bool:
        """Follow the scores of attention, and give its result a packed form."""
        result = attended(self.packing, node, self.scores, edit)
        if result is not None:
            self.packing.packed[node.output] = result
            return True
        found = scores_of(self.packing, node, edit) or changed_scores(self.packing, node, self.scores)
        if isinstance(found, Scores):
            self.scores[node.output] = found
        elif found is not None:
            self.in_the_way[node.output] = InTheWay(found, node.name, node.op)
        return found is not None

    def _pool(self, node: Node, edit: Edit) -> bool:
        """Compute the first token of each text, if `node` takes it, from packed rows."""
        packed = self.packing.packed.get(node.operand(0)) if node.op in ("gather", "slice") else None
        if packed is None or not _takes_first(self.packing, node, packed.axes):
            return False
        found = self.packing.flat(packed, edit)
        if found is None or TOKEN in packed.axes[found[1]]:
            return False
        picked = edit.add("gather", [found[0], self.packing.given(FIRSTS)], {"axis": found[1]})
        self._replace(node.output, edit.reshape(picked, node.output.static_shape))
        self.first = True
        return True

    def _restore(self, node: Node, edit: Edit) -> bool:
        """Let `node` read padded operands, if they do not depend on padding."""
        operands = [None if value is None else self.packing.exact(value, edit) for value in node.inputs]
        if any(made is None and value is not None for made, value in zip(operands, node.inputs, strict=True)):
            return False
        for index, value in enumerate(operands):
            self.graph.set_input(node, index, value)
        return True

    def _replace(self, old: Value, new: Value) -> None:
        self.packing.dropped.add(old)
        self.packing.replaced[old] = new

    def _block(self, node: Node) -> None:
        """Note why the results of `node` cannot be computed."""
        inherited = (self.in_the_way.get(value) for value in node.inputs if value is not None)
        reason = next((found for found in inherited if found is not None), None)
        for value in node.outputs:
            self.in_the_way[value] = reason or InTheWay(
                "it mixes the rows of padding with others", node.name, str(node.attrs.get("label", node.op))
            )


def _unmasked(value: Value) -> InTheWay:
    node = value.producer
    return InTheWay(
        f"output {value.name!r} has rows for padding", None if node is None else node.name, node.op if node else None
    )


def _has_rows(packed: Packed) -> bool:
    factors = [factor for axis in packed.axes for factor in axis]
    return TEXT in factors and TOKEN in factors


def _clears(packing: Packing, node: Node, axes: Axes) -> bool:
    """Whether `node` gives the same for padding whatever its operands are there."""
    masks, rank = packing.masks, len(axes)

    def is_at_rows(value: Value | None, mask: Mask | None) -> bool:
        if value is None or mask is None or (TEXT,) not in axes or (TOKEN,) not in axes:
            return False
        return mask.is_at(len(value.static_shape), axes.index((TEXT,)), axes.index((TOKEN,)), rank)

    if node.op == "mul":
        found = ((value, masks.get(value)) for value in node.inputs)
        return any(mask is not None and mask.zero == 0 and is_at_rows(value, mask) for value, mask in found)
    condition = masks.get(node.inputs[0])
    if condition is None or not is_at_rows(node.inputs[0], condition):
        return False
    return node.inputs[1 if condition.zero else 2] not in packing.dropped


def _takes_first(packing: Packing, node: Node, axes: Axes) -> bool:
    """Whether `node` takes position 0 of each text and nothing else."""
    if node.op == "gather":
        at = normalize_axis(node.attrs["axis"], len(axes))
        indices = node.operand(1)
        return axes[at] == (TOKEN,) and packing.masks.number(indices) == 0 and indices.static_shape in ((), (1,))
    starts, ends, own = (known_sizes(value) if value is not None else None for value in _padded(node.inputs, 4)[1:4])
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    if starts is None or ends is None or (steps is not None and packing.masks.number(steps) != 1):
        return False
    touched = range(len(starts)) if own is None else own
    return (
        len(starts) == 1 and starts[0] == 0 and ends[0] == 1 and axes[normalize_axis(touched[0], len(axes))] == (TOKEN,)
    )


def _padded(values: Sequence[Value | None], length: int) -> list[Value | None]:
    return [*values, *[None] * (length - len(values))]
