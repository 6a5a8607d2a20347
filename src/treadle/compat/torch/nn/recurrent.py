"""LSTM, GRU and RNN: layer stacks and single steps. Weights have PyTorch's names and gate order."""

from __future__ import annotations

from typing import Any

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions import creation
from treadle.compat.torch.functions.rule import apply_rule
from treadle.compat.torch.nn.layers import uniform
from treadle.compat.torch.nn.module import Module
from treadle.compat.torch.tensor import Tensor


@tensor_function
def _run(op: str, x: Tensor, states: Any, weights: list[Tensor], *options: Any) -> Any:
    return tuple(apply_rule(f"{op}.input", (x, states, weights, *options)))


@tensor_function
def _step(op: str, x: Tensor, states: Any, *weights: Tensor | None) -> Any:
    found = apply_rule(f"{op}_cell", (x, states, *weights))
    return tuple(found) if isinstance(found, list) else found


class _Layers(Module):
    """A stack of layers over x [time, batch, width], [batch, time, width] with `batch_first`, or [time, width]."""

    op = "rnn_tanh"
    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        for layer in range(num_layers):
            width = input_size if not layer else hidden_size * (1 + bidirectional)
            for end in ("", "_reverse")[: 1 + bidirectional]:
                tall = self.gates * hidden_size
                self.register_parameter(f"weight_ih_l{layer}{end}", uniform(hidden_size, tall, width))
                self.register_parameter(f"weight_hh_l{layer}{end}", uniform(hidden_size, tall, hidden_size))
                if bias:
                    self.register_parameter(f"bias_ih_l{layer}{end}", uniform(hidden_size, tall))
                    self.register_parameter(f"bias_hh_l{layer}{end}", uniform(hidden_size, tall))

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Returns all states, and the last state (for LSTM also the cell) [layers * directions, batch, hidden]."""
        if input.ndim not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        pair = self.op == "lstm"
        if hx is None:
            batch = [] if input.ndim == 2 else [input.shape[0 if self.batch_first else 1]]
            zeros = creation.zeros(
                self.num_layers * (1 + self.bidirectional), *batch, self.hidden_size, dtype=input.dtype
            )
            hx = (zeros, zeros) if pair else zeros
        states, *last = _run(
            self.op, input, list(hx) if pair else hx, list(self.parameters()), self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        return states, tuple(last) if pair else last[0]

    def extra_repr(self) -> str:
        options = [f"{name}=True" for name in ("batch_first", "bidirectional") if getattr(self, name)]
        layers = [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        return ", ".join([str(self.input_size), str(self.hidden_size), *layers, *options])


class RNN(_Layers):
    """An Elman network: h' = tanh(W x + b + U h + c), or relu in place of tanh with `nonlinearity`."""

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(*args, **options)
        self.op = f"rnn_{nonlinearity}"


class LSTM(_Layers):
    """Long short-term memory; gates in the order input, forget, cell, output."""

    op = "lstm"
    gates = 4


class GRU(_Layers):
    """Gated recurrent units; gates in the order reset, update, new."""

    op = "gru"
    gates = 3


class _Cell(Module):
    """One step over x [batch, width] or [width]."""

    op = "rnn_tanh"
    gates = 1

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = uniform(hidden_size, self.gates * hidden_size, input_size)
        self.weight_hh = uniform(hidden_size, self.gates * hidden_size, hidden_size)
        self.bias_ih = uniform(hidden_size, self.gates * hidden_size) if bias else None
        self.bias_hh = uniform(hidden_size, self.gates * hidden_size) if bias else None

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Returns the next state; for LSTMCell the next state and cell."""
        pair = self.op == "lstm"
        if hx is None:
            zeros = creation.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype)
            hx = (zeros, zeros) if pair else zeros
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return _step(self.op, input, list(hx) if pair else hx, *weights)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_Cell):
    """One step of an RNN."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh") -> None:
        super().__init__(input_size, hidden_size, bias)
        self.op = f"rnn_{nonlinearity}"


class LSTMCell(_Cell):
    """One step of an LSTM."""

    op = "lstm"
    gates = 4


class GRUCell(_Cell):
    """One step of a GRU."""

    op = "gru"
    gates = 3
