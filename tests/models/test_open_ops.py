"""Single ops of open sizes: one plan, made while loading, gives the results of fixed sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
Dims = Sequence[int | str]

SIZES = [
    {"b": 1, "h": 5, "w": 7},
    {"b": 3, "h": 64, "w": 33},
    {"b": 2, "h": 1, "w": 1},
    {"b": 7, "h": 30, "w": 2},
    {"b": 1, "h": 200, "w": 130},
    {"b": 61, "h": 9, "w": 3},
]
LONG = [sizes for sizes in SIZES if sizes["h"] >= 5]
WIDE = [sizes for sizes in SIZES if min(sizes["h"], sizes["w"]) > 1]
EVEN = [{"b": 1, "h": 4, "w": 6}, {"b": 2, "h": 64, "w": 32}, {"b": 2, "h": 2, "w": 2}]
LATERAL = [
    {"b": 1, "h": 5, "w": 7, "p": 10, "q": 14},
    {"b": 2, "h": 3, "w": 4, "p": 7, "q": 9},
    {"b": 1, "h": 13, "w": 1, "p": 20, "q": 20},
    {"b": 3, "h": 40, "w": 30, "p": 20, "q": 15},
    {"b": 1, "h": 5, "w": 5, "p": 5, "q": 9},
]
"""Sizes of two images: smaller, larger, and the same height."""

IMAGE: dict[str, Dims] = {"x": ["b", 3, "h", "w"]}


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile their model themselves: with this knob they neither read nor write compiled models."""
    monkeypatch.setenv("TREADLE_DEBUG", "1")


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Returns values around 0."""
    return rng.standard_normal(shape).astype(np.float32)


def halves(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Returns float16 values around 0."""
    return rng.standard_normal(shape).astype(np.float16)


def whole(low: int, high: int, dtype: type = np.int64) -> Draw:
    """Returns a function that draws integers from `low` to `high`, without it."""
    return lambda rng, shape: rng.integers(low, high, shape).astype(dtype)


@dataclass(frozen=True)
class Case:
    """A model of some nodes.

    Attributes:
        nodes: Its nodes.
        inputs: The dimensions of its inputs: numbers, and names of open sizes.
        constants: Its initialisers.
        outputs: The names of its outputs.
        draws: How to draw the values of inputs; normal, if not given.
        sizes: The sizes to run it for.
        opset: The version of its operators.
    """

    nodes: Sequence[onnx.NodeProto]
    inputs: Mapping[str, Dims]
    constants: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    draws: Mapping[str, Draw] = field(default_factory=dict)
    sizes: Sequence[Mapping[str, int]] = tuple(SIZES)
    opset: int = 19

    def model(self, fixed: Mapping[str, int] | None = None) -> bytes:
        """Returns the model; with `fixed`, its open dimensions have these sizes."""
        inputs = []
        for name, dims in self.inputs.items():
            dtype = self.draws.get(name, normal)(np.random.default_rng(0), (1,)).dtype
            shape = [(fixed or {}).get(dim, dim) if isinstance(dim, str) else dim for dim in dims]
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape))
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()]
        graph = helper.make_graph(list(self.nodes), "case", inputs, outputs, constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 3)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())

    def feeds(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Returns seeded values of the inputs, whose open dimensions have these sizes."""
        rng = np.random.default_rng(sum(sizes.values()))
        return {
            name: self.draws.get(name, normal)(rng, tuple(sizes[d] if isinstance(d, str) else d for d in dims))
            for name, dims in self.inputs.items()
        }


def one(
    op: str,
    inputs: Mapping[str, Dims],
    constants: Mapping[str, Any] | None = None,
    *,
    operands: Sequence[str] | None = None,
    outputs: Sequence[str] = ("y",),
    draws: Mapping[str, Draw] | None = None,
    sizes: Sequence[Mapping[str, int]] = tuple(SIZES),
    **attrs: Any,
) -> Case:
    """Returns a model of one node, whose operands are the inputs and then the constants, if none are given."""
    constants = constants or {}
    node = helper.make_node(op, operands or [*inputs, *constants], list(outputs), **attrs)
    return Case([node], inputs, constants, outputs, draws or {}, sizes)


def scaled(*scales: float, **attrs: Any) -> Case:
    """Returns a resize by factors."""
    factors = {"scales": np.array(scales, np.float32)}
    return one("Resize", IMAGE, factors, operands=["x", "", "scales"], sizes=WIDE, **attrs)


def resized(**attrs: Any) -> Case:
    """Returns a resize of open images to one size."""
    sizes = {"sizes": np.array([24, 32])}
    return one("Resize", IMAGE, sizes, operands=["x", "", "", "sizes"], axes=[2, 3], **attrs)


def lateral(**attrs: Any) -> Case:
    """Returns a resize to the size of another image, to which it is added."""
    nodes = [
        helper.make_node("Shape", ["x"], ["first"], end=2),
        helper.make_node("Shape", ["z"], ["second"], start=2),
        helper.make_node("Concat", ["first", "second"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["up"], **attrs),
        helper.make_node("Add", ["up", "z"], ["y"]),
    ]
    return Case(nodes, {"x": ["b", 3, "h", "w"], "z": ["b", 3, "p", "q"]}, sizes=LATERAL)


DOUBLED = {"scales": np.array([1, 1, 2, 2], np.float32)}
PIXELS = {"x": whole(0, 256, np.uint8)}


def resizes() -> dict[str, Case]:
    """Returns resizes in all modes."""
    cases = {
        "bytes, sharper": one("Resize", IMAGE, DOUBLED, operands=["x", "", "scales"], draws=PIXELS, mode="nearest"),
        "bytes, smooth": one("Resize", IMAGE, DOUBLED, operands=["x", "", "scales"], draws=PIXELS, mode="cubic"),
        "antialiased": scaled(1, 1, 0.5, 0.6, mode="cubic", antialias=1),
        "antialiased to one size": resized(mode="linear", antialias=1),
        "antialiased to a lateral": lateral(mode="cubic", antialias=1),
    }
    for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
        for mode in ("nearest", "linear", "cubic"):
            attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
            cases[f"{mode} {coordinates} doubled"] = scaled(1, 1, 2, 2, **attrs)
            cases[f"{mode} {coordinates} scaled"] = scaled(1, 1, 0.6, 1.7, **attrs)
            cases[f"{mode} {coordinates} to one size"] = resized(**attrs)
            cases[f"{mode} {coordinates} to a lateral"] = lateral(**attrs)
    return cases


def recurrent(op: str, gates: int, hidden: int, *, both: bool = False, ends: bool = False, **attrs: Any) -> Case:
    """Returns a layer of open length `h` and batch `b`: in `both` directions, and with lengths and first states."""
    rng = np.random.default_rng(1)
    directions = 2 if both else 1
    rows = gates * hidden
    shapes = {"W": (rows, 6), "R": (rows, hidden), "B": (2 * rows,), "P": (3 * hidden,)}
    constants = {name: normal(rng, (directions, *shape)) * shape[-1] ** -0.5 for name, shape in shapes.items()}
    inputs: dict[str, Dims] = {"x": ["h", "b", 6]}
    operands = ["x", "W", "R", "B"]
    if ends:
        inputs |= {"lengths": ["b"], "h0": [directions, "b", hidden]}
        operands += ["lengths", "h0"]
    if ends and op == "LSTM":
        inputs["c0"] = [directions, "b", hidden]
        operands += ["c0", "P"]
    if both:
        attrs["direction"] = "bidirectional"
    outputs = ["y", "last", "cell"] if op == "LSTM" else ["y", "last"]
    return one(
        op,
        inputs,
        constants,
        operands=operands,
        outputs=outputs,
        draws={"lengths": whole(1, 6, np.int32)},
        sizes=LONG if ends else SIZES,
        hidden_size=hidden,
        **attrs,
    )


def layers() -> dict[str, Case]:
    """Returns recurrent layers whose hidden units do not fill a vector, fill it, and fill several."""
    cases = {}
    for hidden, both, ends in [(5, False, True), (16, True, False), (40, False, False), (24, True, True)]:
        text = f"{hidden}{' both' if both else ''}{' ends' if ends else ''}"
        cases[f"lstm {text}"] = recurrent("LSTM", 4, hidden, both=both, ends=ends)
        cases[f"gru {text}"] = recurrent("GRU", 3, hidden, both=both, ends=ends)
        cases[f"gru reset after {text}"] = recurrent("GRU", 3, hidden, both=both, ends=ends, linear_before_reset=1)
        cases[f"rnn {text}"] = recurrent("RNN", 1, hidden, both=both, ends=ends)
    return cases


def bag(how: str, axis: int) -> Case:
    """Returns rows of a table that are folded: of each bag, or the rows at each place of all bags."""
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["rows"]),
        helper.make_node(how, ["rows", "axis"], ["y"], keepdims=0),
    ]
    constants = {"table": normal(np.random.default_rng(0), (50, 24)), "axis": np.array([axis])}
    return Case(nodes, {"x": ["b", "h"]}, constants, draws={"x": whole(0, 50)})


def trees() -> Case:
    """Returns one tree of two leaves."""
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )
    return Case([node], {"x": ["b", 2]})


def depth_as_wide() -> Case:
    """Returns one_hot vectors as long as an open dimension."""
    nodes = [
        helper.make_node("Shape", ["z"], ["depth"], start=0, end=1),
        helper.make_node("OneHot", ["x", "depth", "values"], ["y"]),
    ]
    constants = {"values": np.array([0, 1], np.float32)}
    return Case(nodes, {"x": ["b", "h"], "z": ["w", 2]}, constants, draws={"x": whole(0, 9)})


STATISTICS = {name: np.array([1, 2, 3], np.float32) for name in ("scale", "bias", "mean", "variance")}
ON_OFF = {"depth": np.array(9), "values": np.array([0, 1], np.float32)}
PLACES: dict[str, Dims] = {"x": ["b", "h", "w"], "i": ["b", 1, "w"], "u": ["b", 1, "w"]}
ROWS: dict[str, Dims] = {"x": ["b", "h", "w"], "i": ["h", 2], "u": ["h", "w"]}
FIRST = {"i": whole(0, 1)}

CASES: dict[str, Case] = {
    **resizes(),
    **layers(),
    **{f"{how} of bags {axis}": bag(how, axis) for how in ("ReduceSum", "ReduceMean", "ReduceMax") for axis in (0, 1)},
    **{
        f"pad {mode}": one("Pad", IMAGE, {"pads": np.array([0, 0, 1, 2, 0, 0, 3, 0])}, mode=mode, sizes=WIDE[:2])
        for mode in ("constant", "edge", "reflect", "wrap")
    },
    **{f"argmax {axis}": one("ArgMax", IMAGE, axis=axis, keepdims=axis % 2) for axis in range(4)},
    **{
        f"cumsum {axis}": one("CumSum", IMAGE, {"axis": np.array(axis)}, reverse=axis % 2, exclusive=axis // 2)
        for axis in range(4)
    },
    **{
        f"one hot {axis}": one("OneHot", {"x": ["b", "h"]}, ON_OFF, axis=axis, draws={"x": whole(-2, 9)})
        for axis in (0, -1)
    },
    **{
        f"{op} {reduction}": one(op, dims, reduction=reduction, draws=FIRST, **attrs)
        for op, dims, attrs in (("ScatterElements", PLACES, {"axis": 1}), ("ScatterND", ROWS, {}))
        for reduction in ("none", "add", "max")
    },
    **{f"eye {k}": one("EyeLike", {"x": ["b", "h"]}, k=k, dtype=to) for k, to in ((0, 1), (-2, 7), (1, 9))},
    "pad and crop": one("Pad", IMAGE, {"pads": np.array([0, 0, 1, 2, 0, 0, -1, 0])}),
    "batch norm": one("BatchNormalization", IMAGE, STATISTICS),
    "batch norm of rows": one("BatchNormalization", {"x": ["b", 3]}, STATISTICS),
    "batch norm by inputs": one(
        "BatchNormalization",
        {**IMAGE, **{name: [3] for name in STATISTICS}},
        draws={"variance": lambda rng, shape: 1 + rng.random(shape, np.float32)},
    ),
    "argmin of bytes": one("ArgMin", IMAGE, axis=1, draws={"x": whole(0, 4, np.uint8)}),
    "last argmax": one("ArgMax", IMAGE, axis=-1, select_last_index=1),
    "depth to space": one("DepthToSpace", {"x": ["b", 12, "h", "w"]}, blocksize=2),
    "depth to space, columns first": one("DepthToSpace", {"x": ["b", 12, "h", "w"]}, blocksize=2, mode="CRD"),
    "space to depth": one("SpaceToDepth", IMAGE, blocksize=2, sizes=EVEN),
    "one hot of an open depth": depth_as_wide(),
    "reverse sequence": one("ReverseSequence", {"x": ["h", "b", 3], "n": ["b"]}, draws={"n": whole(1, 6)}, sizes=LONG),
    "trees": trees(),
    "top k": one("TopK", {"x": ["h", "b"]}, {"k": np.array([3])}, outputs=["y", "i"], axis=0, sizes=LONG),
    "top k of channels": one("TopK", {"x": ["b", 7, "h"]}, {"k": np.array([2])}, outputs=["y", "i"], axis=1),
    "einsum": one("Einsum", {"x": ["b", "h", 4, 8], "z": ["b", "w", 4, 8]}, equation="bqhd,bkhd->bhqk"),
    "einsum of rows": one("Einsum", {"x": ["b", "h"], "z": ["w"]}, equation="bh,w->wbh"),
    "flatten": one("Flatten", IMAGE),
    "norm of all": one("ReduceL2", IMAGE),
    "local response": one("LRN", IMAGE, size=3),
    "sampled by a grid": one(
        "GridSample",
        {"x": ["b", 3, "h", "w"], "g": ["b", "p", "q", 2]},
        sizes=[{**each, "p": 4, "q": 9} for each in SIZES],
    ),
    "normalised rows": one("LpNormalization", {"x": ["b", "h"]}),
    "standardised images": one("MeanVarianceNormalization", IMAGE),
    "hardmax": one("Hardmax", {"x": ["b", "h"]}),
    "ones on the diagonal": one("EyeLike", {"x": ["h", "w"]}),
    "einsum with an ellipsis": one("Einsum", {"x": ["b", "h", 4], "z": ["b", 4, "w"]}, equation="...ij,...jk->...ik"),
    "cumulative sums of halves": one("CumSum", {"x": ["b", "h"]}, {"axis": np.array(1)}, draws={"x": halves}),
    "transposed convolution of volumes": one(
        "ConvTranspose", {"x": ["b", 3, "h", "w", 4]}, {"f": np.ones((3, 2, 2, 2, 2), np.float32)}
    ),
}

ROUNDED = ("einsum", "norm of all", "normalised rows", "standardised images", *layers())
"""Sums in another order: results may differ in the last bits."""


@pytest.mark.parametrize("name", CASES)
def test_one_plan_gives_the_results_of_fixed_sizes(name: str) -> None:
    """At 1 and 2 threads, bit for bit."""
    case = CASES[name]
    session = treadle.Session(case.model())
    assert session.why_per_size() is None
    compiles = session.compiles
    for sizes in case.sizes:
        feeds = case.feeds(sizes)
        found, shared = (session.run(feeds, intra_op=threads) for threads in (1, 2))
        wanted = treadle.Session(case.model(sizes)).run(feeds)
        for output in case.outputs:
            np.testing.assert_array_equal(shared[output], found[output])
            if name in ROUNDED:
                np.testing.assert_allclose(found[output], wanted[output], rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(found[output], wanted[output])
    assert session.compiles == compiles, [plan.guards for plan in session.open_plans()]
