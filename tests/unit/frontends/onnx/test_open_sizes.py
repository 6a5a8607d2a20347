"""Models whose sizes are open: what a model does may depend on them, and is decided by what comes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import treadle
from treadle.errors import ModelError
from treadle.frontends.onnx.importer import import_model
from treadle.frontends.onnx.reader import read
from treadle.graph.graph import Graph

ROWS = (0, 1, 2, 5, 8, 99, 100, 101, 480, 700, 2000)

CONDITIONS = {
    "two": ("two = Constant <value_int = 2> () c = Equal (n, two)", lambda n: n == 2),
    "at_least_two": ("two = Constant <value_int = 2> () c = GreaterOrEqual (n, two)", lambda n: n >= 2),
    "some": ("c = Cast <to = 9> (n)", bool),
    "even": (
        "two = Constant <value_int = 2> () r = Mod (n, two) c0 = Cast <to = 9> (r) c = Not (c0)",
        lambda n: n % 2 == 0,
    ),
    "thousands": (
        """k = Constant <value_float = 0.001> () f = Cast <to = 1> (n) g = Mul (f, k) i = Cast <to = 7> (g)
           c = Equal (i, zero_)""",
        lambda n: n < 1000,
    ),
    "few": ("k = Constant <value_int = 200> () q = Div (n, k) c0 = Cast <to = 9> (q) c = Not (c0)", lambda n: n < 200),
    "many": (
        """zero = Constant <value_ints = [0]> () k = Constant <value_ints = [100]> () head = Slice (x, zero, k)
           hs = Shape <start = 0, end = 1> (head) c1 = Equal (hs, k) c = Squeeze (c1)""",
        lambda n: n >= 100,
    ),
}  # fmt: skip


def content(body: str, result: str = "float[a, b] y") -> bytes:
    """A model of opset 18 with the input x [rows, 3]; n is the number of its rows."""
    start = "zero_ = Constant <value_int = 0> () sx = Shape (x) n = Gather (sx, zero_)"
    text = f'<ir_version: 8, opset_import: ["": 18]> g (float[rows, 3] x) => ({result}) {{ {start} {body} }}'
    return bytes(parser.parse_model(text).SerializeToString())


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_on_an_open_size_is_decided_by_each_run(name: str) -> None:
    """
    Comparisons, remainders, quotients, and slices that may find less than they want.
    """
    condition, truth = CONDITIONS[name]
    branches = """y = If (c) <then_branch = t () => (float[p, q] u) { u = Add (x, x) },
                               else_branch = e () => (float[p, q] v) { v = Neg (x) }>"""
    session = treadle.Session(content(f"{condition} {branches}"))

    for rows in ROWS:
        x = np.ones((rows, 3), np.float32)
        assert session.run({"x": x})["y"].tolist() == (2 * x if truth(rows) else -x).tolist(), rows


def test_ranks_and_numbers_are_known_behind_questions_that_only_a_run_answers() -> None:
    """
    Whether sizes are equal or 1 decides about sizes, not about the rank; a number that fits all cases is known.
    """
    body = """shape = Constant <value_ints = [-1, 5]> () r = Reshape (x, shape) s = Add (r, b) t = Add (s, a)
              y = Softmax <axis = -1> (t)"""
    start = '<ir_version: 8, opset_import: ["": 18]> g (float[rows, 3] x, float[5] b, float[p, q, m] a) => (float[] y)'
    graph = import_model(read(bytes(parser.parse_model(f"{start} {{ {body} }}").SerializeToString())))

    assert [node.attrs["axis"] for node in graph.nodes if node.op == "softmax"] == [2]
    assert all(value.shape is None for node in graph.nodes[:-1] for value in node.outputs)


def test_what_fits_no_size_is_a_fault_of_the_model() -> None:
    """
    The inner sizes of a product that are numbers; others may fit in a run.
    """
    body = "k = Constant <value_ints = [3, 7]> () w = Expand (one, k) one = CastLike (o, x) y = MatMul (h, w)"
    start = '<ir_version: 8, opset_import: ["": 18]> g (float[rows] x, float[cols] o, float[rows, {}] h) => (float[] y)'

    def imported(width: str) -> Graph:
        content = parser.parse_model(f"{start.format(width)} {{ {body} }}").SerializeToString()
        return import_model(read(bytes(content)))

    assert [node.op for node in imported("width").nodes][-1] == "matmul"
    with pytest.raises(ModelError, match=r"MatMul.*inner sizes differ: a is \[rows, 4\], b is \[3, 7\]"):
        imported("4")


def test_axes_that_hang_on_an_open_size_are_those_of_each_run() -> None:
    """
    Two rows are summed over the rows, others over the columns.
    """
    axes = """two = Constant <value_ints = [2]> () zero = Constant <value_ints = [0]> ()
              one = Constant <value_ints = [1]> ()
              c = Equal (n, two) axes = Where (c, zero, one)"""
    session = treadle.Session(content(f"{axes} y = ReduceSum <keepdims = 1> (x, axes)"))

    assert [session.run({"x": np.ones((rows, 3), np.float32)})["y"].shape for rows in (1, 2, 3)] == [
        (1, 1),
        (1, 3),
        (3, 1),
    ]


def test_what_cancels_out_is_known_all_the_same() -> None:
    """
    A branch is taken when the model is loaded if its condition is the same for all sizes.
    """
    same = "a = Sub (n, n) c = Equal (a, zero_)"
    width = (
        "one = Constant <value_int = 1> () three = Constant <value_int = 3> () "
        "w = Gather (sx, one) c = Equal (w, three)"
    )
    ratio = "two = Constant <value_int = 2> () t = Mul (n, two) q = Div (t, n) c = Equal (q, two)"
    branches = """y = If (c) <then_branch = t () => (float[p, q] u) { u = Add (x, x) },
                               else_branch = e () => (float[p, q] v) { v = Neg (x) }>"""
    for condition in (same, width, ratio):
        ops = [node.op for node in import_model(read(content(f"{condition} {branches}"))).nodes]
        assert "add" in ops, condition
        assert "call" not in ops, condition


def test_an_unknown_branch_leaves_what_follows_compiled() -> None:
    """
    Sizes behind a slice of an open axis stay open, and outputs do not claim them.
    """
    body = """zero = Constant <value_ints = [0]> () k = Constant <value_ints = [100]> () head = Slice (x, zero, k)
              h = Relu (head) y = Softmax <axis = 1> (h)"""
    session = treadle.Session(content(body))

    assert [session.run({"x": np.ones((rows, 3), np.float32)})["y"].shape for rows in (7, 100, 300)] == [
        (7, 3),
        (100, 3),
        (100, 3),
    ]
    assert all(call.spec is not None for plan in session.plans() for call in plan.calls)


def test_an_identity_of_open_size_has_the_type_of_its_operand() -> None:
    """
    Unless it states another.
    """
    body = "y = EyeLike (x) z = EyeLike <dtype = 7, k = 1> (x)"
    found = treadle.Session(content(body, "float[a, b] y, int64[a, b] z")).run({"x": np.ones((2, 3), np.float32)})

    assert found["y"].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert found["z"].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert (found["y"].dtype, found["z"].dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("op", ["RandomNormalLike", "RandomUniformLike"])
def test_random_numbers_have_the_type_of_their_operand(op: str) -> None:
    """
    Unless they state another.
    """
    body = f"y = {op} (x) z = {op} <dtype = 11> (x)"
    found = treadle.Session(content(body, "float[a, b] y, double[a, b] z")).run({"x": np.ones((2, 3), np.float32)})

    assert (found["y"].dtype, found["z"].dtype) == (np.float32, np.float64)
    assert found["y"].shape == found["z"].shape == (2, 3)
