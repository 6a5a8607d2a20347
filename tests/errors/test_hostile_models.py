"""Models that ask for the impossible: each ends in an error of treadle's, soon and without the memory it asks for."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator

import numpy as np
import pytest
from onnx import numpy_helper, parser

import treadle
from treadle.errors import KernelError, LimitError, MemoryLimitError, ModelError, RunError

ONE = np.ones(1, np.float32)


def session(text: str, **constants: object) -> treadle.Session:
    """A session of a graph in text form (opset 17), with arrays for its constants."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items())
    return treadle.Session(model)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ([2**62, 2], "has 9223372036854775808 elements; at most 1099511627776 are allowed"),
        (
            [0, 2**62],
            "has 4611686018427387904 elements, not counting dimensions of 0; at most 1099511627776 are allowed",
        ),
        ([1] * 70, "has 70 dimensions; at most 64 are allowed"),
        ([-1, -1], "has a negative dimension"),
    ],
)
@pytest.mark.parametrize("op", ["Expand (x, s)", "ConstantOfShape (s)"])
def test_shapes_no_tensor_can_have(op: str, shape: list[int], said: str) -> None:
    """
    Whether the model states them or an input does: nothing is multiplied up beyond what arrays can be.
    """
    with pytest.raises((ModelError, LimitError), match=re.escape(said)):
        session(f"g (float[1] x) => (float y) {{ y = {op} }}", s=shape)

    stated_by_an_input = session(f"g (float[1] x, int64[n] s) => (float y) {{ y = {op} }}")
    with pytest.raises(RunError, match=re.escape(said)):
        stated_by_an_input.run({"x": ONE, "s": np.array(shape)})


@pytest.mark.parametrize(
    ("op", "node"),
    [
        ("x2 = Unsqueeze (x, zero) x4 = Unsqueeze (x2, zero) y = Resize (x4, , scales)", "resize"),
        ("n = Shape (x) m = Mul (n, big) s = Concat <axis = 0> (m, m) y = ConstantOfShape (s)", "constant_of_shape"),
    ],
)
def test_open_sizes_no_tensor_can_have(op: str, node: str) -> None:
    """
    The error names the node, and other sizes go on.
    """
    given = "<int64[1] zero = {0}, int64[1] big = {1048576}, float[3] scales = {1.0, 1.0, 1000000.0}>"
    limited = session(f"g (float[n] x) => (float y) {given} {{ {op} }}")

    for _ in range(2):
        with pytest.raises(LimitError, match=rf"node .* \({node}\): .* elements"):
            limited.run({"x": np.zeros(4_000_000, np.float32)})
    with pytest.raises(LimitError):
        limited.run({"x": np.zeros(3_000_000, np.float32)})


def test_tiles_no_tensor_can_have() -> None:
    """
    Repeats are multiplied with the shape before anything is repeated.
    """
    tile = session("g (float[1] x, int64[1] r) => (float y) { y = Tile (x, r) }")

    with pytest.raises(RunError, match="has 2199023255552 elements"):
        tile.run({"x": ONE, "r": np.array([2**41])})
    with pytest.raises(RunError, match="repeats must be 0 or more"):
        tile.run({"x": ONE, "r": np.array([-1])})


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_pads_that_take_away_more_than_there_is(mode: str) -> None:
    """
    Whether the model states them or an input does: an error, and no tensor that is larger or smaller than they say.
    """
    graph = f'(float[2, 3] x, int64[4] p) => (float[n, m] y) {{ y = Pad <mode = "{mode}"> (x, p) }}'
    with pytest.raises(ModelError, match="pads -5 and 0 take away more than axis 0 of x"):
        session(f"g {graph.replace(', int64[4] p', '')}", p=[-5, 0, 0, 0])
    with pytest.raises(RunError, match="pads -5 and 0 take away more than axis 0 of x"):
        session(f"g {graph}").run({"x": np.ones((2, 3), np.float32), "p": np.array([-5, 0, 0, 0])})
    with pytest.raises(RunError, match="has 13194139533312 elements"):
        session(f"g {graph}").run({"x": np.ones((2, 3), np.float32), "p": np.array([2**42 - 2, 0, 0, 0])})


@pytest.mark.parametrize("known", ["x", "p", "x and p", "none"])
def test_pads_that_take_away_a_part_of_what_others_add(known: str) -> None:
    """
    Three rows off the beginning of two and three at the end: two rows of zeros, by the kernel, the reference and while
    folding.
    """
    values = {"x": np.ones((2, 3), np.float32), "p": np.array([-3, 0, 3, 0])}
    constants = {name: values[name] for name in values if name in known.split()}
    types = {"x": "float[2, 3]", "p": "int64[4]"}
    inputs = ", ".join(f"{types[name]} {name}" for name in values if name not in constants)
    pad = session(f"g ({inputs}) => (float[n, m] y) {{ y = Pad (x, p) }}", **constants)

    found = pad.run({name: value for name, value in values.items() if name not in constants})["y"]

    assert found.tolist() == [[0.0] * 3] * 2


def test_more_of_the_largest_than_there_are() -> None:
    """
    TopK with a k that only the run knows says what k is, not where NumPy ran out.
    """
    top = session("g (float[3] x, int64[1] k) => (float v, int64 i) { v, i = TopK (x, k) }")

    with pytest.raises(RunError, match=re.escape("node 'TopK_0' (top_k): k is 9, but axis 0 of x [3] has 3 elements")):
        top.run({"x": np.ones(3, np.float32), "k": np.array([9])})


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_constants_divided_by_zero_are_an_error_as_inputs_are(op: str) -> None:
    """
    What is computed while the model is compiled is computed as a run would.
    """
    of_constants = session(f"g () => (int64[2] y) {{ y = {op} (a, b) }}", a=[1, 2], b=[0, 1])
    of_an_input = session(f"g (int64[2] a) => (int64[2] y) {{ y = {op} (a, b) }}", b=[0, 1])

    with pytest.raises((KernelError, RunError), match="an integer was divided by zero"):
        of_constants.run({})
    with pytest.raises(KernelError, match="an integer was divided by zero"):
        of_an_input.run({"a": np.array([1, 2])})


@pytest.fixture
def little_memory() -> Iterator[None]:
    """At most 64 GiB of addresses, so that no setting of the system lets a process have a TB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64 << 30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.usefixtures("little_memory")
def test_results_and_intermediate_values_there_is_no_memory_for() -> None:
    """
    Below the limits and above what the system has: an error of treadle's that is a MemoryError too, and the next run is
    right.
    """
    outer = session("g (float[n, 1] a, float[1, n] b) => (float[n, n] y) { y = MatMul (a, b) }")
    summed = session(
        "g (float[n, 1] a, float[1, n] b) => (float y) { c = MatMul (a, b) y = ReduceSum <keepdims = 0> (c) }"
    )
    for each, shape in ((outer, (2, 2)), (summed, ())):
        with pytest.raises(MemoryLimitError, match="there is no memory for the run"):
            each.run({"a": np.ones((500_000, 1), np.float32), "b": np.ones((1, 500_000), np.float32)})
        found = each.run({"a": np.ones((2, 1), np.float32), "b": np.ones((1, 2), np.float32)})["y"]
        assert found.shape == shape

    assert issubclass(MemoryLimitError, MemoryError)


@pytest.mark.usefixtures("little_memory")
def test_results_of_computed_sizes_that_there_is_no_memory_for() -> None:
    """
    The sizes are known in the run. The session stays usable.
    """
    zeros = session("g (int64[2] s) => (float[n, m] y) { y = ConstantOfShape (s) }")

    with pytest.raises(MemoryLimitError, match="there is no memory for the run"):
        zeros.run({"s": np.array([2**20, 2**18])})
    assert zeros.run({"s": np.array([1, 2])})["y"].shape == (1, 2)


@pytest.mark.parametrize(
    ("declared", "wanted"), [([1, 1, 2**37, 2], [1, 1, 3, 2]), ([1, 2, 2, 2**34], [1, 1, 2, 2**34])]
)
@pytest.mark.usefixtures("little_memory")
def test_resizing_takes_no_memory_for_a_declared_size(declared: list[int], wanted: list[int]) -> None:
    """
    Tables of places are as long as the axes of the result up to the last one that changes.
    """
    resized = session(f'g (float{declared} x) => (float y) {{ y = Resize <mode = "nearest"> (x, , , s) }}', s=wanted)

    assert resized.inputs[0].shape == tuple(declared)


@pytest.mark.usefixtures("little_memory")
def test_models_there_is_no_memory_to_compile_for() -> None:
    """
    A table of places of 1 TiB: an error of treadle's, while loading and in the run that brings the size.
    """
    text = 'g (float[{sizes}] x) => (float y) {{ y = Resize <mode = "nearest"> (x, , scales) }}'
    scales = np.array([1, 1, 1, 2**37], np.float32)
    with pytest.raises(MemoryLimitError, match="there is no memory"):
        session(text.format(sizes="1, 1, 1, 1"), scales=scales)

    opened = session(text.format(sizes="1, 1, h, w"), scales=scales)
    with pytest.raises(MemoryLimitError, match="there is no memory"):
        opened.run({"x": np.ones((1, 1, 1, 1), np.float32)})


HUGE = f"kernel_shape = [{2**31 - 1}, {2**31 - 1}], pads = [{2**30}, {2**30}, {2**30}, {2**30}]"


@pytest.mark.parametrize("sizes", ["8, 8", "h, w"])
@pytest.mark.parametrize(("op", "wanted"), [("MaxPool", 63), ("AveragePool", 31.5)])
def test_windows_far_larger_than_their_input(op: str, wanted: float, sizes: str) -> None:
    """
    Taps outside the input for every output take no time.
    """
    pooled = session(f"g (float[1, 1, {sizes}] x) => (float y) {{ y = {op} <{HUGE}> (x) }}")
    found = pooled.run({"x": np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)})["y"]

    assert found.shape == (1, 1, 10, 10)
    assert found[0, 0, 5, 5] == wanted


@pytest.mark.parametrize("channels", [1, 16])
def test_convolutions_of_wide_strides(channels: int) -> None:
    """
    Code does not grow with strides and pads: one of 25 windows sees the input.
    """
    pads = f"pads = [{2**30}, {2**30}, {2**30}, {2**30}], strides = [{2**29}, {2**29}]"
    w = np.ones((16, channels, 3, 3), np.float32)
    wide = session(f"g (float[1, {channels}, 8, 8] x) => (float y) {{ y = Conv <{pads}> (x, w) }}", w=w)
    found = wide.run({"x": np.ones((1, channels, 8, 8), np.float32)})["y"]

    assert found.shape == (1, 16, 5, 5)
    assert found[0, 0, 2, 2] == 9 * channels
    assert found.sum() == 16 * 9 * channels


def test_intermediate_values_larger_than_any_memory() -> None:
    """
    Memory is planned before the run, so the run does not begin.
    """
    with pytest.raises(LimitError, match="intermediate values need 4398046511616 bytes"):
        session(
            "g (float[1] x) => (float y) { c = ConstantOfShape (s) r = ReduceSum <keepdims = 0> (c) y = Add (x, r) }",
            s=[2**20, 2**20],
        ).run({"x": ONE})
