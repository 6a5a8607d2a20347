"""With batch_invariant=True or math="exact" the bits of a row depend neither on the other rows nor on their number."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.machines import MACHINES
from tests.models import encoders, test_attention
from tests.models.small import FLOAT, Array, ModelWriter
from treadle.errors import InputError
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.winograd.lower import permitted_tilings

MOST = 64
SOME = (1, 2, 3, 8, 15, 16, 33)
"""Batches of sessions that compile each for itself."""

OPTIONS: list[dict[str, Any]] = [{"batch_invariant": True}, {"math": "exact"}]


def convolutional() -> onnx.ModelProto:
    """Small images and many channels: how many images there are decides what is the fastest."""
    w, width = ModelWriter(), 48
    x = "x"
    for channels in (3, width, width):
        x = w.op("Relu", w.op("Conv", x, w.random(width, channels, 3, 3), w.random(width), pads=[1] * 4))
    x = w.op("Relu", w.op("Conv", x, w.random(width, 1, 3, 3), w.random(width), pads=[1] * 4, group=width))
    x = w.op("ReduceMean", w.op("Conv", x, w.random(width, width, 1, 1)), axes=[2, 3], keepdims=0)
    w.op("Gemm", x, w.random(width, 10), w.random(10))
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (FLOAT, ["n", 3, 5, 5])}, {"y": (FLOAT, ["n", 10])})


def dot_products() -> onnx.ModelProto:
    """A product with a matrix that is no constant, along whose rows it runs."""
    w = ModelWriter()
    w.op("MatMul", "x", w.op("Transpose", "matrix", perm=[1, 0]))
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (FLOAT, ["n", 300]), "matrix": (FLOAT, [9, 300])}, {"y": (FLOAT, ["n", 9])})


def long_sums() -> onnx.ModelProto:
    """Sums so long that they are added in pieces where there are few of them."""
    w = ModelWriter()
    w.op("ReduceSum", w.op("Mul", "x", w.random(20_000, 1)), w.constant(np.array([1])), keepdims=0)
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (FLOAT, ["n", 1, 64])}, {"y": (FLOAT, ["n", 64])})


def inputs_of(name: str) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    if name == "encoder":
        return encoders.feed(rng.integers(1, 20, MOST).tolist(), 20)
    shapes = {"convolutional": (3, 5, 5), "decoder": (40, test_attention.WIDTH), "dots": (300,), "sums": (1, 64)}
    made = {"x": rng.standard_normal((MOST, *shapes[name]), dtype=np.float32)}
    return {**made, "matrix": rng.standard_normal((9, 300), dtype=np.float32)} if name == "dots" else made


MODELS = {
    "encoder": encoders.encoder(encoders.masked_mean, encoders.all_rows),
    "convolutional": convolutional(),
    "decoder": test_attention.decoder(),
    "dots": dot_products(),
    "sums": long_sums(),
}


def differing(session: treadle.Session, inputs: dict[str, Array], batches: Any) -> list[int]:
    """The sizes of batches whose rows have other bits than the same rows of the whole batch, or of another one."""
    whole = session.run(inputs)
    found = []
    for size in batches:
        for rows in (slice(0, size), slice(MOST - size, MOST)):
            given = {name: array[rows] if name != "matrix" else array for name, array in inputs.items()}
            part = session.run(given)
            if any(part[name].tobytes() != array[rows].tobytes() for name, array in whole.items()):
                found.append(size)
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_rows_have_the_bits_that_they_have_in_every_batch(name: str, options: dict[str, Any]) -> None:
    """
    For every batch from 1 to 64, in a session with one plan for all of them.
    """
    session = treadle.Session(MODELS[name], **options)

    assert not differing(session, inputs_of(name), range(1, MOST + 1))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_rows_have_the_same_bits_where_each_batch_is_compiled(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Kernels chosen for a known batch give the bits of those for another one.
    """
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
    session = treadle.Session(MODELS[name], **options)

    assert not differing(session, inputs_of(name), SOME)


@pytest.mark.parametrize("name", ["convolutional", "dots", "sums"])
def test_batches_decide_otherwise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Without the option the same models have rows that depend on the batch: the tests above can fail.
    """
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")

    assert differing(treadle.Session(MODELS[name]), inputs_of(name), SOME)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_number_of_images_chooses_no_algorithm(machine) -> None:
    """
    Winograd's algorithm, and which of its forms, is the same for all numbers of images; it is not without the option.
    """

    def ways(images: int, *, batch_invariant: bool) -> set[Any]:
        shape = ConvShape(images, 64, (7, 7), 64, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1)
        target = machine.description()
        found = permitted_tilings(
            shape, target, "fast", 2, streamed=True, bf16_dot=False, batch_invariant=batch_invariant
        )
        return {None if way is None else (way.side, way.section_blocks, way.fused) for way in found}

    def chosen(*, batch_invariant: bool) -> set[Any]:
        return set().union(*(ways(images, batch_invariant=batch_invariant) for images in range(1, MOST + 1)))

    assert len(chosen(batch_invariant=True)) == 1
    assert len(chosen(batch_invariant=False)) > 1


def test_other_values_and_libraries_are_refused() -> None:
    """
    batch_invariant is True or False, and matrices are multiplied by treadle.
    """
    with pytest.raises(InputError, match="batch_invariant"):
        treadle.Session(MODELS["dots"], batch_invariant=1)


def test_bits_that_do_not_depend_on_the_batch_skip_padding() -> None:
    """
    A text without padding has the bits that it has alone, whatever texts it is embedded with.
    """
    model = encoders.encoder(encoders.masked_mean)
    session = treadle.Session(model, skip_padding=True, batch_invariant=True)
    given = encoders.feed([5, 17, 2, 9], 17)
    whole = session.run(given)["y"]
    for text, length in enumerate((5, 17, 2, 9)):
        own = {name: array[text : text + 1, :length] for name, array in given.items()}
        assert session.run(own)["y"].tobytes() == whole[text : text + 1].tobytes()
