"""Models whose results are compared: with other implementations, and with those of sessions of other sizes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto
from onnx.reference import ReferenceEvaluator

import treadle
from tests.campaign.mutants import is_random, seeds
from tests.campaign.trial import TIMEOUT, Array, Trial, rng_of
from tests.models import small

SMALL = (0, 1, 2, 3, 4, -1, -2)
"""Integers that attributes often take."""


def reference(number: int) -> Trial:
    """A node case with other small attributes and random inputs, beside ONNX Runtime and the onnx package's reference.

    Where these two agree and treadle gives something else, it is wrong. Raises ImportError without onnxruntime.
    """
    rng = rng_of("reference", number)
    seed = rng.choice(seeds())
    model = onnx.ModelProto()
    model.CopyFrom(seed.model)
    integers = [
        attribute
        for node in model.graph.node
        for attribute in node.attribute
        if attribute.type in (AttributeProto.INT, AttributeProto.INTS)
    ]
    if integers and rng.random() < 0.8:
        attribute = rng.choice(integers)
        if attribute.type == AttributeProto.INT:
            attribute.i = rng.choice(SMALL)
        elif attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(SMALL)
    feeds = {name: _other(rng, array) for name, array in seed.feeds.items()}

    def run() -> str:
        session = treadle.Session(model.SerializeToString())
        found = list(session.run(feeds, timeout=TIMEOUT).values())
        if is_random(model):
            return "ok"
        one, other = _by_reference(model, feeds), _by_onnx_runtime(model, feeds)
        if one is None or other is None:
            return "ok"
        if _agree(one, other) and not _agree(found, one):
            return "FAULT a wrong result"
        return "ok"

    return Trial(seed.name, run)


def _other(rng: random.Random, array: Array) -> Array:
    """Returns other random elements for a tensor of reals, which are no sizes; half the time the given ones."""
    if array.dtype not in (np.float32, np.float64) or array.size <= 4 or rng.random() < 0.5:
        return array
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    return np.asarray(numbers.uniform(array.min(), array.max() + 1e-3, array.shape), array.dtype)


def _by_reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Any] | None:
    try:
        return list(ReferenceEvaluator(model).run(None, dict(feeds)))
    except Exception:  # noqa: BLE001 - it has no opinion then
        return None


def _by_onnx_runtime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Any] | None:
    import onnxruntime

    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(feeds)))
    except Exception:  # noqa: BLE001 - likewise
        return None


def _agree(some: Sequence[Any], others: Sequence[Any]) -> bool:
    if len(some) != len(others):
        return False
    for one, other in zip(some, others, strict=True):
        if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
            continue
        if one.shape != other.shape:
            return False
        if one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":
            continue
        if not np.allclose(one, other, rtol=2e-2, atol=2e-2, equal_nan=True):
            return False
    return True


@cache
def _open_models() -> Mapping[str, onnx.ModelProto]:
    models = {"convolutional": small.convolutional(), "chosen": small.data_dependent()}
    w = small.ModelWriter(9)
    y = w.op("Softmax", w.op("MatMul", "x", w.random(24, 24)), axis=-1)
    y = w.op("Concat", y, w.op("Transpose", w.op("Transpose", "x", perm=[1, 0]), perm=[1, 0]), axis=1)
    models["rows"] = w.model({"x": (small.FLOAT, ["n", 24])}, {y: (small.FLOAT, None)})
    return models


@cache
def _open_session(name: str) -> treadle.Session:
    return treadle.Session(_open_models()[name])


def shapes(number: int) -> Trial:
    """Runs of sizes in any order on one session: each gives the bits of a session that has seen no other size."""
    rng = rng_of("shapes", number)
    name = rng.choice(sorted(_open_models()))
    sizes = [rng.choice((1, 2, 3, 5, 8, 13, 31)) for _ in range(4)]

    def run() -> str:
        model = _open_models()[name]
        for size in sizes:
            feeds = small.inputs_for(model, seed=size, n=size)
            found = _open_session(name).run(feeds, timeout=60)
            if size == sizes[-1]:
                alone = treadle.Session(model).run(feeds, timeout=60)
                if any(found[key].tobytes() != array.tobytes() for key, array in alone.items()):
                    return "FAULT other bits than alone"
        return "ok"

    return Trial(f"{name} of {sizes}", run)
