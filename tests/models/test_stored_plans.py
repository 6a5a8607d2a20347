"""Which plans of a model are kept on disk, and found by later sessions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models import encoders
from tests.models.encoders import encoder, feed
from tests.models.second_process import COMPILERS, run_in_process
from tests.models.small import FLOAT, ModelWriter
from tests.models.test_branches import detector, feeds, nested
from tests.models.test_loops import SIZE, looping
from tests.models.test_open_plans import doubled_if_short, rows, total
from tests.models.test_states import decoder
from treadle.codegen.artifact import MAGIC
from treadle.compile import runner_of
from treadle.dtypes import f32
from treadle.errors import InputError, InternalError, ThreadSettingError
from treadle.graph.graph import Graph
from treadle.open_plans import StoredStage
from treadle.ops.op import Info
from treadle.runtime.data_stage import StageForm

Array = np.ndarray[Any, Any]
INT64 = onnx.TensorProto.INT64


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for this test, filled by this process."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    return tmp_path / "cache"


def saved(tmp_path: Path, model: onnx.ModelProto) -> Path:
    """Writes `model` to a file and returns its path."""
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def assert_same_bits(one: treadle.Session, other: treadle.Session, given: Mapping[str, Array]) -> None:
    """Both sessions give the same bits."""
    wanted, got = one.run(given), other.run(given)
    assert wanted.keys() == got.keys()
    assert all(wanted[name].tobytes() == got[name].tobytes() for name in wanted)


def test_a_stage_that_a_fresh_compile_does_not_have_is_an_error() -> None:
    """
    What is stored and what is compiled again may differ after a fault; the error names the outputs of the stage.
    """
    (fresh,) = treadle.Session(doubled_if_short()).open_plans()
    stage = StoredStage(StageForm((np.dtype(np.float32),), ("found",), ("n",), ()), None, lambda: fresh)

    with pytest.raises(InternalError, match=r"a stage for \['found'\], but not when it is compiled again"):
        stage.make([3])


class TestBranches:
    """The bodies of branches and loops are plans in the plan."""

    @pytest.mark.parametrize("rows", [5, "rows"])
    def test_a_second_session_compiles_nothing(self, tmp_path: Path, rows: int | str) -> None:
        """Both branches give the same bits, for fixed sizes and for open ones."""
        path = saved(tmp_path, detector(rows))
        first, second = treadle.Session(path), treadle.Session(path)

        for number in (5,) if rows == 5 else (1, 5, 70):
            for rate in (16_000, 8_000):
                assert_same_bits(first, second, feeds(number, rate))
        assert (first.compiles, second.compiles) == (1, 0)

    @pytest.mark.parametrize("a", [True, False])
    @pytest.mark.parametrize("b", [True, False])
    def test_a_branch_in_a_branch_is_stored(self, tmp_path: Path, *, a: bool, b: bool) -> None:
        """All four combinations take the branch that the conditions name."""
        path = saved(tmp_path, nested())
        first, second = treadle.Session(path), treadle.Session(path)
        x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)

        assert_same_bits(first, second, {"x": x, "a": np.array(a), "b": np.array(b)})
        assert (first.compiles, second.compiles) == (1, 0)

    @pytest.mark.parametrize("rows", [2, "rows"])
    @pytest.mark.parametrize("limit", [7, "limit"])
    def test_loops_are_stored(self, tmp_path: Path, rows: int | str, limit: int | str) -> None:
        """Their sizes are those of the run."""
        path = saved(tmp_path, looping(limit, rows=rows))
        first, second = treadle.Session(path), treadle.Session(path)

        for number in (2,) if rows == 2 else (1, 2, 9):
            given = {"x": np.ones((number, SIZE), np.float32), "rate": np.float32(0.1)}
            if limit == "limit":
                given["limit"] = np.array(5)
            assert_same_bits(first, second, given)
        assert (first.compiles, second.compiles) == (1, 0)

    def test_nodes_of_bodies_can_be_capped_by_their_names(self, tmp_path: Path) -> None:
        """The names are in the artifact, and a cap changes no bit."""
        path = saved(tmp_path, detector("rows"))
        first = treadle.Session(path)
        capped = treadle.Session(path, node_intra_op={"if2/fast_matmul": 1})

        assert capped.compiles == 0
        assert_same_bits(first, capped, feeds(70, 16_000))
        with pytest.raises(ThreadSettingError, match="if2/slow_matmul"):
            treadle.Session(path, node_intra_op={"slow_matmul": 1})

    def test_a_damaged_body_is_not_used(self, tmp_path: Path, folder: Path) -> None:
        """The model is compiled again and gives the same bits."""
        path = saved(tmp_path, detector())
        first = treadle.Session(path)
        file = max(folder.iterdir(), key=lambda one: one.stat().st_size)
        content = bytearray(file.read_bytes())
        content[content.index(b'"bodies":') + 40] ^= 1
        file.write_bytes(content)

        second = treadle.Session(path)
        assert second.compiles == 1
        assert_same_bits(first, second, feeds(5, 16_000))


class TestSharedConstants:
    """Artifacts of one model hold equal constants once."""

    def wide(self, tmp_path: Path) -> tuple[Path, dict[str, Array]]:
        """Writes a model with 256 KB of weights that all precisions read as they are; returns its path and inputs."""
        w = ModelWriter()
        y = w.op("Softmax", w.op("Gather", w.random(1024, 64), "x", axis=0), axis=-1)
        path = saved(tmp_path, w.model({"x": (INT64, [4])}, {y: (FLOAT, None)}))
        return path, {"x": np.array([5, 0, 1023, 7])}

    def large_files(self, folder: Path) -> list[Path]:
        """Returns the files that may hold the weights."""
        return [one for one in folder.iterdir() if one.stat().st_size > 200_000]

    def test_a_second_precision_adds_no_weights(self, tmp_path: Path, folder: Path) -> None:
        """Its artifact has a file of its own, which is small; a later session finds all of it."""
        path, inputs = self.wide(tmp_path)
        treadle.Session(path)
        before = len(list(folder.iterdir()))
        exact = treadle.Session(path, math="exact")
        wanted = exact.run(inputs)

        assert len(list(folder.iterdir())) > before
        assert len(self.large_files(folder)) == 1
        del exact
        again = treadle.Session(path, math="exact")
        assert again.compiles == 0
        assert all(again.run(inputs)[name].tobytes() == wanted[name].tobytes() for name in wanted)

    def test_a_process_that_reads_both_maps_the_weights_once(self, tmp_path: Path) -> None:
        """The plans of both read the same memory."""
        path, _ = self.wide(tmp_path)
        made = [treadle.Session(path, math=math) for math in ("fast", "exact")]
        del made
        addresses, sessions = [], []
        for math in ("exact", "fast"):
            session = treadle.Session(path, math=math)
            assert session.compiles == 0
            (plan,) = runner_of(session).plans.all()
            arrays = plan.executable.layout.kept.arrays  # type: ignore[attr-defined]
            addresses.append({one.ctypes.data for one in arrays if one.nbytes > 200_000})
            sessions.append(session)

        assert addresses[0] == addresses[1] != set()

    @pytest.mark.parametrize("fault", ["gone", "damaged", "of another model"])
    def test_an_artifact_without_its_weights_is_not_used(self, tmp_path: Path, folder: Path, fault: str) -> None:
        """The model is compiled again, and from then on found again, whatever has become of the first file."""
        path, inputs = self.wide(tmp_path)
        treadle.Session(path)
        (file,) = self.large_files(folder)
        wanted = treadle.Session(path, math="exact").run(inputs)
        if fault == "gone":
            file.unlink()
        elif fault == "damaged":
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        else:
            treadle.Session(path, precision="bf16")
            others = (one for one in folder.iterdir() if one != file)
            max(others, key=lambda one: one.stat().st_mtime_ns).rename(file)

        again = treadle.Session(path, math="exact")
        assert again.compiles == 1
        assert all(again.run(inputs)[name].tobytes() == wanted[name].tobytes() for name in wanted)
        treadle.Session(path)
        assert [treadle.Session(path, math=math).compiles for math in ("exact", "fast")] == [0, 0]


class TestFurtherPlans:
    """Plans that are compiled when a run needs them."""

    def test_plans_beyond_a_guard_are_stored(self, tmp_path: Path) -> None:
        """A later session compiles nothing, gives the same bits, and can show the same plans."""
        path = saved(tmp_path, doubled_if_short())
        first, second = treadle.Session(path), treadle.Session(path)
        for length in (16, 100, 3, 15, 1):
            assert_same_bits(first, second, {"x": rows(length)})
        assert (first.compiles, second.compiles) == (2, 0)

        guards = [plan.guards for plan in first.open_plans()]
        assert guards == [["length >= 16"], ["length >= 1", "length <= 15"]]
        assert [plan.guards for plan in second.open_plans()] == guards
        assert len(second.plans()) == len(first.plans())

    def test_they_add_no_weights_and_need_no_compiler(self, tmp_path: Path, folder: Path) -> None:
        """A process that finds them imports neither onnx nor LLVM nor a pass."""
        w = ModelWriter()
        length = w.op("Gather", w.op("Shape", "x"), w.constant(np.array(0)), axis=0)
        short = w.op("Less", length, w.constant(np.array(16)))
        y = w.op("Where", short, w.op("MatMul", "x", w.random(128, 512)), w.constant(np.float32(3)))
        path = saved(tmp_path, w.model({"x": (FLOAT, ["length", 128])}, {y: (FLOAT, None)}))
        first = treadle.Session(path)
        for number in (20, 3):
            first.run({"x": np.ones((number, 128), np.float32)})
        assert first.compiles == 2
        script = (
            "import sys, numpy, treadle\n"
            f"session = treadle.Session({str(path)!r})\n"
            "for length in (20, 3): session.run({'x': numpy.ones((length, 128), numpy.float32)})\n"
            "names = {'llvmlite.binding', 'onnx', 'treadle.driver', 'treadle.passes.pipeline'}\n"
            "print(session.compiles, *sorted(names & sys.modules.keys()))"
        )
        found = [
            subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in "12"
        ]

        assert found[1].stdout.split() == ["0"], "the first of the two may have had to ask LLVM what CPU this is"

    @pytest.mark.parametrize("length", [2, "length"])
    def test_plans_for_single_outputs_are_stored(self, tmp_path: Path, length: int | str) -> None:
        """For fixed sizes and for open ones."""
        w = ModelWriter()
        y, z = w.op("Softmax", "x", axis=-1), w.op("Exp", "x")
        path = saved(tmp_path, w.model({"x": (FLOAT, [length, 8])}, {y: (FLOAT, None), z: (FLOAT, None)}))
        sessions = [treadle.Session(path) for _ in range(2)]
        results = [session.run({"x": rows(2)}, ["exp1"])["exp1"].tobytes() for session in sessions]

        assert results[0] == results[1]
        assert [session.compiles for session in sessions] == [2, 0]
        found = run_in_process(path, [{"x": rows(2)}], tmp_path, outputs=["exp1"])
        assert (found.compiles, found.imported) == (0, [])
        assert {name: array.tobytes() for name, array in found.outputs[0].items()} == {"exp1": results[0]}

    def test_plans_for_single_sizes_are_stored(self, tmp_path: Path) -> None:
        """Where no sample sizes fit, the first run's plan is stored; so are those that serve one size alone."""
        path = saved(tmp_path, total())
        first, second = treadle.Session(path), treadle.Session(path)
        for session in (first, second):
            for a, b in ((3, 3), (5, 5), (1, 3)):
                session.run({"x": rows(a), "z": rows(b)})

        assert (first.compiles, second.compiles) == (2, 0)
        assert_same_bits(first, second, {"x": rows(1), "z": rows(3)})
        assert len(first.plans()) == len(second.plans())

    def test_one_plan_serves_what_is_appended_to_also_from_disk(self, tmp_path: Path) -> None:
        """A length of 0 is one of all of them."""
        w = ModelWriter()
        y = w.op("Softmax", w.op("Concat", "past", "x", axis=0), axis=-1)
        path = saved(tmp_path, w.model({"past": (FLOAT, ["past", 8]), "x": (FLOAT, ["new", 8])}, {y: (FLOAT, None)}))
        first, second = treadle.Session(path), treadle.Session(path)
        for length in (0, 1, 7):
            assert_same_bits(first, second, {"past": rows(length), "x": rows(2)})
        assert (first.compiles, second.compiles) == (1, 0)

    def test_sizes_of_zero_are_stored(self, tmp_path: Path) -> None:
        """Their plan is none of the general ones."""
        w = ModelWriter()
        y = w.op("MatMul", "x", "z")
        path = saved(tmp_path, w.model({"x": (FLOAT, ["a", 8]), "z": (FLOAT, [8, "b"])}, {y: (FLOAT, None)}))
        sessions = [treadle.Session(path) for _ in range(2)]
        for session in sessions:
            for a, b in ((3, 4), (0, 4), (0, 5)):
                assert session.run({"x": rows(a), "z": np.ones((8, b), np.float32)})[y].shape == (a, b)
        assert [session.compiles for session in sessions] == [2, 0]

    def test_a_damaged_further_plan_is_compiled_again(self, tmp_path: Path, folder: Path) -> None:
        """The plans before it are kept, and it is stored again."""
        path = saved(tmp_path, doubled_if_short())
        first = treadle.Session(path)
        before = set(folder.iterdir())
        wanted = first.run({"x": rows(3)})
        for file in set(folder.iterdir()) - before:
            content = bytearray(file.read_bytes())
            content[-20] ^= 1
            file.write_bytes(content)

        sessions = [treadle.Session(path) for _ in range(2)]
        for session in sessions:
            assert session.run({"x": rows(3)})["mul4"].tobytes() == wanted["mul4"].tobytes()
        assert [session.compiles for session in sessions] == [1, 0]


class TestPythonFunctions:
    """The user's own functions."""

    def scaled_by(self, factor: float) -> treadle.Session:
        """Makes a session whose graph calls a function that has captured `factor`."""
        graph = Graph("test")
        x = graph.input("x", f32, (2, 4))
        function = lambda arrays: [arrays[0] * np.float32(factor)]  # noqa: E731
        attrs = {"function": function, "infer": lambda infos: [Info(f32, (2, 4))], "label": "PyFunc"}
        y = graph.add("softmax", [graph.add("call", [x], attrs).outputs[0]], {"axis": 1}).outputs[0]
        y.name = "y"
        graph.outputs.append(y)
        return treadle.Session(graph)

    def test_models_with_functions_of_the_user_are_not_stored(self, folder: Path) -> None:
        """What a function computes depends on more than its code: each session compiles its own."""
        x = np.array([[0, 1, 2, 3], [3, 2, 1, 0]], np.float32)
        for factor in (1, 2):
            session = self.scaled_by(factor)
            powers = np.exp(x * np.float32(factor))
            np.testing.assert_allclose(session.run({"x": x})["y"], powers / powers.sum(1, keepdims=True), rtol=1e-4)
            assert session.compiles == 1
        assert not [file for file in folder.glob("*") if file.read_bytes().startswith(MAGIC)]


class TestPaddedTexts:
    """Sessions with `skip_padding`."""

    def test_a_second_process_proves_and_compiles_nothing(self, tmp_path: Path) -> None:
        """It imports neither a pass that proves nor one that compiles, and gives the same bits."""
        path = saved(tmp_path, encoder(encoders.masked_mean))
        first = treadle.Session(path, skip_padding=True)
        runs = [feed([3, 17, 1, 9], 17), feed([5], 5)]
        wanted = [first.run(run) for run in runs]
        found = run_in_process(path, runs, tmp_path, "skip_padding=True")

        assert (first.compiles, found.compiles, found.imported) == (1, 0, [])
        for one, other in zip(wanted, found.outputs, strict=True):
            assert {key: array.tobytes() for key, array in one.items()} == {
                key: array.tobytes() for key, array in other.items()
            }

    def test_runs_that_compute_padding_find_their_plan_too(self, tmp_path: Path) -> None:
        """A mask of other numbers takes the ordinary plan; later sessions show the plans of both."""
        path = saved(tmp_path, encoder(encoders.masked_mean))
        first, second = (treadle.Session(path, skip_padding=True) for _ in range(2))
        plain = feed([3, 9], 9)
        for given in (plain, {**plain, "mask": plain["mask"] * 2}):
            assert_same_bits(first, second, given)

        assert (first.compiles, second.compiles) == (2, 0)
        assert [len(plan.calls) for plan in second.plans()] == [len(plan.calls) for plan in first.plans()]

    def test_what_stands_in_the_way_is_stored(self, tmp_path: Path) -> None:
        """Of two outputs one has rows for padding: a later session knows it, and that the other has none."""
        path = saved(tmp_path, encoder(encoders.masked_mean, encoders.all_rows))
        first, second = (treadle.Session(path, skip_padding=True) for _ in range(2))
        (pooled,) = (tensor.name for tensor in first.outputs if first.why_padded([tensor.name]) is None)

        assert str(second.why_padded()) == str(first.why_padded()) != "None"
        assert second.why_padded([pooled]) is None
        given = feed([3, 9], 9)
        assert first.run(given, [pooled])[pooled].tobytes() == second.run(given, [pooled])[pooled].tobytes()
        assert second.compiles == 0

    def test_a_refused_model_is_refused_again(self, tmp_path: Path) -> None:
        """With the same message, also where the reason comes from disk."""
        path = saved(tmp_path, encoder(encoders.all_rows))
        messages = []
        for _ in range(2):
            with pytest.raises(InputError) as caught:
                treadle.Session(path, skip_padding=True)
            messages.append((str(caught.value), caught.value.node))

        assert messages[0] == messages[1]

    def test_options_have_artifacts_of_their_own(self, tmp_path: Path) -> None:
        """A session with other options does not take the plan of these."""
        path = saved(tmp_path, encoder(encoders.masked_mean))
        for options in ({"skip_padding": True}, {"batch_invariant": True}, {}):
            assert [treadle.Session(path, **options).compiles for _ in range(2)] == [1, 0]


class TestStates:
    """The forms of models in which states grow."""

    def test_a_second_process_compiles_nothing(self, tmp_path: Path) -> None:
        """Neither for the session nor for its states, and it does not read the model."""
        path = tmp_path / "model.onnx"
        path.write_bytes(decoder())
        script = (
            "import sys, numpy, treadle\n"
            f"session = treadle.Session({str(path)!r})\n"
            "with session.state() as state:\n"
            "    for length in (5, 1, 1): out = state.run({'ids': numpy.ones((1, length), numpy.int64)})['logits']\n"
            "    assert len(state.appended) == 4\n"
            f"names = {set(COMPILERS)!r}\n"
            "print(session.compiles, out.tobytes().hex()[:64], *sorted(names & sys.modules.keys()))"
        )
        found = [
            subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
            for _ in range(3)
        ]

        assert found[0][0] == "2"
        assert found[2] == ["0", found[0][1]], "the first of the others may have had to ask LLVM what CPU this is"

    def test_states_of_chosen_pairs_are_stored_by_the_pairs(self, tmp_path: Path) -> None:
        """A state of some pairs does not take the plan of all."""
        path = tmp_path / "model.onnx"
        path.write_bytes(decoder(1))
        key, value = {"past.0.key": "present.0.key"}, {"past.0.value": "present.0.value"}
        results = []
        for _ in range(2):
            session = treadle.Session(path)
            results.append(session)
            for pairs in (key, value, {**key, **value}):
                past = {name: np.zeros((1, 4, 0, 8), np.float32) for name in ({**key, **value}.keys() - pairs.keys())}
                with session.state(pairs) as state:
                    assert state.run({"ids": np.ones((1, 3), np.int64), **past})["logits"].shape == (1, 3, 50)
                    assert set(state.appended) == set(pairs)

        assert [session.compiles for session in results] == [4, 0]
