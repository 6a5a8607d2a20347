"""Random nodes give the results and errors of TensorFlow, where it is installed."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer
from tests.unit.frontends.tensorflow.random_nodes import DRAWS
from tests.unit.frontends.tensorflow.random_operands import Draw
from treadle.dtypes import from_numpy
from treadle.errors import InternalError, TreadleError

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

ROUNDS = 3


def graph_of(draw: Draw, unknown: bool) -> tuple[Writer, dict[str, Any], int]:
    """The node in a graph, what its placeholders are fed, and how many results it has."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(draw.op)
    attrs = {name: from_numpy(np.dtype(v)) if isinstance(v, type) else v for name, v in draw.attrs.items()}
    rest = list(draw.operands)
    for at, place in enumerate(definition.input_arg):
        count = len(rest) - (len(definition.input_arg) - at - 1) if place.number_attr else 1
        if place.number_attr:
            attrs[place.number_attr] = count
        if place.type_attr and rest:
            attrs[place.type_attr] = from_numpy(rest[0].dtype)
        del rest[:count]
    stated = {attr.name for attr in definition.attr}
    w, feeds, names = Writer(), {}, []
    w.graph.versions.producer = 1500
    for at, array in enumerate(draw.operands):
        if at in draw.fixed:
            names.append(w.constant(array))
            continue
        names.append(
            w.input(f"x{at}", tuple([None] * array.ndim) if unknown else array.shape, from_numpy(array.dtype).name)
        )
        feeds[f"x{at}"] = array
    attrs = {"T": None, **{name: value for name, value in attrs.items() if name in stated}}
    w.node(draw.op, *names, name="node", **attrs)
    counts = {"Split": "num_split", "SplitV": "num_split", "Unpack": "num"}
    several = attrs[counts[draw.op]] if draw.op in counts else len(definition.output_arg)
    return w, feeds, min(several, 3) if "Norm" in draw.op else several


def of_tensorflow(w: Writer, feeds: dict[str, Any], count: int) -> list[Any] | str:
    """What TensorFlow gives, or why it refuses the node."""
    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(w.bytes()), name="")
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            return list(session.run([f"node:{at}" for at in range(count)], {f"{k}:0": v for k, v in feeds.items()}))
    except (tf.errors.OpError, ValueError, TypeError) as error:
        return str(error)


def of_treadle(w: Writer, feeds: dict[str, Any], count: int) -> list[Any] | str:
    """What treadle gives, or the error of its own by which it refuses the node."""
    try:
        session = treadle.Session(w.bytes(), outputs=[f"node:{at}" for at in range(count)])
        return list(session.run({tensor.name: feeds[tensor.name] for tensor in session.inputs}).values())
    except InternalError:
        raise
    except TreadleError as error:
        return str(error)


def difference(draw: Draw, found: Any, wanted: Any) -> str:
    """How `found` differs from `wanted`; nothing if it does not."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f" or not wanted.size:
        return "" if np.array_equal(found, wanted) else f"{found!r} for {wanted!r}"
    with np.errstate(all="ignore"):
        there = np.isfinite(wanted)
        size = np.max(np.abs(wanted[there]), initial=0) if draw.scaled else np.abs(np.where(there, wanted, 1))
        unit = np.spacing(np.maximum(size, np.finfo(wanted.dtype).smallest_normal).astype(wanted.dtype))
        near = np.where(there, np.abs(found - wanted) <= draw.ulps * unit, found == wanted)
    return "" if np.all(near | (np.isnan(found) & np.isnan(wanted))) else f"{found!r} for {wanted!r}"


def check(op: str, seed: int) -> str:
    """How treadle differs from TensorFlow on the node of this number; nothing if it does not."""
    rng = np.random.default_rng([zlib.crc32(op.encode()), seed])
    draw = DRAWS[op](rng)
    w, feeds, count = graph_of(draw, unknown=seed % 2 == 1)
    wanted = of_tensorflow(w, feeds, count)
    found = of_treadle(w, feeds, count)
    what = f"{op} {seed} {[a.shape for a in draw.operands]} {draw.operands[0].dtype} {draw.attrs}"
    fixed = [draw.operands[at].tolist() for at in draw.fixed]
    if isinstance(found, str) or isinstance(wanted, str):
        both = isinstance(found, str) and isinstance(wanted, str)
        return "" if both else f"{what} {fixed}: {found} for {wanted}"
    told = [difference(draw, f, w) for f, w in zip(found, wanted, strict=True)]
    return "" if not any(told) else f"{what} {fixed}: {told}"


@pytest.mark.parametrize("op", DRAWS)
def test_a_random_node_matches_tensorflow_or_raises_as_there(op: str) -> None:
    assert [told for seed in range(ROUNDS) if (told := check(op, seed))] == []
