"""Artifacts: compiled models on disk."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small
from treadle.compile import runner_of
from treadle.errors import ModelError
from treadle.frontends import model_source
from treadle.plan_store import Restored

STATIC = ("branches", "convolutional")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for this test, filled by this process."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    return tmp_path / "cache"


def is_restored(session: treadle.Session) -> bool:
    return isinstance(runner_of(session).plans.all()[0], Restored)


def saved(tmp_path: Path, name: str = "branches", **how: int) -> tuple[Path, dict[str, np.ndarray]]:
    """Writes a small model to a file; returns its path and inputs for it."""
    model = getattr(small, name)(**how)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = 2
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path, small.inputs_for(model)


@pytest.mark.parametrize("given", ["path", "bytes"])
@pytest.mark.parametrize("name", STATIC)
def test_a_second_session_reads_the_artifact_and_computes_the_same_bits(tmp_path: Path, name: str, given: str) -> None:
    """
    The second session does not compile, and returns the same bits.
    """
    path, inputs = saved(tmp_path, name)
    model = path if given == "path" else path.read_bytes()
    first, second = treadle.Session(model), treadle.Session(model)

    assert (is_restored(first), is_restored(second)) == (False, True)
    assert (first.inputs, first.outputs) == (second.inputs, second.outputs)
    wanted, got = first.run(inputs), second.run(inputs)
    assert all(np.array_equal(wanted[key].view(np.uint8), got[key].view(np.uint8)) for key in wanted)


def test_a_session_from_an_artifact_imports_neither_llvm_nor_onnx_nor_a_pass(tmp_path: Path) -> None:
    """
    A process that finds an artifact imports no module that compiles, which keeps its load fast and its memory small.
    """
    path, inputs = saved(tmp_path)
    treadle.Session(path)
    np.savez(tmp_path / "inputs.npz", **inputs)
    script = (
        "import sys, numpy, treadle\n"
        f"session = treadle.Session({str(path)!r})\n"
        f"session.run(dict(numpy.load({str(tmp_path / 'inputs.npz')!r})))\n"
        "names = {'llvmlite.binding', 'onnx', 'asyncio', 'treadle.driver', 'treadle.passes.pipeline'};"
        "print(*sorted(names & sys.modules.keys()))"
    )
    found = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in "12"]

    assert found[1].stdout.split() == [], "the first of the two may have had to ask LLVM what CPU this is"


@pytest.mark.parametrize("at", ["header", "record", "constants", "code", "end"])
def test_a_damaged_file_is_not_used(tmp_path: Path, folder: Path, at: str) -> None:
    """
    If any part of an artifact is damaged, the model is compiled, gives right results, and is stored again.
    """
    path, inputs = saved(tmp_path)
    wanted = treadle.Session(path).run(inputs)
    file = max(folder.iterdir(), key=lambda one: one.stat().st_size)
    content = bytearray(file.read_bytes())
    if at == "end":
        del content[-1]
    else:
        record = content.index(b'{"inputs"')
        content[{"header": 3, "record": record + 200, "constants": record - 70, "code": -70}[at]] ^= 1
    file.write_bytes(content)

    session = treadle.Session(path)

    assert not is_restored(session)
    assert np.array_equal(session.run(inputs)["y"], wanted["y"])
    assert is_restored(treadle.Session(path))


def test_truncated_artifacts_are_refused(tmp_path: Path, folder: Path) -> None:
    """
    A file that was truncated anywhere counts as missing.
    """
    path, _ = saved(tmp_path)
    treadle.Session(path)
    file = max(folder.iterdir(), key=lambda one: one.stat().st_size)
    content = file.read_bytes()
    for length in (0, 1, 20, 60, 76, 77, 1000, 4095, 4096, len(content) // 2):
        file.write_bytes(content[:length])
        assert not is_restored(treadle.Session(path)), length


def test_another_model_under_the_same_path_is_another_model(tmp_path: Path) -> None:
    """
    The key of an artifact is the content of the model, not its name or date.
    """
    path, inputs = saved(tmp_path)
    before = treadle.Session(path).run(inputs)["y"]
    saved(tmp_path, count=3)

    session = treadle.Session(path)

    assert not is_restored(session)
    assert not np.array_equal(session.run(inputs)["y"], before)


def test_settings_that_change_the_code_have_artifacts_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    math= and TREADLE_ISA have artifacts of their own.
    """
    path, _ = saved(tmp_path)
    treadle.Session(path)

    assert not is_restored(treadle.Session(path, math="exact"))
    monkeypatch.setenv("TREADLE_ISA", "generic")
    assert not is_restored(treadle.Session(path))


def test_a_session_from_an_artifact_has_graph_plans_and_single_outputs(tmp_path: Path) -> None:
    """
    A session from an artifact has a graph, plans and single outputs; it reads the model's file for them.
    """
    path, inputs = saved(tmp_path)
    first, second = treadle.Session(path), treadle.Session(path)

    assert [node.name for node in second.graph.nodes] == [node.name for node in first.graph.nodes]
    assert len(second.plans()[0].calls) == len(first.plans()[0].calls)
    assert np.array_equal(second.run(inputs, ["y"])["y"], first.run(inputs, ["y"])["y"])


def test_a_model_file_that_changed_is_an_error(tmp_path: Path) -> None:
    """
    A session from an artifact raises an error if it has to read the model and the file has changed; a new date alone is
    no change.
    """
    path, _ = saved(tmp_path)
    treadle.Session(path)
    touched, changed = treadle.Session(path), treadle.Session(path)
    path.touch()
    assert touched.graph.nodes
    saved(tmp_path, count=3)

    with pytest.raises(ModelError, match="was changed after its session was made"):
        _ = changed.graph


def test_a_session_from_an_artifact_runs_without_the_model_file(tmp_path: Path) -> None:
    """
    Runs of a session from an artifact need no file, and its graph names the file that is missing.
    """
    path, inputs = saved(tmp_path)
    wanted = treadle.Session(path).run(inputs)["y"]
    session = treadle.Session(path)
    path.unlink()
    shutil.rmtree(tmp_path / "cache")

    assert np.array_equal(session.run(inputs)["y"], wanted)
    with pytest.raises(ModelError, match=r"model\.onnx"):
        _ = session.graph


def test_a_relative_path_keeps_its_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A relative path means the folder that was current when the session was made.
    """
    saved(tmp_path)
    monkeypatch.chdir(tmp_path)
    treadle.Session("model.onnx")
    session = treadle.Session("model.onnx")
    monkeypatch.chdir("/")

    assert session.graph.nodes


class TestExternalData:
    """Models whose weights lie in files of their own."""

    def external(self, tmp_path: Path, seed: int = 0, *, open_rows: bool = False) -> tuple[Path, dict[str, np.ndarray]]:
        """Writes a model and its weights `model.data`, always of the same size; returns its path and inputs."""
        w = small.ModelWriter(seed)
        y = w.op("MatMul", "x", w.random(64, 32))
        rows = "rows" if open_rows else 4
        model = w.model({"x": (small.FLOAT, [rows, 64])}, {y: (small.FLOAT, [rows, 32])})
        path = tmp_path / "model.onnx"
        (tmp_path / "model.data").unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="model.data")
        return path, {"x": np.ones((4, 64), np.float32)}

    @pytest.mark.parametrize("open_rows", [False, True])
    def test_the_second_session_reads_the_artifact(self, tmp_path: Path, *, open_rows: bool) -> None:
        """
        The second session compiles nothing and gives the same bits.
        """
        path, inputs = self.external(tmp_path, open_rows=open_rows)
        first, second = treadle.Session(path), treadle.Session(path)
        wanted, got = first.run(inputs), second.run(inputs)

        assert (first.compiles, second.compiles) == (1, 0)
        assert all(np.array_equal(wanted[key].view(np.uint8), got[key].view(np.uint8)) for key in wanted)

    def test_other_weights_are_another_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        The model's own file is the same for both weights, which have artifacts of their own.
        """
        monkeypatch.setattr(model_source, "SETTLED_NS", 0)
        path, inputs = self.external(tmp_path)
        own = path.read_bytes()
        first = treadle.Session(path).run(inputs)
        self.external(tmp_path, seed=1)
        assert path.read_bytes() == own

        session = treadle.Session(path)
        assert session.compiles == 1
        assert not np.array_equal(next(iter(session.run(inputs).values())), next(iter(first.values())))
        self.external(tmp_path)
        again = treadle.Session(path)
        assert again.compiles == 0
        assert np.array_equal(next(iter(again.run(inputs).values())), next(iter(first.values())))

    def test_the_artifact_is_found_although_the_names_of_the_files_were_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        The cache folder may drop any file; the model then is read once, and not compiled.
        """
        path, _ = self.external(tmp_path)
        treadle.Session(path)
        monkeypatch.setattr("treadle.compile.load_external", lambda digest: [])

        assert treadle.Session(path).compiles == 0

    @pytest.mark.parametrize("fault", ["missing", "link", "short"])
    def test_faults_of_the_files_are_reported_although_there_is_an_artifact(self, tmp_path: Path, fault: str) -> None:
        """
        A session of a model that cannot be read raises the same error with and without an artifact.
        """
        path, _ = self.external(tmp_path)
        treadle.Session(path)
        data = tmp_path / "model.data"
        content = data.read_bytes()
        data.unlink()
        if fault == "link":
            (tmp_path / "elsewhere").write_bytes(content)
            data.symlink_to(tmp_path / "elsewhere")
        elif fault == "short":
            data.write_bytes(content[:-1])

        with pytest.raises(ModelError, match=r"model\.data"):
            treadle.Session(path)

    def test_weights_that_change_while_the_session_lives_are_an_error(self, tmp_path: Path) -> None:
        """
        The graph is read from the files when it is asked for, which then must be those of the artifact.
        """
        path, inputs = self.external(tmp_path)
        treadle.Session(path)
        session = treadle.Session(path)
        self.external(tmp_path, seed=1)

        with pytest.raises(ModelError, match="was changed after its session was made"):
            session.graph  # noqa: B018
        assert session.run(inputs)


def test_no_artifact_is_written_without_a_large_enough_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Without a cache folder, or with one too small for the artifact, the model is compiled each time.
    """
    path, _ = saved(tmp_path)
    monkeypatch.setenv("TREADLE_CACHE_MB", "0")
    treadle.Session(path)
    assert not is_restored(treadle.Session(path))
    monkeypatch.setenv("TREADLE_CACHE", "off")
    treadle.Session(path)
    assert not is_restored(treadle.Session(path))


def test_models_whose_shapes_only_python_can_tell_have_no_artifact(tmp_path: Path) -> None:
    """
    The part of a model behind such a node is compiled in a run.
    """
    w = small.ModelWriter()
    w.op("DFT", "x")
    model = w.model({"x": (small.FLOAT, [1, 8, 1])}, {"dft0": (small.FLOAT, None)})
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    treadle.Session(path)

    assert not is_restored(treadle.Session(path))


@pytest.mark.parametrize("batch", [3, "batch"])
def test_python_functions_beside_kernels_are_stored(tmp_path: Path, batch: int | str) -> None:
    """
    Nodes that the onnx package runs are part of the artifact, also with open dimensions. onnx is imported by the first
    run.
    """
    w = small.ModelWriter()
    w.weights.append(onnx.numpy_helper.from_array(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8), "w"))
    y = w.op("MatMul", w.op("GridSample", "x", "grid"), "w")
    inputs = {"x": (small.FLOAT, [batch, 2, 6, 7]), "grid": (small.FLOAT, [batch, 5, 4, 2])}
    path, feed = tmp_path / "model.onnx", tmp_path / "feed.npz"
    onnx.save(w.model(inputs, {y: (small.FLOAT, [batch, 2, 5, 8])}), path)
    rng = np.random.default_rng(0)
    arrays = {"x": rng.standard_normal((3, 2, 6, 7)), "grid": rng.uniform(-1, 1, (3, 5, 4, 2))}
    np.savez(feed, **{name: array.astype(np.float32) for name, array in arrays.items()})
    program = (
        "import sys, numpy, treadle\n"
        f"session = treadle.Session({str(path)!r})\n"
        "assert session.compiles == 0 and 'onnx' not in sys.modules\n"
        f"(y,) = session.run(dict(numpy.load({str(feed)!r}))).values()\n"
        "sys.stdout.write(y.tobytes().hex())\n"
    )
    wanted = treadle.Session(path).run(dict(np.load(feed)))[y]
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout == wanted.tobytes().hex()


@pytest.mark.parametrize("name", STATIC)
def test_a_session_from_an_artifact_is_bitwise_the_same_at_every_thread_setting(tmp_path: Path, name: str) -> None:
    """
    Sessions from artifacts are as deterministic as sessions that compiled.
    """
    path, inputs = saved(tmp_path, name)
    wanted = treadle.Session(path).run(inputs, intra_op=1, inter_op=1)["y"]
    session = treadle.Session(path)

    for intra_op, inter_op in ((1, 2), (2, 1), (4, 4)):
        assert np.array_equal(session.run(inputs, intra_op=intra_op, inter_op=inter_op)["y"], wanted)


def test_sessions_of_one_model_share_their_constants(tmp_path: Path) -> None:
    """
    The second session of a process adds no weights, whether the first one compiled or read the artifact.
    """
    path, inputs = saved(tmp_path, width=256)
    compiled, found, again = treadle.Session(path), treadle.Session(path), treadle.Session(path)

    def constants(session: treadle.Session) -> list[int]:
        buffers = runner_of(session).plans.all()[0].executable.layout.buffers
        return [address for kind, address in buffers if kind == "constant"]

    assert constants(compiled) == constants(found) == constants(again) != []
    wanted = compiled.run(inputs)["y"]
    del compiled, found
    assert np.array_equal(again.run(inputs)["y"], wanted)


def test_options_that_do_not_fit_are_refused_with_an_artifact_too(tmp_path: Path) -> None:
    """
    Options that do not fit raise the same error with and without an artifact.
    """
    path, _ = saved(tmp_path)
    treadle.Session(path)

    with pytest.raises(treadle.errors.InputError, match="example_inputs"):
        treadle.Session(path, (np.ones(3),))


class TestDigests:
    """Remembered hashes of large files."""

    @pytest.fixture
    def hashed(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The files whose content was hashed during the test."""
        seen: list[str] = []
        original = hashlib.file_digest

        def file_digest(file: Any, name: str) -> Any:
            seen.append(str(file.name))
            return original(file, name)

        monkeypatch.setattr(hashlib, "file_digest", file_digest)
        return seen

    def large(self, tmp_path: Path, seed: int = 0) -> Path:
        """Makes a model of more than 1 MiB, always of the same size."""
        w = small.ModelWriter(seed)
        y = w.op("MatMul", "x", w.random(640, 640))
        path = tmp_path / "model.onnx"
        path.write_bytes(w.model({"x": (small.FLOAT, [4, 640])}, {y: (small.FLOAT, [4, 640])}).SerializeToString())
        return path

    def test_a_large_file_is_hashed_once(
        self, tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        A large file whose dates are old enough is hashed once under all its names; small files are always read.
        """
        monkeypatch.setattr(model_source, "SETTLED_NS", 0)
        path = self.large(tmp_path)
        treadle.Session(path)
        assert len(hashed) == 1
        assert is_restored(treadle.Session(path))
        assert len(hashed) == 1

        little, _ = saved(tmp_path)
        treadle.Session(little)
        treadle.Session(little)
        assert len(hashed) == 3

    def test_a_recently_written_file_is_hashed_again(self, tmp_path: Path, hashed: list[str]) -> None:
        """
        A file may be written twice within a tick of the clock, so recent dates do not identify its content.
        """
        path = self.large(tmp_path)
        treadle.Session(path)
        treadle.Session(path)

        assert len(hashed) == 2

    def test_other_content_with_the_same_size_and_date_is_another_model(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Setting the modification date back does not help, because the time of the last change (ctime) cannot be set.
        """
        monkeypatch.setattr(model_source, "SETTLED_NS", 0)
        path = self.large(tmp_path)
        before = path.stat()
        feed = {"x": np.ones((4, 640), np.float32)}
        first = treadle.Session(path).run(feed)
        self.large(tmp_path, seed=1)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)

        session = treadle.Session(path)

        assert not is_restored(session)
        assert not np.array_equal(next(iter(session.run(feed).values())), next(iter(first.values())))


def test_a_plan_for_all_sizes_is_stored(tmp_path: Path) -> None:
    """
    A second session of a model with open dimensions compiles nothing, gives the same bits for every size, and can
    still show its plan.
    """
    w = small.ModelWriter()
    w.weights.append(onnx.numpy_helper.from_array(np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32), "w"))
    y = w.op("Softmax", w.op("MatMul", "x", "w"), axis=-1)
    path = tmp_path / "open.onnx"
    onnx.save(w.model({"x": (small.FLOAT, ["rows", 64])}, {y: (small.FLOAT, ["rows", 32])}), path)
    feeds = [{"x": np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)} for rows in (1, 7, 300)]

    first = treadle.Session(path)
    second = treadle.Session(path)

    for feed in feeds:
        assert np.array_equal(first.run(feed)[y], second.run(feed)[y])
    assert (first.compiles, second.compiles) == (1, 0)
    assert is_restored(second)
    for session in (second, first):
        assert session.run({"x": np.empty((0, 64), np.float32)})[y].shape == (0, 32)
        assert session.compiles == 1, "the plan for no rows is found by the other one"
    assert [plan.guards for plan in second.open_plans()] == [plan.guards for plan in first.open_plans()]


@pytest.mark.parametrize("rows", ["rows", 3])
def test_the_plan_for_some_outputs_is_stored(tmp_path: Path, rows: str | int) -> None:
    w = small.ModelWriter()
    z = w.op("Neg", y := w.op("Exp", "x"))
    path = tmp_path / "model.onnx"
    onnx.save(w.model({"x": (small.FLOAT, [rows, 2])}, {name: (small.FLOAT, [rows, 2]) for name in (y, z)}), path)
    sessions = [treadle.Session(path), treadle.Session(path)]
    found = [session.run({"x": np.ones((3, 2), np.float32)}, [z])[z] for session in sessions]
    assert np.array_equal(*found)
    assert [session.compiles for session in sessions] == [2, 0]
