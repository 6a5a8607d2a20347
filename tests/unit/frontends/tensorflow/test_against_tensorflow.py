"""Frozen graphs give TensorFlow's results, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.rival_cases import CASES, V2
from treadle.frontends.tensorflow import load

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
v1 = tf.compat.v1


def frozen(name: str, unknown: bool, control_flow_v2: bool = False) -> tuple[Any, list[Any], list[str]]:
    """A graph of the case, what TensorFlow makes of it, and the names of its outputs."""
    build, arrays = CASES[name]
    with tf.Graph().as_default() as graph:
        (tf.compat.v1.enable_control_flow_v2 if control_flow_v2 else tf.compat.v1.disable_control_flow_v2)()
        shapes = [[None] * array.ndim if unknown else array.shape for array in arrays]
        places = [v1.placeholder(a.dtype, s, f"x{at}") for at, (a, s) in enumerate(zip(arrays, shapes, strict=True))]
        made = build(tf, v1, *places)
        results = [
            tf.identity(item, f"result{at}")
            for at, item in enumerate(made if isinstance(made, (list, tuple)) else [made])
        ]
    with v1.Session(graph=graph) as session:
        wanted = session.run(results, dict(zip(places, arrays, strict=True)))
    return graph.as_graph_def(), wanted, [result.op.name for result in results]


def check(name: str, graph_def: Any, wanted: list[Any], outputs: list[str]) -> None:
    arrays = {f"x{at}": array for at, array in enumerate(CASES[name][1])}
    session = treadle.Session(load(graph_def.SerializeToString(), outputs=outputs))
    found = session.run({tensor.name: arrays[tensor.name] for tensor in session.inputs})
    close = 5e-3 if name.startswith("bicubic") else 1e-5  # TensorFlow looks the weights up in a table of 1024 places

    for output, array in zip(found.values(), wanted, strict=True):
        assert output.dtype == array.dtype
        assert output.shape == array.shape
        np.testing.assert_allclose(output, array, rtol=close, atol=close)


@pytest.mark.parametrize("unknown", [False, True], ids=["known sizes", "unknown sizes"])
@pytest.mark.parametrize("name", CASES)
def test_a_frozen_op_matches_tensorflow(name: str, unknown: bool) -> None:
    """
    Each op within 1e-5, with shapes in the file and with shapes known only in the run.
    """
    if unknown and name == "split into sizes":
        pytest.skip("TensorFlow cannot build it")
    check(name, *frozen(name, unknown))


@pytest.mark.parametrize("name", sorted(V2))
def test_branches_of_tensorflow_2_match_tensorflow(name: str) -> None:
    """
    If nodes with functions, as frozen with lower_control_flow=False.
    """
    check(name, *frozen(name, False, control_flow_v2=True))


@pytest.mark.parametrize("name", CASES)
def test_an_imported_graph_def_matches_tensorflow(name: str) -> None:
    """
    The same through the facade: GraphDef, import_graph_def and a session.
    """
    import treadle.compat.tensorflow as facade

    graph_def, wanted, outputs = frozen(name, unknown=name not in ("split into sizes", "unstack"))
    mine = facade.compat.v1.GraphDef()
    mine.ParseFromString(graph_def.SerializeToString())
    with facade.Graph().as_default() as graph:
        found = facade.import_graph_def(mine, name="", return_elements=[f"{output}:0" for output in outputs])
    feed = {f"x{at}:0": array for at, array in enumerate(CASES[name][1])}
    with facade.compat.v1.Session(graph=graph) as session:
        arrays = session.run(found, feed)

    close = 5e-3 if name.startswith("bicubic") else 1e-5
    for tensor, output, array in zip(found, arrays, wanted, strict=True):
        assert tensor.dtype == array.dtype
        assert np.shape(output) == np.shape(array)
        np.testing.assert_allclose(output, array, rtol=close, atol=close)


NOT_IN_FILES = {
    "nn gelu", "nn swish", "einsum of heads", "dilated conv by blocks", "boolean_mask", "ops behind a mask", "branch",
    "branch that is never taken", "control inputs", "clip_by_value", "select of rows",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(CASES) - NOT_IN_FILES))
def test_tensorflow_runs_what_the_facade_writes(name: str) -> None:
    """
    A graph written by as_graph_def gives the same results in TensorFlow.
    """
    import treadle.compat.tensorflow as facade

    build, arrays = CASES[name]
    with facade.Graph().as_default() as graph:
        places = [facade.placeholder(array.dtype, array.shape, f"x{at}") for at, array in enumerate(arrays)]
        made = build(facade, facade.compat.v1, *places)
        outputs = [
            facade.identity(item, f"result{at}")
            for at, item in enumerate(made if isinstance(made, (list, tuple)) else [made])
        ]
    with facade.compat.v1.Session(graph=graph) as session:
        wanted = session.run(outputs, dict(zip(places, arrays, strict=True)))

    with tf.Graph().as_default() as rival:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph.as_graph_def().SerializeToString()), name="")
    with v1.Session(graph=rival) as session:
        found = session.run([output.name for output in outputs], {f"x{at}:0": array for at, array in enumerate(arrays)})

    close = 5e-3 if name.startswith("bicubic") else 1e-5
    for output, array in zip(found, wanted, strict=True):
        np.testing.assert_allclose(output, array, rtol=close, atol=close)
