"""The memory that sessions hold."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small
from treadle.compile import runner_of
from treadle.errors import ModelError

WIDTH = 512
LAYERS = 8
WEIGHTS = LAYERS * WIDTH * WIDTH * 4
MARGIN = WEIGHTS // 4


@pytest.fixture(autouse=True)
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session compiles in process and writes no artifact."""
    monkeypatch.setenv("TREADLE_CACHE", "off")


def perceptron(rows: int | str) -> onnx.ModelProto:
    """LAYERS products of x [rows, WIDTH] with constant matrices, which are packed."""
    w = small.ModelWriter()
    y = "x"
    for _ in range(LAYERS):
        y = w.op("Relu", w.op("MatMul", y, w.random(WIDTH, WIDTH)))
    return w.model({"x": (small.FLOAT, [rows, WIDTH])}, {y: (small.FLOAT, [rows, WIDTH])})


def held() -> int:
    """Returns the bytes that Python and NumPy hold now."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def traced() -> None:
    """Counts allocations while the test runs, without those of modules that are imported to compile."""
    w = small.ModelWriter()
    y = w.op("MatMul", "x", w.random(8, 8))
    treadle.Session(w.model({"x": (small.FLOAT, ["rows", 8])}, {y: (small.FLOAT, None)}).SerializeToString())
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_another_shape_shares_the_packed_weights() -> None:
    """
    A plan for other input shapes adds no weights.
    """
    session = treadle.Session(perceptron("rows").SerializeToString())
    session.run({"x": np.ones((64, WIDTH), np.float32)})
    before = held()

    for rows in (65, 80, 100, 128):
        session.run({"x": np.ones((rows, WIDTH), np.float32)})

    assert len(session.plans()) == 5
    assert held() - before < MARGIN


@pytest.mark.usefixtures("traced")
def test_another_session_of_the_same_model_shares_the_packed_weights(tmp_path: Path) -> None:
    """
    Two sessions of one file hold its weights packed once.
    """
    path = tmp_path / "model.onnx"
    onnx.save(perceptron(64), path)
    feed = {"x": np.ones((64, WIDTH), np.float32)}
    first = treadle.Session(path)
    wanted = first.run(feed)
    before = held()

    second = treadle.Session(path)
    got = second.run(feed)

    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    assert held() - before < WEIGHTS + MARGIN, "the graph of the second may have weights of its own, its plan not"


@pytest.mark.usefixtures("traced")
def test_weights_that_passes_replaced_are_freed(tmp_path: Path) -> None:
    """
    If weights are scaled and then packed, only the packed form stays in memory beside the model's own.
    """
    w = small.ModelWriter()
    y = "x"
    for _ in range(LAYERS):
        y = w.op("Mul", w.op("MatMul", y, w.random(WIDTH, WIDTH)), w.constant(np.float32(0.5)))
    path = tmp_path / "model.onnx"
    onnx.save(w.model({"x": (small.FLOAT, [64, WIDTH])}, {y: (small.FLOAT, [64, WIDTH])}), path)
    before = held()
    gc.disable()
    try:
        session = treadle.Session(path)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        gc.enable()

    assert session.outputs
    assert grown < 2 * WEIGHTS + MARGIN


def test_a_session_that_ends_frees_the_weights() -> None:
    """
    No reference to the weights is left once their last session ends.
    """
    tracemalloc.start()
    treadle.Session(perceptron(64).SerializeToString())
    before = held()
    for _ in range(3):
        treadle.Session(perceptron(64).SerializeToString())
    grown = held() - before
    tracemalloc.stop()

    assert grown < MARGIN


@pytest.mark.usefixtures("traced")
def test_a_plan_compiled_beside_one_from_disk_shares_its_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    A session that has its plan for all sizes from disk, and compiles another for some of the outputs, keeps no weights
    beside those on disk.
    """
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    w = small.ModelWriter()
    y = "x"
    for _ in range(LAYERS):
        y = w.op("Relu", w.op("MatMul", y, w.random(WIDTH, WIDTH)))
    z = w.op("Neg", y)
    onnx.save(
        w.model({"x": (small.FLOAT, ["rows", WIDTH])}, {y: (small.FLOAT, None), z: (small.FLOAT, None)}),
        tmp_path / "m.onnx",
    )
    x = np.ones((3, WIDTH), np.float32)
    expected = treadle.Session(tmp_path / "m.onnx").run({"x": x})

    session = treadle.Session(tmp_path / "m.onnx")
    before = held()
    assert session.compiles == 0
    results = session.run({"x": x}, outputs=[z])

    assert session.compiles == 1
    assert held() - before < MARGIN
    assert (results[z] == expected[z]).all()


def test_weights_of_equal_bits_are_shared_and_others_are_not() -> None:
    """
    Weights are shared if all bits are equal; even the sign of a zero makes a difference.
    """
    from treadle.plan.packed import held_once

    source = np.zeros(1)
    one = np.zeros((64, 64), np.float32)
    first = held_once(one, source)
    equal, other = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    other[63, 62] = -0.0

    assert held_once(equal, source) is first
    assert held_once(other, source) is other
    assert not first.flags.writeable
    aliased = np.zeros((64, 64), np.float32)
    assert held_once(aliased[:], aliased) is not first


@pytest.mark.parametrize("external", [False, True])
def test_a_compiled_models_file_is_not_in_memory(tmp_path: Path, *, external: bool) -> None:
    """
    A session holds its weights packed, without a second copy in arrays or in pages of the file.
    """
    path = tmp_path / "model.onnx"
    onnx.save(perceptron(64), path, save_as_external_data=external, location="weights")
    script = f"""
import treadle, numpy, gc
def resident():
    with open("/proc/self/status") as status:
        return sum(int(line.split()[1]) * 1024 for line in status if line.startswith(("RssAnon", "RssFile")))
treadle.Session({str(path)!r})
gc.collect()
before = resident()
session = treadle.Session({str(path)!r}, math="exact")
print(resident() - before)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert int(result.stdout) < WEIGHTS + MARGIN


def test_a_file_that_changes_while_a_session_needs_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Runs of known shapes continue; compiling for a new one needs the weights and raises an error. Renaming the file is
    no change.
    """
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
    path, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    onnx.save(perceptron("rows"), path)
    session = treadle.Session(path)
    feed, more = ({"x": np.ones((rows, WIDTH), np.float32)} for rows in (64, 65))
    wanted = session.run(feed)
    onnx.save(perceptron("rows"), other)
    other.rename(path)
    assert session.run(more)

    session = treadle.Session(path)
    session.run(feed)
    path.write_bytes(b"short")

    got = session.run(feed)
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    with pytest.raises(ModelError, match="was changed after it was loaded"):
        session.run(more)


def test_weights_of_any_alignment_are_read(tmp_path: Path) -> None:
    """
    Raw data may have any offset in a file; kernels get aligned copies.
    """
    for name in ("w", "weight", "odd name"):
        w = small.ModelWriter()
        w.weights.append(onnx.numpy_helper.from_array(np.arange(1000, dtype=np.float32), name))
        y = w.op("Add", "x", name)
        path = tmp_path / f"{len(name)}.onnx"
        onnx.save(w.model({"x": (small.FLOAT, [1000])}, {y: (small.FLOAT, [1000])}), path)
        for model in (path, path.read_bytes()):
            session = treadle.Session(model)
            assert np.array_equal(session.run({"x": np.ones(1000, np.float32)})[y], np.arange(1000) + 1)
            addresses = [
                address
                for kind, address in runner_of(session).plans.all()[0].executable.layout.buffers
                if kind == "constant"
            ]
            assert addresses
            assert all(address % 4 == 0 for address in addresses)
