"""What the driver of the packages' programs counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from onnx import helper

import treadle
from tests.compat.onnxruntime import models
from tests.packages.programs.driver import counting, ways

X = np.eye(3, dtype=np.float32) * 2


def calls(model: bytes, given: dict[str, Any]) -> Counter[str]:
    session = treadle.Session(model)
    session.run(given)
    found: Counter[str] = Counter()
    with counting(found):
        session.run(given)
        session.run(given)
    session.run(given)
    return found


def test_calls_within_plans_are_counted() -> None:
    node = helper.make_node("Det", ["x"], ["y"])
    x, y = models.tensor("x", models.FLOAT, [3, 3]), models.tensor("y", models.FLOAT, [])
    assert calls(models.model([node], [x], [y]), {"x": X}) == {"Det": 2}


def test_calls_between_plans_are_counted() -> None:
    """Texts are in no plan."""
    x, y = (models.tensor(name, models.STRING, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("StringConcat", ["x", "x"], ["y"])], "texts", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    assert calls(model.SerializeToString(), {"x": np.array(["a"], object)}) == {"StringConcat": 2}


def test_objects_made_of_outputs_are_counted() -> None:
    assert calls(models.classifier(), {"x": X}) == {"ZipMap": 2}
    assert calls(models.rows(), {"x": X}) == {"ObjectFunction": 2}


def test_native_steps_are_no_calls() -> None:
    session = treadle.Session(models.classifier())
    found = ways(lambda: session.run({"x": X}, ["x2"]))
    assert sum(found["steps"].values()) > 0
    assert not found["steps_in_python"]
