"""Attributes and operands of single nodes in files that TensorFlow treats specially or rejects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer
from treadle.dtypes import bf16, boolean, f32, i32, i64
from treadle.errors import TreadleError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ANY = ("known sizes", "unknown sizes")


def result(op: str, *operands: Any, unknown: bool = False, index: int = 0, **attrs: Any) -> np.ndarray:
    """One result of a node; arrays of floats are fed, other operands are constants."""
    w, names, feeds = Writer(), [], {}
    for at, operand in enumerate(operands):
        if isinstance(operand, np.ndarray) and operand.dtype.kind == "f":
            names.append(w.input(f"x{at}", (None,) * operand.ndim if unknown else operand.shape))
            feeds[f"x{at}"] = operand
        else:
            names.append(w.constant(operand))
    w.node(op, *names, name="node", **attrs)
    (found,) = treadle.Session(w.bytes(), outputs=[f"node:{index}"]).run(feeds).values()
    return found


REFUSED: dict[str, tuple[Any, ...]] = {
    "a product of tensors of rank 3": ("MatMul", X, X[0].T),
    "a product of batches that broadcast": ("BatchMatMul", X, X[:1].swapaxes(1, 2)),
    "a convolution of rank 3": ("Conv2D", X, X, {"strides": [1, 1, 1], "padding": "SAME"}),
    "another shape than ensured": ("EnsureShape", X, {"shape": (2, None, 5)}),
    "bounds of another shape": ("ClipByValue", X, X[0], np.array(9, np.float32)),
    "a sum of two shapes": ("AddN", X, X[0], {"N": 2}),
    "a choice between two shapes": ("Select", np.array(True), X, X[0]),
    "another number of parts than of sizes": ("SplitV", X, np.array([1, 1]), np.int32(0), {"num_split": 3}),
    "a cast that cuts bits off": ("Cast", X, {"SrcT": f32, "DstT": bf16, "Truncate": True}),
    "indices that are left out": ("GatherNd", X, np.array([[1]]), {"Tparams": f32, "bad_indices_policy": "IGNORE"}),
    "training": ("FusedBatchNormV3", X[None], *[X[0, 0]] * 4, {"U": f32, "is_training": True}),
    "training, as it is if nothing is said": ("FusedBatchNormV3", X[None], *[X[0, 0]] * 4, {"U": f32}),
    "scales of another length": ("FusedBatchNorm", X[None], *[X[0, 0, :1]] * 4, {"is_training": False}),
    "a bias of one number for four": ("BiasAdd", X, X[0, 0, :1]),
    "shapes that are unequal, as an error": ("Equal", X, X[:, :2]),
}


@pytest.mark.parametrize("unknown", [False, True], ids=ANY)
@pytest.mark.parametrize("what", REFUSED)
def test_nodes_that_tensorflow_rejects_raise(what: str, unknown: bool) -> None:
    op, *operands = REFUSED[what]
    attrs = operands.pop() if isinstance(operands[-1], dict) else {}

    with pytest.raises(TreadleError):
        result(op, *operands, unknown=unknown, **attrs)


@pytest.mark.parametrize("unknown", [False, True], ids=ANY)
def test_shapes_that_do_not_broadcast_are_unequal_if_the_node_allows_it(unknown: bool) -> None:
    found = [
        result(op, X, X[:, :2], unknown=unknown, incompatible_shape_error=False).tolist()
        for op in ("Equal", "NotEqual")
    ]

    assert found == [False, True]


def test_the_default_epsilon_of_normalisation_is_that_of_tensorflow() -> None:
    mean, variance = np.zeros(4, np.float32), np.full(4, 1e-3, np.float32)

    found = result("FusedBatchNormV3", X[None], mean + 1, mean, mean, variance, U=f32, is_training=False)

    np.testing.assert_allclose(found, X[None] / np.sqrt(1e-3 + 1e-4), rtol=1e-5)


def test_indices_of_top_k_have_the_declared_type() -> None:
    assert [result("TopKV2", X, np.int32(2), index=1, **how).dtype for how in ({}, {"index_type": i64})] == [
        np.int32,
        np.int64,
    ]


@pytest.mark.parametrize(("op", "kind"), [("ArgMax", np.int64), ("Shape", np.int32), ("Size", np.int32)])
def test_default_types_are_those_of_tensorflow(op: str, kind: Any) -> None:
    """
    Also where the node runs after a shape that only the run knows.
    """
    w = Writer()
    places = w.node("Where", w.input("mask", (3,), "bool"), T=boolean)
    w.node(op, places, *([w.constant(0, np.int32)] if op == "ArgMax" else []), name="node", T=i64)

    session = treadle.Session(w.bytes(), outputs=["node"])
    (found,) = session.run({"mask": np.array([True, False, True])}).values()

    assert found.dtype == session.outputs[0].dtype == kind


def test_the_mean_of_no_integers_is_0() -> None:
    w = Writer()
    w.node("Mean", w.input("x", (0, 2), "i32"), w.constant(0, np.int32), name="node", T=i32)

    assert treadle.Session(w.bytes()).run({"x": np.zeros((0, 2), np.int32)})["node"].tolist() == [0, 0]


def test_an_empty_list_of_axes_squeezes_all_of_size_1() -> None:
    w = Writer()
    w.node("Squeeze", w.input("x", (1, 3, 1)), name="node")
    w.graph.node[-1].attr["squeeze_dims"].list.SetInParent()

    assert treadle.Session(w.bytes()).run({"x": X[:1, :, :1]})["node"].shape == (3,)


def test_indices_of_no_axes_take_the_whole_tensor() -> None:
    found = result("GatherNd", X, np.zeros((2, 0), np.int32), T=None, Tparams=f32, Tindices=i32)

    np.testing.assert_array_equal(found, np.stack([X, X]))
