"""Windows of convolutions and pools: strides, pads, dilations, with auto_pad resolved."""

from collections.abc import Sequence

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.records import dataclass

MAX_EXTENT = 1 << 31


@dataclass(frozen=True, slots=True)
class Window:
    """The attributes of a window over n spatial axes; `pads` holds all begins, then all ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]


def per_axis(node: OnnxNode, attribute: str, rank: int, default: int, least: int) -> tuple[int, ...]:
    """An attribute with one number for each of `rank` axes.

    Raises Fault for another count or a number below `least`.
    """
    found = node.integers(attribute)
    if found is None:
        return (default,) * rank
    if len(found) != rank or any(not least <= number < MAX_EXTENT for number in found):
        raise Fault(
            f"attribute {attribute!r} must be {rank} numbers from {least} to {MAX_EXTENT - 1}, got {list(found)}"
        )
    return found


@dataclass(frozen=True, slots=True)
class SameWindow:
    """A window whose `pads`, one of ops.window.SAME, depend on sizes that are not known."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: str
    dilations: tuple[int, ...]


def window_of(node: OnnxNode, kernel: Sequence[int]) -> Window | SameWindow:
    """The window of a Conv or pool node with this kernel."""
    rank = len(kernel)
    if any(not 0 < size < MAX_EXTENT for size in kernel):
        raise Fault(f"the kernel must be 1 to {MAX_EXTENT - 1} along every axis, got {list(kernel)}")
    strides = per_axis(node, "strides", rank, 1, 1)
    dilations = per_axis(node, "dilations", rank, 1, 1)
    mode = node.choice("auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if mode == "NOTSET":
        pads = per_axis(node, "pads", 2 * rank, 0, 0)
    elif mode == "VALID":
        pads = (0,) * (2 * rank)
    else:
        totals = [_same(node, axis, kernel[axis], strides[axis], dilations[axis]) for axis in range(rank)]
        if None in totals:
            return SameWindow(tuple(kernel), strides, mode.lower(), dilations)
        pads = halved([total for total in totals if total is not None], upper=mode == "SAME_UPPER")
    return Window(tuple(kernel), strides, pads, dilations)


def conv_over(
    node: OnnxNode, window: Window | SameWindow, x: Value, weights: Value, bias: Value | None, b: Builder, **attrs: int
) -> Value:
    """The core convolution of x that the attributes of `node`, and its `window`, ask for."""
    return b.add(
        "conv",
        x,
        weights,
        bias,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        groups=node.integer("group", 1),
        **attrs,
    )


def _same(node: OnnxNode, axis: int, kernel: int, stride: int, dilation: int) -> int | None:
    """How much padding lets an axis of size n give ceil(n / stride) results."""
    extent = (kernel - 1) * dilation + 1
    if stride == 1:
        return extent - 1
    dims = node.dims(0)
    size = None if dims is None or len(dims) <= axis + 2 else dims[axis + 2]
    if size is None:
        return None
    return max(0, (-(-size // stride) - 1) * stride + extent - size)


def halved(totals: Sequence[int], *, upper: bool) -> tuple[int, ...]:
    """Pads that share out each total; an odd one's greater half goes to the end if `upper`."""
    begins = [total // 2 if upper else total - total // 2 for total in totals]
    return (*begins, *(total - begin for total, begin in zip(totals, begins, strict=True)))
