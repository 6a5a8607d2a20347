"""`treadle inspect` of models with open dimensions: expressions, guards, numbers for given sizes, and reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.models.small import FLOAT, ModelWriter
from tests.models.test_open_plans import doubled_if_short, positions, total
from tests.unit.cli.command import treadle

TEXT = onnx.TensorProto.STRING


def saved(model: onnx.ModelProto, folder: Path) -> str:
    """Returns the path of `model` in a file."""
    path = folder / "open.onnx"
    onnx.save(model, path)
    return str(path)


def inspected(path: str, *arguments: str) -> dict[str, Any]:
    """Returns the JSON report."""
    done = treadle("inspect", path, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def product() -> onnx.ModelProto:
    """Rows times their transpose, twice."""
    w = ModelWriter()
    y = w.op("MatMul", w.op("MatMul", "x", w.random(8, 8)), w.op("Transpose", "x", perm=[1, 0]))
    twice = w.op("Concat", y, y, axis=0)
    return w.model({"x": (FLOAT, ["length", 8])}, {twice: (FLOAT, ["rows", "length"])})


def test_sizes_are_expressions(tmp_path: Path) -> None:
    """Of outputs, of the results of steps, and of their FLOPs. No run chooses sizes."""
    path = saved(product(), tmp_path)

    report, text = inspected(path), treadle("inspect", path).stdout

    (plan,) = report["open_plans"]
    assert plan["guards"] == ["length >= 1"]
    assert plan["outputs"][0]["shape"] == ["2*length", "length"]
    assert [step["shapes"] for step in report["steps"]][-1] == [["2*length", "length"]]
    assert next(step["flops"] for step in report["steps"] if step["op"] == "matmul") == "128*length"
    assert (report["sizes"], report["arena_bytes"], report["compiles"]) == (None, None, 1)
    assert "plan 1 of 1, is valid for\n  length >= 1\n" in text
    assert "[2*length, length]" in text
    assert "estimate" not in text


def test_sizes_given_are_numbers(tmp_path: Path) -> None:
    """The plan that serves them is named; the shapes of inputs and outputs stay expressions."""
    path = saved(product(), tmp_path)

    report, text = inspected(path, "--dim", "length=5"), treadle("inspect", path, "--dim", "length=5").stdout

    assert (report["sizes"], report["valid"], report["compiles"]) == ({"length": 5}, [0], 1)
    assert [step["shapes"] for step in report["steps"]][-1] == [[10, 5]]
    assert report["flops"] >= 2 * (5 * 8 * 8 + 5 * 8 * 5)
    assert report["open_plans"][0]["outputs"][0]["shape"] == ["2*length", "length"]
    assert "plan 1 of 1, used for these sizes, is valid for\n  length >= 1\n" in text
    assert "plan for length = 5 (" in text
    assert "[2*length, length]" in text
    assert "[10, 5]" in text


def test_sizes_beyond_a_guard_show_both_plans(tmp_path: Path) -> None:
    """The second plan is compiled for them."""
    text = treadle("inspect", saved(doubled_if_short(), tmp_path), "--dim", "length=3").stdout

    assert "plan 1 of 2, is valid for\n  length >= 16\n" in text
    assert "plan 2 of 2, used for these sizes, is valid for\n  length >= 1\n  length <= 15\n" in text


def test_a_model_that_is_compiled_for_each_size_says_why(tmp_path: Path) -> None:
    """As text, and with the nodes in JSON."""
    w = ModelWriter()
    y = w.op("StringNormalizer", "x", stopwords=["a"])
    path = saved(w.model({"x": (TEXT, ["length"])}, {y: (TEXT, None)}), tmp_path)

    report, text = inspected(path), treadle("inspect", path).stdout

    assert report["open_plans"] == []
    assert report["per_size"] == {
        "reason": "only Python can tell the shape of a result",
        "nodes": [{"node": "stringnormalizer0", "op": "StringNormalizer"}],
    }
    assert (report["sizes"], report["compiles"]) == ({"length": 1}, 1)
    assert "each combination of sizes is compiled for itself: only Python can tell the shape of a result" in text


def test_sizes_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    """Also those that are 1 because they are not given, which the message says."""
    path = saved(total(), tmp_path)
    contradiction = treadle("inspect", path, "--dim", "a=3", "--dim", "b=4")
    beyond = treadle("inspect", saved(positions(), tmp_path), "--dim", "length=65")
    w = ModelWriter()
    y, z = w.op("StringNormalizer", "t", stopwords=["a"]), w.op("MaxPool", "x", kernel_shape=[9, 9])
    mixed = w.model({"x": (FLOAT, [1, 3, "height", "width"]), "t": (TEXT, [3])}, {y: (TEXT, None), z: (FLOAT, None)})
    small = treadle("inspect", saved(mixed, tmp_path))

    assert contradiction.returncode == 1
    assert "ShapeError: node 'add0' (add): shapes [3, 8] and [4, 8] do not broadcast" in contradiction.stderr
    assert beyond.stderr.endswith("[65, 8] and [64, 8] do not broadcast: 65 and 64 on axis 0\n")
    assert small.returncode == 1
    assert "give other sizes than 1 with --dim for height, width" in small.stderr
    assert (
        "compiled for itself: only Python can tell the shape of a result: stringnormalizer0 (StringNormalizer)"
        in small.stderr
    )


@pytest.mark.parametrize("size", ["16", "300"])
def test_a_session_of_a_static_model_has_no_open_plan(tmp_path: Path, size: str) -> None:
    """Neither plans for all sizes nor a reason."""
    w = ModelWriter()
    path = saved(w.model({"x": (FLOAT, [int(size), 8])}, {w.op("Softmax", "x"): (FLOAT, None)}), tmp_path)

    report = inspected(path)

    assert (report["open_plans"], report["per_size"]) == ([], None)
    assert report["steps"][0]["shapes"] == [[int(size), 8]]


def test_tiles_that_binding_searches_for_have_sizes(tmp_path: Path) -> None:
    """A step's results may have shapes that the native core chooses, such as the tiles of Winograd's algorithm."""
    w = ModelWriter()
    y = w.op("Conv", "x", w.random(128, 128, 3, 3), pads=[1, 1, 1, 1])
    path = saved(w.model({"x": (FLOAT, [1, 128, "height", "width"])}, {y: (FLOAT, [1, 128, "h", "w"])}), tmp_path)

    (plan,) = inspected(path)["open_plans"]
    bound = inspected(path, "--dim", "height=14", "--dim", "width=20")

    assert all(found for each in plan["variants"] for found in each["ranges"].values())
    assert all(isinstance(dim, int) for step in bound["steps"] for dims in step["shapes"] for dim in dims)
    assert [128, 14, 20] in [dims[1:] for step in bound["steps"] for dims in step["shapes"]]


def test_steps_behind_sizes_that_depend_on_data_are_listed(tmp_path: Path) -> None:
    """
    For given sizes a run finds the plan behind them; its shapes stay expressions.
    """
    w = ModelWriter()
    places = w.op("Transpose", w.op("NonZero", "x"), perm=[1, 0])
    y = w.op("Relu", w.op("GatherND", "x", places))
    path = saved(w.model({"x": (FLOAT, ["rows", "columns"])}, {y: (FLOAT, None)}), tmp_path)

    steps = inspected(path, "--dim", "rows=2", "--dim", "columns=3")["steps"]

    assert [step["op"] for step in steps][-2:] == ["gather_nd", "elementwise"]


def test_python_steps_between_plans_are_listed(tmp_path: Path) -> None:
    """
    What splits texts has results of unknown size; it runs by the reference, between two plans.
    """
    w = ModelWriter()
    y = w.op("StringNormalizer", "x", stopwords=["a"])
    path = saved(w.model({"x": (TEXT, ["n"])}, {y: (TEXT, None)}), tmp_path)

    steps = inspected(path, "--dim", "n=3")["steps"]

    assert [(step["op"], step["native"]) for step in steps] == [("StringNormalizer", False)]
