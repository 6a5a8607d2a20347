"""Which plans of a model are kept on disk, and found by later sessions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models.test_branches import detector, feeds, nested
from treadle.errors import ThreadSettingError

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for this test, filled by this process."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    return tmp_path / "cache"


def saved(tmp_path: Path, model: onnx.ModelProto) -> Path:
    """Writes `model` to a file and returns its path."""
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def assert_same_bits(one: treadle.Session, other: treadle.Session, given: Mapping[str, Array]) -> None:
    """Both sessions give the same bits."""
    wanted, got = one.run(given), other.run(given)
    assert wanted.keys() == got.keys()
    assert all(wanted[name].tobytes() == got[name].tobytes() for name in wanted)


class TestBranches:
    """The bodies of a branch are plans in the plan."""

    @pytest.mark.parametrize("rows", [5, "rows"])
    def test_a_second_session_compiles_nothing(self, tmp_path: Path, rows: int | str) -> None:
        """Both branches give the same bits, for fixed sizes and for open ones."""
        path = saved(tmp_path, detector(rows))
        first, second = treadle.Session(path), treadle.Session(path)

        for number in (5,) if rows == 5 else (1, 5, 70):
            for rate in (16_000, 8_000):
                assert_same_bits(first, second, feeds(number, rate))
        assert (first.compiles, second.compiles) == (1, 0)

    @pytest.mark.parametrize("a", [True, False])
    @pytest.mark.parametrize("b", [True, False])
    def test_a_branch_in_a_branch_is_stored(self, tmp_path: Path, *, a: bool, b: bool) -> None:
        """All four combinations take the branch that the conditions name."""
        path = saved(tmp_path, nested())
        first, second = treadle.Session(path), treadle.Session(path)
        x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)

        assert_same_bits(first, second, {"x": x, "a": np.array(a), "b": np.array(b)})
        assert (first.compiles, second.compiles) == (1, 0)

    def test_nodes_of_bodies_can_be_capped_by_their_names(self, tmp_path: Path) -> None:
        """The names are in the artifact, and a cap changes no bit."""
        path = saved(tmp_path, detector("rows"))
        first = treadle.Session(path)
        capped = treadle.Session(path, node_intra_op={"if2/fast_matmul": 1})

        assert capped.compiles == 0
        assert_same_bits(first, capped, feeds(70, 16_000))
        with pytest.raises(ThreadSettingError, match="if2/slow_matmul"):
            treadle.Session(path, node_intra_op={"slow_matmul": 1})

    def test_a_damaged_body_is_not_used(self, tmp_path: Path, folder: Path) -> None:
        """The model is compiled again and gives the same bits."""
        path = saved(tmp_path, detector())
        first = treadle.Session(path)
        file = max(folder.iterdir(), key=lambda one: one.stat().st_size)
        content = bytearray(file.read_bytes())
        content[content.index(b'"bodies":') + 40] ^= 1
        file.write_bytes(content)

        second = treadle.Session(path)
        assert second.compiles == 1
        assert_same_bits(first, second, feeds(5, 16_000))
