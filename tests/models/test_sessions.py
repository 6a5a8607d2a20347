"""Whole models through `treadle.Session`."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small

RELATIVE = 1e-5


def close(got: np.ndarray, wanted: np.ndarray) -> bool:
    distance = np.linalg.norm(got.astype(np.float64) - wanted) / max(np.linalg.norm(wanted), 1e-30)
    return got.dtype == wanted.dtype and got.shape == wanted.shape and distance < RELATIVE


@pytest.fixture(autouse=True)
def automatic_threads() -> None:
    """Every test leaves the process's settings automatic."""
    yield
    treadle.threads.set(intra_op=0, inter_op=0)


@pytest.mark.parametrize("math", ["fast", "exact"])
@pytest.mark.parametrize("name", small.MODELS)
def test_outputs_agree_with_the_reference(name: str, math: str) -> None:
    """
    A session computes what the onnx package's reference implementation computes.
    """
    model = small.MODELS[name]()
    inputs = small.inputs_for(model)

    got = treadle.Session(model, math=math).run(inputs)

    assert close(got["y"], small.wanted(model, inputs)["y"])


@pytest.mark.parametrize("isa", ["avx2", "generic"])
@pytest.mark.parametrize("name", small.MODELS)
def test_lesser_instruction_sets_compute_the_same(name: str, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    TREADLE_ISA makes the same generators produce working code for smaller vectors.
    """
    from treadle.codegen.target import available_isas

    if isa not in available_isas():
        pytest.skip(f"this CPU has no {isa}")
    monkeypatch.setenv("TREADLE_ISA", isa)
    model = small.MODELS[name]()
    inputs = small.inputs_for(model)

    got = treadle.Session(model).run(inputs)

    assert close(got["y"], small.wanted(model, inputs)["y"])


@pytest.mark.parametrize("name", small.MODELS)
def test_results_are_bitwise_the_same_at_every_thread_setting(name: str) -> None:
    """
    Neither intra_op nor inter_op changes a single bit.
    """
    model = small.MODELS[name]()
    inputs = small.inputs_for(model)
    session = treadle.Session(model)
    results = set()
    for intra in (1, 2, 4):
        for inter in (1, 2, 4):
            treadle.threads.set(intra_op=intra, inter_op=inter)
            results.update(session.run(inputs)["y"].tobytes() for _ in range(5))

    assert len(results) == 1


def test_many_threads_may_run_one_session() -> None:
    """
    Eight client threads with inputs of their own each get their own results.
    """
    model = small.convolutional()
    session = treadle.Session(model)
    feeds = [small.inputs_for(model, seed=seed) for seed in range(8)]
    alone = [session.run(feed)["y"] for feed in feeds]
    barrier = threading.Barrier(8)

    def client(number: int) -> bool:
        barrier.wait()
        return all(np.array_equal(session.run(feeds[number])["y"], alone[number]) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(client, range(8)))


def test_a_new_shape_gets_a_plan_of_its_own() -> None:
    """
    A symbolic dimension may have another size in each run.
    """
    model = small.convolutional()
    session = treadle.Session(model)
    for n in (1, 3, 2, 3):
        inputs = small.inputs_for(model, n=n)
        assert close(session.run(inputs)["y"], small.wanted(model, inputs)["y"])

    assert len(session.plans()) == 3


def test_plans_beyond_the_limit_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A session keeps TREADLE_PLAN_CACHE plans and drops the least recently used first.
    """
    monkeypatch.setenv("TREADLE_PLAN_CACHE", "2")
    session = treadle.Session(small.add(shape=("n",)))
    for n in (1, 2, 3, 4):
        session.run({"a": np.ones(n, np.float32), "b": np.ones(n, np.float32)})

    assert len(session.plans()) == 2


def test_shapes_that_depend_on_data_work() -> None:
    """
    A graph is split into stages where a shape depends on data; the next stage is planned in the run.
    """
    session = treadle.Session(small.data_dependent())
    for x in ([1.0, -2.0, 3.0, 4.0], [-1.0, 5.0], [-1.0]):
        array = np.array(x, np.float32)
        assert np.array_equal(session.run({"x": array})["y"], 2 * array[array > 0])


def test_single_outputs_are_computed_alone(tmp_path: Path) -> None:
    """
    `outputs` names the outputs to compute; they are returned in that order.
    """
    w = small.ModelWriter()
    w.op("Relu", "x")
    w.op("Neg", "x")
    w.nodes[0].output[0], w.nodes[1].output[0] = "a", "b"
    model = w.model({"x": (small.FLOAT, [3])}, {"a": (small.FLOAT, [3]), "b": (small.FLOAT, [3])})
    session = treadle.Session(model)
    x = np.array([-1, 0, 2], np.float32)

    assert list(session.run({"x": x})) == ["a", "b"]
    assert list(session.run({"x": x}, ["b"])) == ["b"]
    assert list(session.run({"x": x}, ["b", "a"])) == ["b", "a"]
    assert np.array_equal(session.run({"x": x}, ["b"])["b"], -x)


def test_a_model_may_be_a_path_bytes_or_a_proto(tmp_path: Path) -> None:
    """
    The same model in every form gives the same results.
    """
    model = small.branches()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    inputs = small.inputs_for(model)
    forms = [path, str(path), model.SerializeToString(), model]

    assert len({treadle.Session(form).run(inputs)["y"].tobytes() for form in forms}) == 1


def test_outputs_that_are_inputs_or_constants_are_fresh_arrays() -> None:
    """
    Writing to an output changes neither the inputs nor the model.
    """
    w = small.ModelWriter()
    w.op("Identity", "x")
    w.op("Identity", w.constant(np.arange(4, dtype=np.float32)))
    w.op("Reshape", "x", w.constant(np.array([2, 2])))
    for node, name in zip(w.nodes, "abc", strict=True):
        node.output[0] = name
    model = w.model({"x": (small.FLOAT, [4])}, {name: (small.FLOAT, [4] if name != "c" else [2, 2]) for name in "abc"})
    session = treadle.Session(model)
    x = np.ones(4, np.float32)
    first = session.run({"x": x})
    for array in first.values():
        array[...] = 7

    second = session.run({"x": x})

    assert np.array_equal(x, np.ones(4))
    assert np.array_equal(second["a"], x)
    assert np.array_equal(second["b"], np.arange(4))
    assert np.array_equal(second["c"], x.reshape(2, 2))


def test_inputs_of_any_memory_layout_are_taken() -> None:
    """
    Strided, reversed, read-only, byte-swapped and unaligned arrays give the results of plain ones.
    """
    session = treadle.Session(small.add(shape=(4, 6)))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((4, 6)).astype(np.float32) for _ in range(2))
    wanted = a + b
    unaligned = np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 6)
    wide = np.zeros((8, 12), np.float32)
    wide[::2, ::2] = a
    read_only = a.copy()
    read_only.setflags(write=False)
    forms = [np.asfortranarray(a), wide[::2, ::2], a[::-1][::-1], read_only, a.astype(">f4"), unaligned, a.tolist()]

    for form in forms:
        assert np.array_equal(session.run({"a": form, "b": b})["y"], wanted)


def test_arrays_without_elements_run() -> None:
    """
    A dimension of size 0 is a shape like any other.
    """
    session = treadle.Session(small.add(shape=("n", 3)))
    empty = np.zeros((0, 3), np.float32)

    assert session.run({"a": empty, "b": empty})["y"].shape == (0, 3)
