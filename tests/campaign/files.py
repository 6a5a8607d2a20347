"""Damaged files: frozen graphs of TensorFlow, settings of `treadle tune`, and arrays for the command line."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import treadle
from tests.campaign.mutants import INTEGERS, REALS, damage
from tests.campaign.trial import TIMEOUT, Array, Trial, home, rng_of, same
from tests.models import small
from tests.unit.frontends.tensorflow.graphs import loop, mobile
from treadle.cli.model import make_inputs
from treadle.frontends.tensorflow.messages import GraphDef

WORDS = (None, True, "", "0", -1, 0, 4097, 2**63, 1e300, [], {}, [[]], "a" * 100_000)
"""What replaces values of settings."""


@cache
def frozen_seeds() -> list[tuple[str, bytes]]:
    """Returns frozen graphs with their names: networks, and loops of both kinds."""
    writers = {"mobile": mobile(32, None), "fixed mobile": mobile(32, 1), "frame": loop()}
    return [(name, write.bytes()) for name, write in writers.items()]


def frozen(number: int) -> Trial:
    """A frozen graph with other bytes, or with absurd numbers in attributes and constants."""
    rng = rng_of("frozen", number)
    name, content = rng.choice(frozen_seeds())
    if rng.random() < 0.5:
        made, what = damage(rng, content), "damaged"
    else:
        made, what = _absurd_graph(rng, content)

    def run() -> str:
        session = treadle.Session(made)
        feeds = {port.name: _array(rng, port) for port in session.inputs}
        found = [session.run(feeds, timeout=TIMEOUT) for _ in range(2)]
        return "ok" if same(*found) else "FAULT two runs differ"

    return Trial(f"{name}, {what}", run)


def _array(rng: random.Random, port: Any) -> Array:
    shape = [dim if isinstance(dim, int) else rng.choice((1, 2, 5)) for dim in (port.shape or ())]
    if np.prod(shape, dtype=float) > 1 << 24:
        shape = [min(dim, 2) for dim in shape]
    return np.ones(shape, port.dtype)


def _absurd_graph(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    graph = GraphDef()
    graph.ParseFromString(content)
    node = rng.choice(graph.node)
    for _ in range(20):
        if node.attr:
            break
        node = rng.choice(graph.node)
    name = rng.choice(sorted(node.attr))
    attr, number = node.attr[name], rng.choice(INTEGERS)
    kind = attr.WhichOneof("value")
    if kind == "i":
        attr.i = number
    elif kind == "f":
        attr.f = rng.choice(REALS)
    elif kind == "b":
        attr.b = not attr.b
    elif kind == "type":
        attr.type = rng.choice((1, 2, 3, 4, 7, 9, 10, 14, 19, 21))
    elif kind == "list" and attr.list.i:
        attr.list.i[rng.randrange(len(attr.list.i))] = number
    elif kind == "shape" and attr.shape.dim:
        attr.shape.dim[rng.randrange(len(attr.shape.dim))].size = number
    elif kind == "tensor" and attr.tensor.tensor_content:
        changed = bytearray(attr.tensor.tensor_content)
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        attr.tensor.tensor_content = bytes(changed)
    elif node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(graph.node).name
        return graph.SerializeToString(), f"{node.name} reads another node"
    return graph.SerializeToString(), f"{node.name}.{name}"


@cache
def _settings_file() -> tuple[Path, bytes]:
    """Returns a model's path, and the content of a file of settings for it."""
    from treadle.codegen.target import detect
    from treadle.frontends.model_source import file_digest
    from treadle.runtime.threads import process
    from treadle.runtime.tuned import Tuned, machine, write_tuned

    model, path = home() / "add.onnx", home() / "whole.json"
    onnx.save(small.add(), model)
    here = machine(detect().isa, process.topology())
    write_tuned(path, Tuned(1, 0, model.name, file_digest(model) or "", here, "Because.", {"median_ms": {"1, 1": 2.5}}))
    return model, path.read_bytes()


def settings(number: int) -> Trial:
    """A file of settings with other bytes or other values."""
    rng = rng_of("settings", number)
    model, content = _settings_file()
    what = "damaged"
    if rng.random() < 0.4:
        made = damage(rng, content)
    else:
        data = json.loads(content)
        place, name = data, rng.choice(sorted(data))
        while isinstance(place[name], dict) and place[name] and rng.random() < 0.7:
            place = place[name]
            name = rng.choice(sorted(place))
        place[name], what = rng.choice(WORDS), name
        made = json.dumps(data).encode()
    path = home() / "settings.json"
    ones = np.ones((2, 3), np.float32)

    def run() -> str:
        path.write_bytes(made)
        found = treadle.Session(model, settings=path).run({"a": ones, "b": ones}, timeout=TIMEOUT)
        return "ok" if (found["y"] == 2).all() else "FAULT a wrong result"

    return Trial(what, run)


def arrays(number: int) -> Trial:
    """A damaged .npy file as an input of a command."""
    rng = rng_of("arrays", number)
    path = home() / "array.npy"
    dtype = rng.choice((*[np.float32] * 8, np.float64, np.int64, np.bool_, "<U5", "datetime64[s]"))
    np.save(path, np.zeros((2, 3), dtype))
    content = path.read_bytes()
    made = damage(rng, content) if rng.random() < 0.7 else content[: rng.randrange(len(content))]
    model, _ = _settings_file()

    def run() -> str:
        path.write_bytes(made)
        session = treadle.Session(model)
        for _ in range(2):
            session.run(make_inputs(session.inputs, {"a": str(path)}, {}), timeout=TIMEOUT)
        return "ok"

    return Trial(f"{np.dtype(dtype)}", run)
