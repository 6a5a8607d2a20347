"""Branches and loops deep inside one another run natively, and are made in a time that does not multiply by level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from treadle.dtypes import boolean, f32, i32
from treadle.frontends.tensorflow import made_bodies
from treadle.frontends.tensorflow.translate import Translation
from treadle.passes import stage_bodies
from treadle.passes.stage_bodies import Findings

X = np.array([0.5, -1.5, 2.0, 0.25], np.float32)
AXIS = ("axis", "Const", [], {"dtype": i32, "value": np.array(0, np.int32)})


def branches_of_sizes(depth: int) -> Writer:
    """Each taken side has one more element, and a branch inside it."""
    write = Writer()
    write.function("inner0", {"x": f32}, {"y": "m:y:0"}, [("m", "Neg", ["x"], {"T": f32})])
    write.function("left", {"x": f32}, {"y": "m:y:0"}, [("m", "Square", ["x"], {"T": f32})])
    for level in range(1, depth + 1):
        attrs = {
            "then_branch": function_attr(f"inner{level - 1}"),
            "else_branch": function_attr("left"),
            "Tin": [f32],
            "Tout": [f32],
            "Tcond": boolean,
        }
        nodes: list[tuple[Any, ...]] = [
            AXIS,
            ("least", "Const", [], {"dtype": f32, "value": np.array(0, np.float32)}),
            ("sum", "Sum", ["x", "axis:output:0"], {"T": f32, "Tidx": i32, "keep_dims": False}),
            ("all", "ExpandDims", ["sum:output:0", "axis:output:0"], {"T": f32, "Tdim": i32}),
            ("test", "Greater", ["sum:output:0", "least:output:0"], {"T": f32}),
            ("more", "ConcatV2", ["x", "all:output:0", "axis:output:0"], {"T": f32, "N": 2, "Tidx": i32}),
            ("if", "If", ["test:z:0", "more:output:0"], attrs),
        ]
        write.function(f"inner{level}", {"x": f32}, {"y": "if:output:0"}, nodes)
    write.node(
        "PartitionedCall", write.input("x", (None,)), T=None, Tin=[f32], Tout=[f32], f=function_attr(f"inner{depth}"),
        name="y",
    )  # fmt: skip
    return write


def expected_of_sizes(depth: int, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    for _ in range(depth):
        more = np.append(x, x.sum())
        if x.sum() <= 0:
            return more**2
        x = more
    return -x


def session_of(write: Writer, tmp_path: Path) -> treadle.Session:
    path = tmp_path / "model.pb"
    path.write_bytes(write.bytes())
    return treadle.Session(path, outputs=["y"])


def test_branches_30_deep_are_native(tmp_path: Path) -> None:
    session = session_of(branches_of_sizes(30), tmp_path)
    for x in (X / 8, -X):
        np.testing.assert_allclose(session.run({"x": x})["y"], expected_of_sizes(30, x), rtol=1e-4)
    assert [call.node for plan in session.plans() for call in plan.calls if call.function is not None] == []


def test_bodies_are_not_made_again_for_each_level_around_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels more add bodies; they do not multiply those that are translated."""
    counts = []
    run = Translation.run

    def counted(*args: Any) -> None:
        counts[-1] += 1
        run(*args)

    monkeypatch.setattr(Translation, "run", counted)
    for depth in (5, 10, 20):
        counts.append(0)
        folder = tmp_path / str(depth)
        folder.mkdir()
        session_of(branches_of_sizes(depth), folder)
    assert counts[2] < 6 * counts[1] < 36 * counts[0]


def test_functions_that_call_one_another_twice_at_each_level_are_loaded(tmp_path: Path) -> None:
    """Expanded, this graph has 2^48 branches. They are not made in advance."""
    write = Writer()
    write.function("f0", {"x": f32}, {"y": "m:y:0"}, [("m", "Neg", ["x"], {"T": f32})])
    for level in range(1, 25):
        sides = {side: function_attr(f"f{level - 1}") for side in ("then_branch", "else_branch")}
        attrs = {**sides, "Tin": [f32], "Tout": [f32], "Tcond": boolean}
        nodes: list[tuple[Any, ...]] = [
            AXIS,
            ("least", "Const", [], {"dtype": f32, "value": np.array(0, np.float32)}),
            ("sum", "Sum", ["x", "axis:output:0"], {"T": f32, "Tidx": i32, "keep_dims": False}),
            ("test", "Greater", ["sum:output:0", "least:output:0"], {"T": f32}),
            ("first", "If", ["test:z:0", "x"], attrs),
            ("second", "If", ["test:z:0", "first:output:0"], attrs),
        ]
        write.function(f"f{level}", {"x": f32}, {"y": "second:output:0"}, nodes)
    found = function_attr("f24")
    write.node("PartitionedCall", write.input("x", (4,)), T=None, Tin=[f32], Tout=[f32], f=found, name="y")
    assert [port.name for port in session_of(write, tmp_path).outputs] == ["y"]


def test_what_is_made_of_bodies_is_bounded() -> None:
    """
    The least recently used of what is made later goes; what is kept is the same each time.
    """
    made = made_bodies.MadeBodies()
    first = made.later("first", object)
    for number in range(2 * made_bodies.MOST_LATER):
        made.later(number, object)
        if number % 100 == 0:
            assert made.later("first", object) is first
    assert len(made._later) == made_bodies.MOST_LATER


def test_what_is_found_for_bodies_is_bounded() -> None:
    findings = Findings()
    for number in range(2 * stage_bodies.MOST_FOUND):
        findings.forms.put(number, number)
    assert len(findings.forms) == stage_bodies.MOST_FOUND
    assert findings.forms.get(0) is None
