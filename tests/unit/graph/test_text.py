"""The text form of graphs prints and parses."""

import contextlib
import math
import string

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import dtypes
from treadle.errors import GraphError
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.text import content_hash, print_graph
from treadle.graph.text_reader import parse_graph
from treadle.graph.verify import verify

_EXAMPLE = """\
graph classifier {
  input %x: f32[N, 3, 224, 224]
  const %axes: i64[2] = [2, 3]
  %conv.1: f32[N, 64, 112, 112]:c16 = conv(%x, %axes, _) {strides: (2, 2), groups: 1} @first/Conv max_workers 2
  %"a b": ? = relu(%conv.1)
  output %"a b"
}
"""

names = st.text(min_size=1, max_size=6) | st.text(string.ascii_letters + "._/-$0", min_size=1, max_size=8)
numeric = st.sampled_from([d for d in dtypes.ALL if d.kind in ("float", "int", "uint")])
shapes = st.lists(st.integers(0, 9) | names, max_size=4).map(tuple)


def same(a, b):
    """Whether two attribute values are equal in type and content, NaN equal to NaN."""
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return a.tolist() == b.tolist() if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return isinstance(b, float) and (a == b or (math.isnan(a) and math.isnan(b)))
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Expr):
        return repr(a) == repr(b)
    return type(a) is type(b) and a == b


def assert_same_graph(a, b):
    """Two graphs agree in every name, type, attribute, constant and edge."""
    assert a.name == b.name
    for xs, ys in ((a.inputs, b.inputs), (a.outputs, b.outputs), (list(a.constants()), list(b.constants()))):
        assert [(v.name, v.dtype, v.shape, v.layout) for v in xs] == [(v.name, v.dtype, v.shape, v.layout) for v in ys]
    for x, y in zip(a.constants(), b.constants(), strict=True):
        assert same(x.data, y.data)
    assert len(a.nodes) == len(b.nodes)
    for m, n in zip(a.nodes, b.nodes, strict=True):
        assert (m.op, m.name, m.max_workers) == (n.op, n.name, n.max_workers)
        assert [v and v.name for v in m.inputs] == [v and v.name for v in n.inputs]
        assert [repr(v) for v in m.outputs] == [repr(v) for v in n.outputs]
        assert m.attrs.keys() == n.attrs.keys()
        for key, value in m.attrs.items():
            assert same(value, n.attrs[key]), (value, n.attrs[key])


@st.composite
def arrays(draw):
    """Small arrays of every dtype."""
    dtype = draw(st.sampled_from(dtypes.ALL))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = math.prod(shape)
    if dtype.kind == "string":
        items = draw(st.lists(st.text(max_size=4), min_size=size, max_size=size))
        return np.array(items, dtype=object).reshape(shape)
    bits = draw(st.binary(min_size=size * dtype.size, max_size=size * dtype.size))
    raw = np.frombuffer(bits, np.uint8) & 1 if dtype.kind == "bool" else np.frombuffer(bits, np.uint8)
    return raw.astype(np.uint8).view(dtype.numpy).reshape(shape)


@st.composite
def expressions(draw):
    """Scalar programs whose steps read what comes before them."""
    operands = tuple(draw(st.lists(st.sampled_from(dtypes.ALL), min_size=1, max_size=3)))
    steps = []
    for _ in range(draw(st.integers(0, 4))):
        last = len(operands) + len(steps) - 1
        dtype = draw(numeric)
        if draw(st.booleans()):
            value = draw(st.floats() | st.integers() | st.booleans())
            steps.append(Step("const", (), dtype, value))
        else:
            args = draw(st.lists(st.integers(0, last), min_size=1, max_size=3))
            steps.append(Step(draw(st.sampled_from(["add", "not", "cast"])), tuple(args), dtype))
    last = len(operands) + len(steps) - 1
    return Expr(operands, tuple(steps), tuple(draw(st.lists(st.integers(0, last), min_size=1, max_size=2))))


attributes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(dtypes.ALL) | expressions() | arrays(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)  # fmt: skip


@st.composite
def graphs(draw):
    """Valid graphs with odd names, unknown and symbolic types, layouts, constants and every kind of attribute."""
    graph = Graph(draw(names))
    types = draw(st.lists(st.tuples(st.none() | numeric, st.none() | shapes), min_size=1, max_size=3))
    values = [graph.input(draw(names), dtype, shape) for dtype, shape in types]
    values += [graph.constant(array, draw(names)) for array in draw(st.lists(arrays(), max_size=3))]
    for _ in range(draw(st.integers(0, 4))):
        operands = draw(st.lists(st.sampled_from([*values, None]), max_size=3))
        attrs = draw(st.dictionaries(names, attributes, max_size=3))
        op = draw(st.sampled_from(["conv", "and", "expr", "isinf", "input_of", "top_k"]))
        node = graph.add(op, operands, attrs, name=draw(names), outputs=draw(st.integers(1, 2)))
        node.max_workers = draw(st.integers(0, 9))
        for value in node.outputs:
            value.dtype, value.shape = draw(st.none() | numeric), draw(st.none() | shapes)
            if value.shape is not None and len(value.shape) >= 2 and draw(st.booleans()):
                value.layout = Blocked(draw(st.integers(1, 16)))
        values += node.outputs
    graph.outputs = draw(st.lists(st.sampled_from(values), max_size=2))
    return graph


@settings(deadline=None)
@given(graphs())
def test_round_trip_is_exact(graph):
    """What is printed parses to an equal graph, which prints the same."""
    given_arrays = {value.name: value.data for value in graph.constants()}
    text = print_graph(graph)
    again = parse_graph(text, given_arrays)
    verify(again)
    assert_same_graph(graph, again)
    assert print_graph(again) == text


@settings(deadline=None)
@given(st.text(alphabet='graph{}[]()%@:,=?#" xf32input01e-\n', max_size=60))
def test_any_text_gives_a_graph_or_a_graph_error(text):
    """No text makes the reader fail with anything but its own error."""
    with contextlib.suppress(GraphError):
        parse_graph("graph g {" + text)


def test_the_form_is_readable():
    """The printed form of a small graph looks as documented."""
    graph = parse_graph(_EXAMPLE)
    assert print_graph(graph) == _EXAMPLE
    assert graph.nodes[0].attrs == {"strides": (2, 2), "groups": 1}
    assert graph.nodes[0].inputs[2] is None
    assert graph.inputs[0].shape == ("N", 3, 224, 224)


def test_large_constants_are_named_by_their_contents():
    """A large constant prints as a hash, and parses only with the very same array."""
    graph = Graph("g")
    data = np.arange(100, dtype=np.float32)
    graph.outputs = [graph.constant(data, "w")]
    text = print_graph(graph)
    assert f"sha256:{content_hash(data)}" in text
    assert same(parse_graph(text, {"w": data}).outputs[0].data, data)
    with pytest.raises(GraphError, match="line 2: the data of constant %w is not in the text"):
        parse_graph(text)
    with pytest.raises(GraphError, match="other contents"):
        parse_graph(text, {"w": data + 1})
    with pytest.raises(GraphError, match=r"is f64\[100\]"):
        parse_graph(text, {"w": data.astype(np.float64)})


def test_half_precision_constants_are_written_out():
    """bfloat16 constants print as decimals and come back bit for bit."""
    graph = Graph("g")
    data = np.array([0.1, -2.5, np.inf], ml_dtypes.bfloat16)
    graph.outputs = [graph.constant(data, "w")]
    assert same(parse_graph(print_graph(graph)).outputs[0].data, data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph g { output %x }", "line 1: %x is not defined before it is used"),
        ("graph g {\n input %x: f32[2]\n input %x: f32[2] }", "line 3: %x is defined twice"),
        ("graph g { input %x: f31[2] }", "no dtype is called 'f31'"),
        ("graph g { input %x: f32[2.5] }", "wanted a whole number"),
        ("graph g { const %x: f32[2] = [1] }", "wanted 2 elements of f32, got 1"),
        ("graph g { const %x: i32[1] = [1.5] }", "wanted 1 elements of i32"),
        ("graph g { const %x: i8[1] = [300] }", "do not fit i8"),
        ("graph g { const %x: f32[N] = [1] }", "needs a dtype and a static shape"),
        ("graph g { %y: f32[2] = relu(%y) }", "%y is not defined before it is used"),
        ("graph g { %y: ? = call() {function: <f>} }", "Python object"),
        ("graph g { %y: ? = a() {x: " + "(" * 99 + " }", "nest deeper"),
        ("graph g { %y: ? = a() max_workers 0 }", "wanted a whole number of workers from 1 on, got 0"),
        ("graph g { ! }", "'! }' is no part"),
        ("graph g { } }", "wanted nothing after the graph"),
        ("graph g {", "wanted a value's name"),
    ],
)
def test_errors_name_the_line_and_what_was_wanted(text, message):
    """Text that cannot be read is refused with the place and the reason."""
    with pytest.raises(GraphError) as caught:
        parse_graph(text)
    assert message in str(caught.value)


def test_functions_print_but_do_not_parse():
    """The function of a call is shown by name."""
    graph = Graph("g")
    graph.add("call", [], {"function": lambda arrays: arrays})
    assert "<test_functions_print_but_do_not_parse.locals.lambda>" in print_graph(graph)
