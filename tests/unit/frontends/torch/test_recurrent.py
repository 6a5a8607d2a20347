"""LSTM, GRU and RNN layers and cells agree with PyTorch, however the program was captured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch uses it)")

import treadle  # noqa: E402
from treadle.errors import UnsupportedModelError  # noqa: E402 - after the skip

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
nn = torch.nn

LAYERS: dict[str, Any] = {
    "lstm": lambda: nn.LSTM(6, 4),
    "lstm of two layers, both ways, batch first": lambda: nn.LSTM(6, 4, 2, bidirectional=True, batch_first=True),
    "lstm without biases": lambda: nn.LSTM(6, 4, bias=False),
    "lstm with dropout between layers": lambda: nn.LSTM(6, 4, 2, dropout=0.5),
    "gru": lambda: nn.GRU(6, 4),
    "gru of three layers, both ways, batch first": lambda: nn.GRU(6, 4, 3, bidirectional=True, batch_first=True),
    "gru without biases": lambda: nn.GRU(6, 4, bias=False),
    "rnn": lambda: nn.RNN(6, 4),
    "rnn of relu, both ways": lambda: nn.RNN(6, 4, nonlinearity="relu", bidirectional=True),
}


class Cells(nn.Module):
    """One step of each."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(6, 4), nn.GRUCell(6, 4), nn.RNNCell(6, 4, nonlinearity="relu")

    def forward(self, x):
        h, c = self.lstm(x)
        return h, c, self.gru(x, h), self.rnn(x)


class Given(nn.Module):
    """First states are arguments."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(6, 4, batch_first=True)

    def forward(self, x, h, c):
        states, (h, c) = self.layer(x, (h, c))
        return states, h, c


def flat(result: Any) -> list[Any]:
    return [leaf for entry in result for leaf in flat(entry)] if isinstance(result, tuple | list) else [result]


def sessions(module: Any, args: tuple[Any, ...]) -> dict[str, treadle.Session]:
    return {
        "script": treadle.Session(torch.jit.script(module)),
        "trace": treadle.Session(torch.jit.trace(module, args)),
        "export": treadle.Session(module, example_inputs=args),
    }


def agree(module: Any, args: tuple[Any, ...]) -> None:
    module.eval()
    with torch.no_grad():
        expected = flat(module(*args))
    for session in sessions(module, args).values():
        feed = {value.name: x.numpy() for value, x in zip(session.inputs, args, strict=True)}
        for want, got in zip(expected, session.run(feed).values(), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
@pytest.mark.parametrize("shape", [(5, 2, 6), (5, 6)], ids=["batch", "one"])
def test_layers_agree_with_pytorch(make, shape):
    """
    States and last states; also of a scripted layer alone, which has two forward methods.
    """
    agree(make(), (torch.randn(*shape),))


def test_cells_agree_with_pytorch():
    """
    One step of a batch.
    """
    agree(Cells(), (torch.randn(3, 6),))


def test_first_states_may_be_arguments():
    """
    As in decoders that keep their state.
    """
    agree(Given(), (torch.randn(2, 5, 6), torch.randn(1, 2, 4), torch.randn(1, 2, 4)))


def test_a_saved_script_with_a_layer_is_read(tmp_path):
    """
    `treadle.Session("model.pt")` runs it for any length.
    """
    module = nn.Sequential(nn.Linear(6, 6), nn.GRU(6, 4)).eval()
    torch.jit.save(torch.jit.script(module), str(tmp_path / "model.pt"))
    session = treadle.Session(str(tmp_path / "model.pt"))
    for time in (1, 7):
        x = torch.randn(time, 2, 6)
        with torch.no_grad():
            expected = module(x)[0]
        np.testing.assert_allclose(
            next(iter(session.run({"input": x.numpy()}).values())), expected, rtol=1e-5, atol=1e-6
        )


def test_projected_states_are_refused_by_name():
    """
    Their weights are not read as other weights.
    """
    with pytest.raises(UnsupportedModelError, match="proj_size"):
        treadle.Session(nn.LSTM(6, 4, proj_size=2).eval(), example_inputs=(torch.randn(5, 2, 6),))
