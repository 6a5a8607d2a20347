"""Models in which floats decide sizes run by one plan: floats of sizes, and those that data tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter
from treadle.errors import RunError, TreadleError

INT64 = onnx.TensorProto.INT64
CHANNELS = 3

Build = Callable[[ModelWriter], str]


def image(height: int, width: int, above: int) -> dict[str, np.ndarray]:
    """An image whose first channel has so many elements above 2."""
    x = np.random.default_rng(height * width + above).uniform(-1, 1, (1, CHANNELS, height, width)).astype(np.float32)
    x[0, 0].reshape(-1)[:above] += 4
    return {"x": x}


def run_both(model: onnx.ModelProto, *feeds: dict[str, np.ndarray]) -> None:
    """Assert that a session gives what the reference gives, on one thread and on several."""
    for threads in (1, 3):
        session = treadle.Session(model, intra_op=threads, inter_op=threads)
        for given in feeds:
            (got,) = session.run(dict(given)).values()
            (wanted,) = ReferenceEvaluator(model).run(None, dict(given))
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def session_of_one_compile(model: onnx.ModelProto, feeds: Sequence[Mapping[str, np.ndarray]]) -> treadle.Session:
    """Returns a session that has run all `feeds`, after asserting that it compiled nothing after the first run."""
    session = treadle.Session(model)
    session.run(dict(feeds[0]))
    first = session.compiles
    for given in feeds[1:]:
        session.run(dict(given))
    assert session.compiles == first
    return session


def assert_kernels_only(session: treadle.Session) -> None:
    assert all(call.function is None for plan in session.plans() for call in plan.calls)


def modelled(build: Build, shape: list[Any]) -> onnx.ModelProto:
    w = ModelWriter()
    return w.model({"x": (FLOAT, shape)}, {w.op("Relu", build(w)): (FLOAT, None)})


OPEN = [1, CHANNELS, "height", "width"]


def floats(w: ModelWriter, *numbers: float) -> str:
    return w.constant(np.array(numbers, np.float32))


def sizes_of(w: ModelWriter) -> str:
    """Height and width as floats."""
    shape = w.op("Shape", "x")
    return w.op("Cast", w.op("Slice", shape, w.constant([2]), w.constant([4]), w.constant([0])), to=FLOAT)


def to_sizes(w: ModelWriter, floats_: str, mode: str = "linear") -> str:
    """x resized to two floats, rounded down."""
    whole = w.op("Cast", w.op("Floor", floats_), to=INT64)
    return w.op("Resize", "x", "", "", w.op("Concat", w.constant([1, CHANNELS]), whole, axis=0), mode=mode)


def interpolated(w: ModelWriter) -> str:
    """What torch.nn.functional.interpolate by a scale that is no power of two is exported as."""
    return to_sizes(w, w.op("Mul", sizes_of(w), floats(w, 1.7, 0.6)))


def rounded_to_32(w: ModelWriter) -> str:
    """What detectors do with their images: sides that are a multiple of 32."""
    sides = w.op("Div", w.op("Mul", sizes_of(w), floats(w, 1.5)), floats(w, 32))
    return to_sizes(w, w.op("Mul", w.op("Ceil", sides), floats(w, 32)), "nearest")


def scaled_to_a_side(w: ModelWriter) -> str:
    """By the ratio of a length to the longer side, so that no product is near a whole number."""
    sizes = sizes_of(w)
    ratio = w.op("Div", floats(w, 48.3), w.op("ReduceMax", sizes, axes=[0], keepdims=1))
    return w.op("Resize", "x", "", w.op("Concat", floats(w, 1, 1), ratio, ratio, axis=0), mode="linear")


def normalised_places(w: ModelWriter) -> str:
    """Places along the height between 0 and 1: floats of sizes as numbers that kernels read."""
    height = w.op("Squeeze", w.op("Slice", sizes_of(w), w.constant([0]), w.constant([1])), w.constant([0]))
    step = w.op("Div", w.constant(np.float32(1)), height)
    places = w.op("Range", w.op("Mul", step, w.constant(np.float32(0.5))), w.constant(np.float32(1)), step)
    return w.op("Add", w.op("Mul", places, step), w.op("Mul", height, w.constant(np.float32(0.3))))


@pytest.mark.parametrize(
    "build", [interpolated, rounded_to_32, scaled_to_a_side, normalised_places], ids=lambda build: build.__name__
)
def test_floats_of_open_sizes_decide_sizes(build: Build) -> None:
    """One plan serves all sizes: floats are computed when it is bound, rounded as f32 is."""
    model = modelled(build, OPEN)
    feeds = [image(*size, 5) for size in ((20, 31), (33, 17), (47, 48), (11, 90), (10, 10))]
    run_both(model, *feeds)
    session_of_one_compile(model, feeds)


def test_products_are_rounded_to_f32() -> None:
    """Where the product of the size and the factor is a whole number in f32, and below one in f64."""
    factor = np.float32(0.7)
    sizes = [10, 30, 80, 1200]
    assert all(np.floor(np.float32(size) * factor) > np.floor(size * float(factor)) for size in sizes)
    w = ModelWriter()
    length = w.op("Floor", w.op("Mul", w.op("Cast", w.op("Shape", "x"), to=FLOAT), w.constant(np.array([factor]))))
    y = w.op("Slice", "x", w.constant([0]), w.op("Cast", length, to=INT64))
    session = treadle.Session(w.model({"x": (FLOAT, ["n"])}, {y: (FLOAT, None)}))
    for size in sizes:
        (got,) = session.run({"x": np.ones(size, np.float32)}).values()
        assert got.shape == (int(np.floor(np.float32(size) * factor)),)


def fraction(w: ModelWriter) -> str:
    """A float that depends on data: 0.5137 and 0.1373 for each element of the first channel above 2; f32 [1]."""
    channel = w.op("Slice", "x", w.constant([0]), w.constant([1]), w.constant([1]))
    above = w.op("Cast", w.op("Greater", channel, w.constant(np.float32(2))), to=FLOAT)
    total = w.op("Reshape", w.op("ReduceSum", above, keepdims=0), w.constant([1]))
    return w.op("Add", w.op("Mul", total, floats(w, 0.1373)), floats(w, 0.5137))


def ranged(w: ModelWriter) -> str:
    """A range whose limit and step depend on data."""
    limit = w.op("Squeeze", fraction(w), w.constant([0]))
    step = w.op("Mul", limit, w.constant(np.float32(0.11)))
    return w.op("Exp", w.op("Range", w.constant(np.float32(-0.25)), limit, step))


def resized_by_scales(w: ModelWriter, mode: str = "linear") -> str:
    """x resized by a computed scale."""
    scale = fraction(w)
    return w.op("Resize", "x", "", w.op("Concat", floats(w, 1, 1), scale, floats(w, 1.4737), axis=0), mode=mode)


def resized_to_nearest(w: ModelWriter) -> str:
    return resized_by_scales(w, "nearest")


def resized_by_curves(w: ModelWriter) -> str:
    return resized_by_scales(w, "cubic")


def resized_to_sizes(w: ModelWriter) -> str:
    """x resized to sides that follow from its own and a computed float."""
    return to_sizes(w, w.op("Mul", sizes_of(w), fraction(w)))


def sliced(w: ModelWriter) -> str:
    """As many columns as a computed part of the width."""
    width = w.op("Slice", sizes_of(w), w.constant([1]), w.constant([2]))
    part = w.op("Div", fraction(w), floats(w, 3))
    end = w.op("Cast", w.op("Ceil", w.op("Mul", width, part)), to=INT64)
    return w.op("Slice", "x", w.constant([0]), end, w.constant([3]))


BUILDS = [ranged, resized_by_scales, resized_to_nearest, resized_by_curves, resized_to_sizes, sliced]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
@pytest.mark.parametrize("shape", [[1, CHANNELS, 12, 14], OPEN], ids=["fixed", "open"])
def test_floats_that_data_tells_decide_sizes(build: Build, shape: list[Any]) -> None:
    """New floats are bound in the run: no compile, and no Python between the parts."""
    model = modelled(build, shape)
    sizes = [(12, 14)] if shape is not OPEN else [(12, 14), (9, 22), (15, 11)]
    feeds = [image(*size, above) for size in sizes for above in (5, 9, 3, 12)]
    run_both(model, *feeds)
    assert_kernels_only(session_of_one_compile(model, feeds))


def test_a_scale_of_one_copies() -> None:
    """Also beside infinities, which a weight of 0 would make no number."""
    w = ModelWriter()
    y = w.op("Resize", "x", "", w.op("Concat", floats(w, 1, 1, 1), "scale", axis=0), mode="linear")
    session = treadle.Session(w.model({"x": (FLOAT, [1, 1, 2, 6]), "scale": (FLOAT, [1])}, {y: (FLOAT, None)}))
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 2, 6)
    x[0, 0, 0, 2] = np.inf
    session.run({"x": x, "scale": np.array([2.5], np.float32)})
    np.testing.assert_array_equal(session.run({"x": x, "scale": np.ones(1, np.float32)})[y], x)


@pytest.mark.parametrize("wrong", [0.0, -2.0, np.nan, np.inf])
def test_wrong_scales_are_named(wrong: float) -> None:
    """The error names the node, and the next run is right."""
    w = ModelWriter()
    y = w.op("Resize", "x", "", w.op("Concat", floats(w, 1), "scale", axis=0), mode="linear")
    session = treadle.Session(w.model({"x": (FLOAT, [2, 6]), "scale": (FLOAT, [1])}, {y: (FLOAT, None)}))
    x = np.zeros((2, 6), np.float32)
    for _ in range(2):
        with pytest.raises(RunError, match=r"resize1.*scales must be positive"):
            session.run({"x": x, "scale": np.array([wrong], np.float32)})
        assert session.run({"x": x, "scale": np.array([1.5], np.float32)})[y].shape == (2, 9)


def body(kind: str) -> onnx.GraphProto:
    """The body of a loop, or a branch, on `chosen` rows."""
    value = helper.make_tensor_value_info
    half = numpy_helper.from_array(np.float32(0.5), "half")
    if kind == "Loop":
        nodes = [
            helper.make_node("Mul", ["state", "half"], ["scaled"], name="scale"),
            helper.make_node("Add", ["scaled", "chosen"], ["next"], name="add"),
            helper.make_node("Identity", ["more"], ["go_on"], name="keep"),
        ]
        inputs = [
            value("i", INT64, []),
            value("more", onnx.TensorProto.BOOL, []),
            helper.make_empty_tensor_value_info("state"),
        ]
        outputs = [value("go_on", onnx.TensorProto.BOOL, []), helper.make_empty_tensor_value_info("next")]
        return helper.make_graph(nodes, "body", inputs, outputs, [half])
    if kind == "Scan":
        nodes = [
            helper.make_node("Add", ["total", "row"], ["next"], name="add"),
            helper.make_node("Mul", ["next", "half"], ["seen"], name="scale"),
        ]
        inputs = [value("total", FLOAT, [4]), value("row", FLOAT, [4])]
        return helper.make_graph(nodes, "body", inputs, [value("next", FLOAT, [4]), value("seen", FLOAT, [4])], [half])
    nodes = [helper.make_node(kind, ["chosen"], [f"of_{kind}"], name=f"node_{kind}")]
    return helper.make_graph(nodes, "body", [], [helper.make_empty_tensor_value_info(f"of_{kind}")])


def behind_rows(kind: str, rows: int | str) -> onnx.ModelProto:
    """A loop, scan or branch on the rows of x [rows, 4] whose first element is above 0."""
    w = ModelWriter()
    column = w.op("Squeeze", w.op("Slice", "x", w.constant([0]), w.constant([1]), w.constant([1])), w.constant([1]))
    places = w.op("Squeeze", w.op("NonZero", w.op("Greater", column, w.constant(np.float32(0)))), w.constant([0]))
    w.nodes.append(helper.make_node("Gather", ["x", places], ["chosen"], name="choose"))
    if kind == "Loop":
        y = w.op("Loop", w.constant(np.int64(3)), w.constant(np.array(True)), "chosen", body=body("Loop"))
    elif kind == "Scan":
        zeros = w.constant(np.zeros(4, np.float32))
        w.op("Scan", zeros, "chosen", outputs=2, num_scan_inputs=1, body=body("Scan"))
        y = w.nodes[-1].output[1]
    else:
        above = w.op("Greater", w.op("ReduceSum", "chosen", keepdims=0), w.constant(np.float32(0)))
        y = w.op("If", above, then_branch=body("Exp"), else_branch=body("Neg"))
    return w.model({"x": (FLOAT, [rows, 4])}, {w.op("Tanh", y): (FLOAT, None)})


@pytest.mark.parametrize("kind", ["Loop", "Scan", "If"])
@pytest.mark.parametrize("rows", [16, "rows"], ids=["fixed", "open"])
def test_control_flow_stands_behind_sizes(kind: str, rows: int | str) -> None:
    """Bodies are compiled once for all numbers of rows, and are part of the run."""
    model = behind_rows(kind, rows)
    counts = (16,) if rows == 16 else (16, 9, 21)
    feeds = []
    for count in counts:
        for above in (5, 7, 3, 8):
            x = np.random.default_rng(above).standard_normal((count, 4)).astype(np.float32)
            x[:, 0] = np.where(np.arange(count) < above, 1, -1) * (1 + np.abs(x[:, 0]))
            feeds.append({"x": x if above % 2 else x - np.float32([0, 9, 9, 9])})
    run_both(model, *feeds)
    assert_kernels_only(session_of_one_compile(model, feeds))


def cropped(w: ModelWriter, mode: str) -> onnx.ModelProto:
    """A part of x that the operand `roi` tells, resized to `sides`."""
    sizes = w.op("Concat", w.constant([1, CHANNELS]), "sides", axis=0)
    y = w.op("Resize", "x", "roi", "", sizes, mode=mode, coordinate_transformation_mode="tf_crop_and_resize")
    return w.model({"x": (FLOAT, OPEN), "roi": (FLOAT, [8]), "sides": (INT64, [2])}, {w.op("Relu", y): (FLOAT, None)})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crops_that_data_tells_run_for_new_sizes(mode: str) -> None:
    """The reference computes them, since no kernel reads the edges of a crop; they decide no size."""
    inside, beyond = np.float32([[0, 0, 0.37, 0.61, 1, 1, 0.64, 0.83], [0, 0, 0.13, 0.21, 1, 1, 0.93, 1.37]])
    feeds = [
        {**image(*size, 5), "roi": roi, "sides": np.array(sides)}
        for size, roi, sides in (((4, 5), inside, (3, 3)), ((7, 6), beyond, (2, 5)), ((4, 5), beyond, (6, 1)))
    ]
    run_both(cropped(ModelWriter(), mode), *feeds)


def test_wrong_edges_of_a_crop_are_named() -> None:
    """Their number is known when the model runs; the next run is right."""
    w = ModelWriter()
    model = cropped(w, "linear")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "edges"
    session = treadle.Session(model)
    given = {**image(4, 5, 5), "sides": np.array([3, 3])}
    with pytest.raises(TreadleError, match="roi with 8 numbers"):
        session.run({**given, "roi": np.zeros(6, np.float32)})
    (got,) = session.run({**given, "roi": np.repeat(np.float32([0, 1]), 4)}).values()
    assert got.shape == (1, CHANNELS, 3, 3)


def test_edges_that_the_mode_does_not_read_need_no_python() -> None:
    w = ModelWriter()
    y = w.op("Resize", "x", "roi", floats(w, 1, 1, 1.7, 0.6), mode="linear")
    session = treadle.Session(w.model({"x": (FLOAT, OPEN), "roi": (FLOAT, [8])}, {y: (FLOAT, None)}))
    for size in ((4, 5), (7, 6), (9, 11)):
        session.run({**image(*size, 5), "roi": np.zeros(8, np.float32)})
    assert session.compiles == 1
    assert_kernels_only(session)
