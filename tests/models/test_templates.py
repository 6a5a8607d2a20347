"""Templates: models whose graph follows from the dtypes and shapes of their inputs."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from treadle import dtypes
from treadle.errors import InputError
from treadle.graph.graph import Graph
from treadle.graph.template import Form, Template
from treadle.graph.value import Value


def doubled(built: list[list[Form]]) -> Template:
    """x -> y = x + x for any dtype and shape; records each signature that it is built for."""

    def build(forms: list[Form]) -> Graph:
        built.append(list(forms))
        graph = Graph("doubled")
        x = graph.input("x", *forms[0])
        graph.outputs = [graph.add("add", [x, x], outputs=[graph.value("y")]).output]
        return graph

    return Template("doubled", (Value("x"),), (Value("y"),), build)


class TestTemplate:
    def test_each_dtype_and_shape_has_a_graph_of_its_own(self):
        """
        A known signature builds no graph; another dtype of the same shape does.
        """
        built: list[list[Form]] = []
        session = treadle.Session(doubled(built))
        for array in (np.ones((2, 3), np.float32), np.ones((2, 3), np.int64), np.ones((2, 3), np.float32), np.ones(4)):
            np.testing.assert_array_equal(session.run({"x": array})["y"], array + array)
            assert session.run({"x": array})["y"].dtype == array.dtype

        assert built == [[(dtypes.f32, (2, 3))], [(dtypes.i64, (2, 3))], [(dtypes.f64, (4,))]]

    def test_a_scalar_has_a_signature(self):
        session = treadle.Session(doubled([]))

        assert session.run({"x": np.float32(2)})["y"] == 4

    def test_inputs_need_a_dtype_of_their_own(self):
        """
        A list has no dtype, and complex numbers cannot be tensor elements.
        """
        session = treadle.Session(doubled([]))
        with pytest.raises(InputError, match="wanted an array"):
            session.run({"x": [1.0]})
        with pytest.raises(InputError, match="complex"):
            session.run({"x": np.ones(2, complex)})

    def test_the_graph_is_known_once_inputs_are(self):
        session = treadle.Session(doubled([]))
        with pytest.raises(InputError, match="before it has inputs"):
            _ = session.graph
        session.run({"x": np.ones(2, np.float32)})

        assert [node.op for node in session.graph.nodes] == ["add"]

    def test_the_signature_says_any(self):
        assert str(treadle.Session(doubled([])).inputs[0]) == "x: any[...]"

    def test_other_front_ends_take_no_examples(self):
        with pytest.raises(InputError, match="PyTorch"):
            treadle.Session(b"", example_inputs=(1,))
