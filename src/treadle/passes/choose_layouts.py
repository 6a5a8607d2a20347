"""Decides which values are stored in blocks of channels, and puts reorders where such a region ends.

Convolutions write blocked wherever a kernel for it exists, unless they have few outputs and a blocked input; ops that
can work on either layout follow their operands. Everything else reads and writes row-major memory.
"""

from __future__ import annotations

from treadle.dtypes import bf16, f32, f64, i8, i32, u8
from treadle.graph.dim import divides, equals, hint_of
from treadle.graph.expr import Expr
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked, Layout
from treadle.graph.node import Node
from treadle.graph.order import topological
from treadle.graph.shape import equal_shapes
from treadle.graph.value import Value
from treadle.ops.pool import POOLS
from treadle.passes.base import PassContext
from treadle.passes.lower.base import nbytes
from treadle.passes.lower.concat import can_concat_blocked
from treadle.passes.lower.conv.epilogue import classify, has_readable_epilogue
from treadle.passes.lower.conv.few_outputs.lower import has_few_outputs
from treadle.passes.lower.conv.lower import blocked_output, reads_plain
from treadle.passes.lower.expr import is_native, may_fail
from treadle.passes.lower.resize import can_resize_blocked
from treadle.passes.lower.spread import can_spread_blocked
from treadle.plan.target import Target

_BLOCKED_AS_F32 = (f32, bf16, i32, u8, i8)


class ChooseLayouts:
    """%c = conv(%x, ..); %y = relu(%c); return %y  ->  %c: c16 = conv(..); %b: c16 = relu(%c); %y = reorder(%b)

    A convolution of many channels whose input is row-major gets it through a reorder; one of few reads
    it as it is. A value that readers want in both layouts is reordered once. Graph inputs and outputs
    stay row-major. An epilogue that convolution kernels cannot read is taken off again, as an elementwise node.
    """

    name = "choose_layouts"

    def run(self, graph: Graph, context: PassContext) -> bool:
        detached = [_detach_epilogue(graph, node) for node in list(graph.nodes) if node.op == "conv"]
        if any(detached):
            graph.rebuild(topological(graph.nodes))
        chooser = _Chooser(graph, context.target)
        for node in graph.nodes:
            chooser.visit(node)
        graph.rebuild(chooser.nodes)
        return chooser.changed or any(detached)


class _Chooser:
    """Walks the nodes in order; `nodes` are those so far, reorders among them.

    `blocked` and `plain` hold, for each value of the original graph, the value that holds it in that layout.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self.target = target
        self.nodes: list[Node] = []
        self.changed = False
        self.blocked: dict[Value, Value] = {}
        self.plain: dict[Value, Value] = {}

    def visit(self, node: Node) -> None:
        """Choose the layouts of `node`'s results and give it its operands in the layouts it needs."""
        layout = self._layout(node)
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            if self._wants_blocked(node, index, value, layout):
                wanted = self._blocked(value, layout or self.blocked[value].layout)
            else:
                wanted = self._plain(value)
            if wanted is not value:
                self.graph.set_input(node, index, wanted)
        self.nodes.append(node)
        if layout is not None:
            self._store_blocked(node, layout)

    def _wants_blocked(self, node: Node, index: int, value: Value, layout: Blocked | None) -> bool:
        """Whether `node`, whose results will have `layout`, is to read its operand `index` blocked."""
        if layout is None:
            return index == 0 and value in self.blocked and (self._writes_rows(node) or _reads_blocked(node))
        if node.op == "conv":
            if index == 0:
                return not self._keeps_plain(node, layout)
            return index > 2 and classify(value.static_shape, node.output.static_shape) == "full"
        if node.op == "resize":
            return index == 0
        if node.op != "elementwise":
            return True
        need = operand_need(value, node.outputs[0], layout.block)
        return need == "blocked" or (need == "either" and value in self.blocked)

    def _keeps_plain(self, node: Node, layout: Blocked) -> bool:
        """Whether the convolution should read a row-major input: it can, and the input is not blocked already."""
        x = node.operand(0)
        return reads_plain(node, layout) and (x not in self.blocked or (x in self.plain and self.plain[x] is x))

    def _writes_rows(self, node: Node) -> bool:
        """Whether a convolution reads its input blocked and writes few outputs row-major."""
        return node.op == "conv" and node.operand(0) in self.blocked and has_few_outputs(node, self.target)

    def _layout(self, node: Node) -> Blocked | None:
        """The blocked layout in which `node` is to write its results; None for row-major."""
        if node.op == "conv":
            return None if self._writes_rows(node) else blocked_output(node, self.target)
        out = node.outputs[0] if node.outputs else None
        if out is None or out.dtype not in (f64, *_BLOCKED_AS_F32):
            return None
        if not any(value in self.blocked for value in node.inputs):
            return None
        layout = Blocked(self.target.lanes(f64 if out.dtype == f64 else f32))
        if not _can_follow(node, layout.block):
            return None
        full = [value for value in node.inputs if value is not None and _is_full(node, value)]
        sizes = [(hint_of(nbytes(value)), value in self.blocked) for value in full]
        there = sum(size for size, blocked in sizes if blocked)
        missing = sum(size for size, blocked in sizes if not blocked)
        return layout if there > missing else None

    def _store_blocked(self, node: Node, layout: Blocked) -> None:
        """Let `node` write `layout`; graph outputs get a row-major copy under their own name."""
        self.changed = True
        for index, value in enumerate(node.outputs):
            if not self.graph.is_output(value):
                value.layout = layout
                self.blocked[value] = value
                continue
            inner = self.graph.value(f"{value.name}.blocked", value.dtype, value.shape)
            inner.layout = layout
            node.outputs[index] = inner
            self.blocked[value] = inner
            self.plain[value] = value
            self._reorder(inner, value)

    def _blocked(self, value: Value, layout: Layout) -> Value:
        """`value` in `layout`, reordered now if it is not there yet."""
        if value not in self.blocked:
            moved = self.graph.value(f"{value.name}.blocked", value.dtype, value.shape)
            moved.layout = layout
            self.plain[value] = value
            self.blocked[value] = moved
            self._reorder(value, moved)
        return self.blocked[value]

    def _plain(self, value: Value) -> Value:
        """`value` in row-major memory, reordered now if it is not there yet."""
        if value not in self.blocked:
            return value
        if value not in self.plain:
            moved = self.graph.value(f"{value.name}.plain", value.dtype, value.shape)
            self.plain[value] = moved
            self._reorder(value, moved)
        return self.plain[value]

    def _reorder(self, source: Value, target: Value) -> None:
        self.changed = True
        self.nodes.append(self.graph.make("reorder", [source], name=f"reorder {source.name}", outputs=[target]))


def _can_follow(node: Node, block: int) -> bool:
    """Whether a kernel of `node` works on operands of full shape that are all blocked, and writes blocked."""
    out = node.output if len(node.outputs) == 1 else node.outputs[0]
    shape = out.static_shape
    if len(shape) not in (3, 4):
        return False
    if node.op != "elementwise":
        return _moves_blocks(node, out, block)
    expr: Expr = node.attrs["expr"]
    if not is_native(expr) or (not divides(block, shape[1]) and may_fail(expr)):
        return False
    return all(_alike(value, out) and equal_shapes(value.shape, shape) for value in node.outputs) and all(
        value is not None and operand_need(value, out, block) is not None for value in node.inputs
    )


def _moves_blocks(node: Node, out: Value, block: int) -> bool:
    if node.op in POOLS:
        return out.dtype in (f32, f64, bf16)
    if node.op == "concat":
        shapes = [value.static_shape for value in node.inputs if value is not None]
        return node.attrs["axis"] >= 1 and can_concat_blocked(shapes, block, node.attrs["axis"])
    if node.op == "spread":
        return can_spread_blocked(node, block) and out.dtype in (f32, f64, bf16)
    return node.op == "resize" and can_resize_blocked(node)


def operand_need(value: Value, out: Value, block: int) -> str | None:
    """The layout in which a blocked elementwise loop reads an operand: `blocked`, `plain` or `either`; None if it
    cannot."""
    shape, rank = value.static_shape, len(out.static_shape)
    aligned = (1,) * (rank - len(shape)) + shape
    if equals(aligned[1], 1) and not equals(out.static_shape[1], 1):
        return "plain"
    same = _alike(value, out) and len(shape) == rank
    single = all(equals(size, 1) for size in aligned[2:])
    if single and (value.is_constant or divides(block, aligned[1])):
        return "either" if same and not value.is_constant else "plain"
    return "blocked" if same else None


def _alike(value: Value, other: Value) -> bool:
    """Whether blocks of both values have the same number of channels: bf16 and quantized values are blocked like
    f32."""
    return value.dtype == other.dtype or {value.dtype, other.dtype} <= set(_BLOCKED_AS_F32)


def _is_full(node: Node, value: Value) -> bool:
    """Whether `node` reads `value` in the layout of its result."""
    if node.op == "resize":
        return value is node.operand(0)
    return node.op != "elementwise" or classify(value.static_shape, node.outputs[0].static_shape) == "full"


def _reads_blocked(node: Node) -> bool:
    """Whether a kernel of `node` reads its first operand blocked and writes row-major: a mean over all of an image."""
    if node.op != "reduce_mean" or node.attrs["axes"] is None:
        return False
    shape = node.operand(0).static_shape
    return len(shape) in (3, 4) and sorted(node.attrs["axes"]) == list(range(2, len(shape)))


def _detach_epilogue(graph: Graph, node: Node) -> bool:
    """conv(%x, %w, _, %b, %odd) epilogue  ->  %c = conv(%x, %w); elementwise(%c, %b, %odd), if %odd cannot be read."""
    if has_readable_epilogue(node):
        return False
    expr: Expr = node.attrs.pop("epilogue")
    result, extra = node.output, node.inputs[3:]
    for index in range(3, len(node.inputs)):
        graph.set_input(node, index, None)
    node.inputs = node.inputs[:3]
    start = graph.value(f"{node.name}.before_epilogue", expr.operands[0], result.shape)
    node.outputs = [start]
    start.producer = node
    epilogue = graph.add("elementwise", [start, *extra], {"expr": expr}, name=node.name, outputs=[result])
    epilogue.take_over([node])
    return True
