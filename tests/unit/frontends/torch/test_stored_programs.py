"""PyTorch files are kept on disk in their compiled form: a second process imports no PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch installs and uses it)")

from torch import nn  # noqa: E402 - after the skip
from torch.export import Dim  # noqa: E402

import treadle  # noqa: E402
from tests.models.second_process import run_in_process  # noqa: E402
from treadle.errors import InputError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder for this test, filled by this process."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")


def layers() -> Any:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def assert_found_again(path: Path, rows: tuple[int, ...], compiles: int, tmp_path: Path) -> None:
    """A first session compiles `compiles` plans, and a later process none; both give the same bits."""
    first = treadle.Session(path)
    (name,) = (tensor.name for tensor in first.inputs)
    runs = [{name: numbers(number, 16)} for number in rows]
    wanted = [first.run(run) for run in runs]
    found = run_in_process(path, runs, tmp_path)

    assert (first.compiles, found.compiles, found.imported) == (compiles, 0, [])
    for one, other in zip(wanted, found.outputs, strict=True):
        assert {key: array.tobytes() for key, array in one.items()} == {
            key: array.tobytes() for key, array in other.items()
        }


def test_a_script_is_stored_for_the_shapes_of_its_runs(tmp_path: Path) -> None:
    """TorchScript declares none: the first has a plan for itself, the others have one together."""
    torch.jit.save(torch.jit.script(layers()), tmp_path / "model.pt")
    assert_found_again(tmp_path / "model.pt", (4, 1, 70, 7), 2, tmp_path)


def test_an_exported_program_is_stored(tmp_path: Path) -> None:
    """With fixed shapes it has one plan."""
    torch.export.save(torch.export.export(layers(), (torch.zeros(4, 16),)), tmp_path / "model.pt2")
    assert_found_again(tmp_path / "model.pt2", (4,), 1, tmp_path)


def test_an_exported_program_with_open_dimensions_keeps_their_bounds(tmp_path: Path) -> None:
    """One plan serves all sizes, and sizes out of the declared range are refused by a later session too."""
    path = tmp_path / "model.pt2"
    shapes = ({0: Dim("rows", min=2, max=50)},)
    torch.export.save(torch.export.export(layers(), (torch.zeros(4, 16),), dynamic_shapes=shapes), path)
    assert_found_again(path, (4, 2, 50), 1, tmp_path)

    again = treadle.Session(path)
    with pytest.raises(InputError, match=r"wanted \w+ from \d to 50"):
        again.run({again.inputs[0].name: numbers(51, 16)})
    assert again.compiles == 0


def test_dimensions_computed_from_others_are_compiled_in_each_session(tmp_path: Path) -> None:
    """What computes them has no form on disk."""
    path = tmp_path / "model.pt2"
    shapes = ({0: 2 * Dim("half", min=2, max=50)},)
    torch.export.save(torch.export.export(layers(), (torch.zeros(8, 16),), dynamic_shapes=shapes), path)
    for _ in range(2):
        session = treadle.Session(path)
        assert session.run({session.inputs[0].name: numbers(6, 16)})
        assert session.compiles == 1
