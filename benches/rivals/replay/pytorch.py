"""The ops of the benchmarks' models in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from onnx import helper
from torch.nn import functional

from benches.rivals.replay.walk import Array, Walk


def _tensor(value: Any) -> Any:
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value


def _conv(
    x: Any, w: Any, b: Any = None, *, strides: Any = (1, 1), pads: Any = (0,) * 4, group: int = 1, **_: Any
) -> Any:
    _symmetric(pads)
    return functional.conv2d(x, w, b, tuple(strides), tuple(pads[:2]), 1, group)


def _max_pool(x: Any, *, kernel_shape: Any, strides: Any, pads: Any = (0,) * 4, ceil_mode: int = 0, **_: Any) -> Any:
    if tuple(pads[:2]) != tuple(pads[2:]):
        x = functional.pad(x, (pads[1], pads[3], pads[0], pads[2]), value=float("-inf"))
        pads = (0,) * 4
    return functional.max_pool2d(x, tuple(kernel_shape), tuple(strides), tuple(pads[:2]), ceil_mode=bool(ceil_mode))


def _symmetric(pads: Any) -> None:
    if tuple(pads[:2]) != tuple(pads[2:]):
        raise ValueError(f"pads that differ at both ends are not replayed: {tuple(pads)}")


def _gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, **options: int) -> Any:
    product = torch.matmul(a.t() if options.get("transA") else a, b.t() if options.get("transB") else b)
    product = product if alpha == 1.0 else alpha * product
    return product if c is None else product + (c if beta == 1.0 else beta * c)


def _layer_norm(x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Any:
    return functional.layer_norm(x, x.shape[axis:], scale, bias, epsilon)


def _cast(x: Any, *, to: int, **_: Any) -> Any:
    return x.to(_tensor(np.zeros(0, helper.tensor_dtype_to_np_dtype(to))).dtype)


def _gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    x, indices = _tensor(x), _tensor(indices)
    if axis == 0 and x.dim() == 2 and x.is_floating_point():
        return functional.embedding(indices, x)
    return torch.index_select(x, axis, indices.reshape(-1)).reshape(
        (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    )


def _slice(x: Any, starts: Array, ends: Array, axes: Array) -> Any:
    for start, end, axis in zip(starts, ends, axes, strict=True):
        x = x.narrow(int(axis), int(start), int(end - start))
    return x


def _batch_norm(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, **_: Any) -> Any:
    return functional.batch_norm(x, mean, variance, scale, bias, eps=epsilon)


def _gates(w: Any, order: tuple[int, ...]) -> Any:
    """Returns the rows of [gates * hidden, ...] in PyTorch's order of gates."""
    blocks = w.chunk(len(order), 0)
    return torch.cat([blocks[i] for i in order], 0).contiguous()


def _recurrent(call: Callable[..., Any], order: tuple[int, ...], states: int) -> Callable[..., Any]:
    def run(x: Any, w: Any, r: Any, b: Any, *, hidden_size: int, direction: bytes = b"forward", **_: Any) -> Any:
        weights = []
        for i in range(w.shape[0]):
            half = b[i].chunk(2, 0)
            weights += [_gates(part, order) for part in (w[i], r[i], *half)]
        zero = torch.zeros(w.shape[0], x.shape[1], hidden_size)
        state = [zero] * states if states > 1 else zero
        y = call(x, state, weights, True, 1, 0.0, False, direction == b"bidirectional", False)[0]
        return y.reshape(*y.shape[:2], w.shape[0], hidden_size).permute(0, 2, 1, 3)

    return run


OPS: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: _tensor(a) + _tensor(b),
    "And": lambda a, b: torch.logical_and(_tensor(a), _tensor(b)),
    "AveragePool": lambda x, kernel_shape, strides, **_: functional.avg_pool2d(x, tuple(kernel_shape), tuple(strides)),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": lambda x, low, high: torch.clamp(x, float(low), float(high)),
    "Concat": lambda *xs, axis: torch.cat(xs, axis),
    "Conv": _conv,
    "Div": lambda a, b: _tensor(a) / _tensor(b),
    "Erf": torch.erf,
    "Expand": lambda x, shape: _tensor(x).expand(*np.broadcast_shapes(tuple(x.shape), tuple(shape))),
    "Flatten": lambda x, axis=1: x.reshape(int(np.prod(x.shape[:axis])), -1),
    "GRU": _recurrent(torch._VF.gru, (1, 0, 2), 1),
    "Gather": _gather,
    "GatherElements": lambda x, indices, axis=0: torch.gather(_tensor(x), axis, _tensor(indices)),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "GreaterOrEqual": lambda a, b: _tensor(a) >= _tensor(b),
    "Identity": lambda x: x,
    "LSTM": _recurrent(torch._VF.lstm, (0, 2, 3, 1), 2),
    "LayerNormalization": _layer_norm,
    "MatMul": torch.matmul,
    "MaxPool": _max_pool,
    "Mul": lambda a, b: _tensor(a) * _tensor(b),
    "ReduceSum": lambda x, axes, keepdims=1: torch.sum(x, tuple(int(a) for a in axes), bool(keepdims)),
    "Relu": functional.relu,
    "Reshape": lambda x, shape, **_: x.reshape(*(x.shape[i] if n == 0 else int(n) for i, n in enumerate(shape))),
    "Resize": lambda x, _roi, scales, **_: functional.interpolate(x, scale_factor=tuple(map(float, scales[2:]))),
    "Sigmoid": torch.sigmoid,
    "Slice": _slice,
    "Softmax": lambda x, axis=-1: functional.softmax(x, axis),
    "Split": lambda x, sizes, axis: torch.split(x, [int(n) for n in sizes], axis),
    "Tanh": torch.tanh,
    "Transpose": lambda x, perm: x.permute(*perm),
    "Where": lambda c, a, b: torch.where(_tensor(c), _tensor(a), _tensor(b)),
}


class Replay(torch.nn.Module):
    """A walked graph as a module whose constants are buffers."""

    def __init__(self, graph: Walk) -> None:
        super().__init__()
        self.graph = graph
        self.held: dict[int, torch.Tensor] = {}
        for array in graph.constants():
            if id(array) not in self.held and not np.issubdtype(array.dtype, np.integer):
                name = f"constant_{len(self.held)}"
                self.register_buffer(name, torch.from_numpy(np.array(array)))
                self.held[id(array)] = getattr(self, name)

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.graph.run(OPS, list(given), self._constant))

    def _constant(self, array: Array) -> torch.Tensor:
        return self.held[id(array)]
