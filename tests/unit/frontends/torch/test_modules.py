"""Real modules of torch.nn, exported, captured and scripted."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch uses it)")

from benches.torch.models import Bert, ResNet50, seeded  # noqa: E402 - after the skip
from torch import nn  # noqa: E402

import treadle  # noqa: E402
from tests.unit.frontends.torch import networks  # noqa: E402
from tests.unit.frontends.torch.running import assert_same, run, traced  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore::UserWarning:torch.*")


def seeded_input(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


MODULES = {
    "lstm": (lambda: nn.LSTM(4, 5, batch_first=True), (seeded_input(2, 3, 4),)),
    "gru": (lambda: nn.GRU(4, 5, 2, bidirectional=True), (seeded_input(3, 2, 4),)),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (seeded_input(2, 5, 8),) * 3),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (seeded_input(2, 5, 8),)),
    "decoder": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        (seeded_input(2, 5, 8), seeded_input(2, 6, 8)),
    ),
    "shuffled": (networks.Shuffled, (seeded_input(2, 3, 8, 8),)),
    "rotary_decoder": (networks.Decoder, (torch.arange(12).reshape(2, 6),)),
    "patches": (networks.Patches, (seeded_input(2, 3, 16, 16),)),
    "dense": (networks.Dense, (seeded_input(2, 3, 8, 8),)),
    "resnet": (lambda: ResNet50(classes=10, blocks=(1, 1, 1, 1)), (seeded_input(1, 3, 64, 64),)),
    "bert": (
        lambda: Bert(width=64, layers=2, heads=4, vocabulary=100, positions=32),
        (torch.arange(32).reshape(1, 32),),
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_exported(name: str) -> None:
    """
    A module with example inputs gives the results of eager PyTorch.
    """
    make, args = MODULES[name]
    module = seeded(make)
    with torch.no_grad():
        expected = module(*args)

    assert_same(run(treadle.Session(module, example_inputs=args), args), expected)


@pytest.mark.parametrize("name", ["encoder", "resnet", "bert", "shuffled", "rotary_decoder", "patches", "dense"])
def test_traced(name: str) -> None:
    """
    Its TorchScript trace gives them too.
    """
    make, args = MODULES[name]
    module = seeded(make)
    with torch.no_grad():
        expected = module(*args)

    assert_same(run(treadle.Session(traced(module, args)), args), expected)


@pytest.mark.parametrize("name", ["shuffled", "rotary_decoder", "patches", "dense"])
def test_scripted(name: str) -> None:
    """
    Its script gives them too, with the control flow that traces omit.
    """
    make, args = MODULES[name]
    module = seeded(make)
    with torch.no_grad():
        expected = module(*args)

    assert_same(run(treadle.Session(torch.jit.script(module)), args), expected)


@pytest.mark.parametrize("name", ["resnet", "bert"])
def test_every_step_has_a_kernel(name: str) -> None:
    """
    Attention is one kernel, batch norms are folded into convolutions, and no node runs by its reference.
    """
    make, args = MODULES[name]
    session = treadle.Session(seeded(make), example_inputs=args)
    run(session, args)
    calls = [call for plan in session.plans() for call in plan.calls]

    assert [call.op for call in calls if call.spec is None] == []
    assert ("attention" in {call.op for call in calls}) == (name == "bert")
    assert "batch_norm" not in {call.op for call in calls}


def test_symbols_of_the_exporter_are_kept() -> None:
    """
    One program serves every batch size; outputs are named by their keys.
    """

    class Keyed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> dict[str, object]:
            return {"logits": self.layer(x) + more["shift"], "rows": (x.shape[0],)}

    module = Keyed().eval()
    args = (seeded_input(2, 4), {"shift": seeded_input(3)})
    batch = torch.export.Dim("batch")
    session = treadle.Session(module, args, dynamic_shapes={"x": {0: batch}, "more": {"shift": None}})

    assert [tensor.name for tensor in session.outputs] == ["logits", "rows_0"]
    for rows in (2, 5, 3):
        x = seeded_input(rows, 4)
        got = session.run({"x": x.numpy(), "more_shift": args[1]["shift"].numpy()})
        assert_same(list(got.values()), module(x, args[1]))
