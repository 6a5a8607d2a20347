"""Lets a convolution or matmul finish its elements while they are in registers.

The scalar ops that follow (bias, residual add, activation) become the `epilogue` attribute of the
producer: an Expr whose operand 0 is the producer's own result and whose other operands are the
node's inputs after its own. The epilogue works on the node's final shape (after `out_perm`).
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dtypes import f32
from treadle.graph.dim import equals
from treadle.graph.graph import Graph, unlink
from treadle.graph.node import Node
from treadle.graph.order import topological
from treadle.graph.shape import StaticShape, certain_broadcast, equal_shapes, sample_elements
from treadle.graph.value import Value
from treadle.ops import block_matmul
from treadle.ops.matmul import operand_shape
from treadle.ops.operands import BYTES
from treadle.passes.base import Limits, PassContext
from treadle.passes.build_expr import as_step_constant, build_expr, count_steps, is_scalar, outer_operands
from treadle.passes.match import Edit, join_names, sweep
from treadle.passes.track_dependence import Dependence

_OWN_INPUTS = {"block_matmul": block_matmul.OWN_INPUTS, "conv": 3, "matmul": 2}

_OF_INTEGERS = frozenset({"cast", "add", "sub", "mul", "clip", "min", "max"})
"""Scalar ops that epilogues of integer sums do to integers: none that may fail."""

WORTH_A_WORKER = 1 << 22
"""Multiplications (some 30 us of one core) from which on two independent producers are better left independent."""


class FuseEpilogue:
    """%c = conv(%x, %w, %b); %s = add(%c, %r); %y = relu(%s)  ->  %y = conv(%x, %w, _, %b', %r) epilogue

    The largest set of scalar nodes that leaves by one value is taken: every reader of an inner value
    is inside. Other operands must broadcast to the result and must not depend on the producer. Where
    two producers could take the same nodes, the one with more convolutions and matmuls before it does:
    it is ready later, so that the other still runs beside its predecessors. Where both are ready at the same
    time and large enough to be worth a worker each, neither does: it would have to wait for the other.
    """

    name = "fuse_epilogue"

    def run(self, graph: Graph, context: PassContext) -> bool:
        changed = sweep(graph, context, {"conv": (bias_apart,)})
        producers = [node for node in graph.nodes if node.op in _OWN_INPUTS and _can_have_epilogue(node)]
        dependence = Dependence(graph, producers)
        place = {node: i for i, node in enumerate(graph.nodes)}
        depth = {node: dependence.before[node].bit_count() for node in producers}
        removed: set[Node] = set()
        for producer in sorted(producers, key=lambda node: (-depth[node], -place[node])):
            rivals = _rivals(producer, producers, depth, dependence)
            region = _region(graph, producer, dependence, place, context.limits, rivals)
            if not region:
                continue
            sources = _sources(producer, region, context.limits)
            _fuse(graph, producer, region, sources, dependence)
            removed.update(region)
            removed.update(_drop_unread(graph, sources))
        if removed:
            graph.rebuild(topological([node for node in graph.nodes if node not in removed]))
        return changed or bool(removed)


def _can_have_epilogue(node: Node) -> bool:
    value = node.output
    if value.dtype is None or value.shape is None or "epilogue" in node.attrs:
        return False
    return value.dtype.is_float or _sums_bytes(node)


def _sums_bytes(node: Node) -> bool:
    """Whether `node` multiplies numbers of 8 bits: its epilogue may be of integers, and may give others than it is
    given."""
    return node.operand(0).dtype in BYTES


def _may_store(producer: Node, value: Value) -> bool:
    """Whether the kernel of `producer`, which sums products of bytes, can store `value`."""
    return _sums_bytes(producer) and value.dtype in (f32, *BYTES)


def _work(node: Node) -> int:
    """How many multiplications a convolution or matmul takes, for the sample sizes."""
    result, weight = node.output.static_shape, node.operand(1).static_shape
    if node.op == "conv":
        return sample_elements((*result, *weight[1:]))
    if node.op == "block_matmul":
        return sample_elements((*result, node.operand(0).static_shape[-1]))
    return sample_elements((*result, operand_shape(node.attrs, "a", node.operand(0).static_shape)[-1]))


def _rivals(producer: Node, producers: Sequence[Node], depth: dict[Node, int], dependence: Dependence) -> int:
    """The set of large producers, independent of the large `producer`, that are ready no earlier than it."""
    if _work(producer) < WORTH_A_WORKER:
        return 0
    late = [node for node in producers if depth[node] >= depth[producer] and _work(node) >= WORTH_A_WORKER]
    return sum(dependence.bit[node] for node in late if node is not producer) & ~dependence.before[producer]


def _region(
    graph: Graph, producer: Node, dependence: Dependence, place: dict[Node, int], limits: Limits, rivals: int
) -> list[Node]:
    """The largest prefix of the scalar nodes behind `producer`, in order, that leaves by its last value alone.

    No operand from outside depends on one of `rivals`.
    """
    start = producer.output
    inside: list[Node] = []
    open_uses = {start: len(start.users) + graph.is_output(start)}
    refused: set[Node] = set()
    best = 0
    steps = 0
    while True:
        reachable = {user for value in open_uses for user in value.users} - set(inside) - refused
        if not reachable:
            break
        node = min(reachable, key=place.__getitem__)
        if not _fits(node, producer, set(open_uses), dependence, rivals):
            refused.add(node)
            continue
        steps += count_steps(node)
        if (
            steps > limits.expr_steps * (2 if _sums_bytes(producer) else 1)
            or len(outer_operands([*inside, node])) > limits.expr_operands
        ):
            break
        inside.append(node)
        for value in node.inputs:
            if value in open_uses:
                open_uses[value] -= 1
        open_uses[node.output] = len(node.output.users) + graph.is_output(node.output)
        still_open = [value for value, uses in open_uses.items() if uses]
        if still_open == [node.output] and (node.output.dtype == start.dtype or _may_store(producer, node.output)):
            best = len(inside)
    return inside[:best]


def _sources(producer: Node, region: Sequence[Node], limits: Limits) -> list[Node]:
    """What dequantizes operands of `region`, so that an epilogue of bytes reads these as bytes, a quarter of the
    memory."""
    if not _sums_bytes(producer):
        return []
    found: list[Node] = []
    steps = sum(map(count_steps, region))
    for value in outer_operands(region):
        chain = _dequantization(value) if equal_shapes(value.shape, region[-1].output.shape) else []
        if steps + len(chain) <= 2 * limits.expr_steps:
            found += [node for node in chain if node not in found]
            steps += len(chain)
    return found


def _dequantization(value: Value) -> list[Node]:
    """The nodes, in order, that make `value` of bytes by a cast and constants of one element; none if it is not made
    so."""
    chain: list[Node] = []
    while value.producer is not None and value.producer.op in ("cast", "sub", "mul") and value.dtype == f32:
        chain.insert(0, value.producer)
        varying = [each for each in value.producer.inputs if each is not None and as_step_constant(each) is None]
        if len(varying) != 1:
            return []
        (value,) = varying
        if chain[0].op == "cast":
            return chain if value.dtype in BYTES else []
    return []


def _drop_unread(graph: Graph, sources: Sequence[Node]) -> list[Node]:
    """Unlink and return those of `sources` that nothing reads any more."""
    dropped = []
    for node in reversed(sources):
        if not node.output.users and not graph.is_output(node.output):
            unlink(node)
            dropped.append(node)
    return dropped


def _fits(node: Node, producer: Node, inner: set[Value], dependence: Dependence, rivals: int) -> bool:
    if not is_scalar(node) or len(node.outputs) != 1:
        return False
    shape = producer.output.static_shape
    whole = _sums_bytes(producer) and node.op in _OF_INTEGERS
    if not equal_shapes(node.output.shape, shape):
        return False
    for value in (*node.inputs, node.output):
        assert value is not None
        if not (value.known_dtype.is_float or value.known_dtype.kind == "bool" or whole):
            return False
        if value in inner or value is node.output:
            continue
        fits = _lies_beside if producer.op == "block_matmul" else _broadcasts_to
        if not fits(value, shape) or dependence.of_value(value) & (dependence.bit[producer] | rivals):
            return False
    return True


def _broadcasts_to(value: Value, shape: StaticShape) -> bool:
    return equal_shapes(certain_broadcast(value.static_shape, shape), shape)


def _lies_beside(value: Value, shape: StaticShape) -> bool:
    """Whether `value` has one element in all, one for each place of the last axis of `shape`, or one for each place."""
    *outer, last = value.static_shape or (1,)
    single = all(equals(size, 1) for size in outer) and (equals(last, 1) or equals(last, shape[-1]))
    return equal_shapes(value.shape, shape) or (single and len(value.static_shape) <= len(shape))


def _fuse(
    graph: Graph, producer: Node, region: Sequence[Node], sources: Sequence[Node], dependence: Dependence
) -> None:
    """Move `region`, and copies of `sources`, into the epilogue of `producer`, which makes the region's last value from
    now on."""
    start, result = producer.output, region[-1].output
    made = {node.output for node in sources}
    before = next((i for i, node in enumerate(region) if made.intersection(node.inputs)), 0)
    expr, operands = build_expr([*region[:before], *sources, *region[before:]], [result], first=[start])
    extra = operands[1:]
    own = [*producer.inputs, *[None] * (_OWN_INPUTS[producer.op] - len(producer.inputs))]
    for node in (producer, *region):
        for index in range(len(node.inputs)):
            graph.set_input(node, index, None)
    producer.inputs = [None] * (len(own) + len(extra))
    for index, value in enumerate((*own, *extra)):
        graph.set_input(producer, index, value)
    producer.take_over([producer, *region])
    producer.name = join_names([producer, *region])
    producer.attrs = {**producer.attrs, "epilogue": expr}
    start.producer = None
    producer.outputs = [result]
    result.producer = producer
    dependence.before[producer] |= dependence.of_values(extra) & ~dependence.bit[producer]


def bias_apart(node: Node, edit: Edit) -> Value | None:
    """conv(x, w, b: [M]) -> add(conv(x, w, _), b': [M, 1, ...])"""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None or bias.shape is None or node.output.shape is None or "epilogue" in node.attrs:
        return None
    shape = (bias.static_shape[0], *([1] * (len(node.output.shape) - 2)))
    if bias.data is not None:
        operand = edit.constant(bias.data.reshape(shape), name=bias.name)
    else:
        operand = edit.reshape(bias, shape)
    return edit.add("add", [edit.add("conv", [*node.inputs[:2], None], node.attrs), operand])
