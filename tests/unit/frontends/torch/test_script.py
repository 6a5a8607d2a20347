"""TorchScript files keep their forks; branches and loops are decided at import where possible."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch uses it)")

import treadle  # noqa: E402
from tests.unit.frontends.torch import scripts  # noqa: E402 - after the skip
from tests.unit.frontends.torch.running import assert_same, run  # noqa: E402
from treadle.errors import InputError, ModelError, ModelFormatError, TreadleError, UnsupportedModelError  # noqa: E402
from treadle.graph.graph import all_nodes  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning",
    "ignore::DeprecationWarning:torch.*",
    "ignore:Converting a tensor with requires_grad",
)


def scripted(module):
    return torch.jit.script(module.eval())


def saved(module, folder: Path) -> str:
    path = str(folder / "model.pt")
    torch.jit.save(scripted(module), path)
    return path


class TestFile:
    def test_any_shape_and_dtype_is_accepted(self, tmp_path):
        """
        A file declares neither; each combination has its own graph.
        """
        module = scripts.OnPython().eval()
        session = treadle.Session(saved(module, tmp_path))
        assert str(session.inputs[0]) == "x: any[...]"
        for shape in ((8,), (2, 8), (5, 8)):
            x = torch.randn(*shape)
            assert_same(run(session, (x,)), module(x))

    def test_examples_define_which_optional_tensors_are_inputs(self, tmp_path):
        module = scripts.OnPython().eval()
        x, shift = torch.randn(2, 8), torch.ones(8)
        session = treadle.Session(saved(module, tmp_path), example_inputs=(x, 1, shift))

        assert [tensor.name for tensor in session.inputs] == ["x", "shift"]
        assert_same(run(session, (x, shift)), module(x, 1, shift))

    def test_parameters_share_the_memory_of_the_module(self):
        """
        Importing copies no weights.
        """
        module = scripted(scripts.Forked(16))
        session = treadle.Session(module)
        session.run({"x": np.ones((2, 16), np.float32)})
        constants = [value.data for value in session.graph.constants()]

        for parameter in module.parameters():
            assert any(np.shares_memory(parameter.detach().numpy(), array) for array in constants)

    def test_named_results(self, tmp_path):
        """
        Outputs in nested tuples are named by their positions.
        """
        module = scripts.Structured()
        session = treadle.Session(saved(module, tmp_path))
        x = torch.randn(3)

        assert [tensor.name for tensor in session.outputs] == ["output_0", "output_1_0", "output_1_1"]
        assert_same(run(session, (x,)), module(x))

    def test_examples_define_lists_and_numbers(self):
        module = scripted(scripts.Listed())
        xs = [torch.randn(3), torch.randn(3)]
        with pytest.raises(UnsupportedModelError, match="example_inputs"):
            treadle.Session(module)
        session = treadle.Session(module, example_inputs=(xs, 2.0))

        assert [tensor.name for tensor in session.inputs] == ["xs_0", "xs_1"]
        assert_same(run(session, xs), module(xs, 2.0))

    def test_pickled_objects_are_refused(self, tmp_path):
        """
        Unpickling runs code, so a state_dict is not accepted.
        """
        path = tmp_path / "weights.pt"
        torch.save({"w": torch.ones(2)}, path)
        with pytest.raises(ModelFormatError, match="does not unpickle"):
            treadle.Session(path)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x08\x07"])
    def test_unreadable_files_raise(self, tmp_path, content):
        """
        Empty, damaged and missing files raise treadle's error, not PyTorch's.
        """
        path = tmp_path / "model.pt"
        path.write_bytes(content)
        with pytest.raises(ModelFormatError):
            treadle.Session(path)
        with pytest.raises(ModelFormatError):
            treadle.Session(tmp_path / "absent.pt")

    @pytest.mark.parametrize("fault", [IndexError("not in the map"), MemoryError("std::bad_alloc")])
    def test_any_error_of_pytorch_on_a_damaged_file_is_a_format_error(self, tmp_path, monkeypatch, fault):
        """
        A wrong byte may change a size, or a name that is looked up.
        """
        path = saved(scripts.Forked(4), tmp_path)

        def load(*_, **__):
            raise fault

        monkeypatch.setattr(torch.jit, "load", load)
        with pytest.raises(ModelFormatError, match=f"cannot be read by PyTorch: {type(fault).__name__}: {fault}"):
            treadle.Session(path)

    def test_damaged_scripts_raise(self, tmp_path):
        path = Path(saved(scripts.Forked(4), tmp_path))
        content = bytearray(path.read_bytes())
        for at in range(0, len(content), max(1, len(content) // 40)):
            damaged = bytearray(content)
            damaged[at] ^= 0xFF
            path.write_bytes(damaged)
            with contextlib.suppress(TreadleError):
                treadle.Session(path).run({"x": np.ones((1, 4), np.float32)})

    def test_exported_programs_are_files_too(self, tmp_path):
        module = torch.nn.Linear(3, 2).eval()
        x = torch.randn(4, 3)
        torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")

        assert_same(run(treadle.Session(tmp_path / "model.pt2"), (x,)), module(x))


class TestForks:
    def test_forked_nodes_do_not_depend_on_the_code_before_the_wait(self):
        """
        The two products are independent nodes; the addition depends on both.
        """
        module = scripted(scripts.Forked(16))
        session = treadle.Session(module)
        x = torch.randn(2, 16)

        assert_same(run(session, (x,)), module(x))
        forked, other = (node for node in session.graph.nodes if node.op == "matmul")
        assert forked.name.startswith("fork_1/")
        assert other.inputs[0] is forked.inputs[0]
        assert {user.op for node in (forked, other) for user in node.output.users} == {"add"}

    def test_forked_bodies_overlap(self, tmp_path):
        """
        In the trace of a run with inter_op 2 the two products overlap.
        """
        session = treadle.Session(saved(scripts.Forked(1024), tmp_path), intra_op=1, inter_op=2)
        feed = {"x": np.ones((1024, 1024), np.float32)}
        session.run(feed)
        for _ in range(20):
            with treadle.trace(str(tmp_path / "trace.json")):
                session.run(feed)
            events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
            spans = [
                (e["ts"], e["ts"] + e["dur"], e["tid"]) for e in events if e.get("ph") == "X" and "mm" in e["name"]
            ]
            if any(a[2] != b[2] and a[0] < b[1] and b[0] < a[1] for a in spans for b in spans):
                return
        pytest.fail(f"the products never overlapped: {spans}")

    def test_nested_forks_and_lists_of_futures(self, tmp_path):
        module = scripts.ForkedList().eval()
        x = torch.randn(3, 8)

        assert_same(run(treadle.Session(saved(module, tmp_path)), (x,)), module(x))


class TestControl:
    def test_branches_and_loops_that_depend_on_data(self, tmp_path):
        """
        Each branch is taken, and loops end, as in PyTorch.
        """
        module = scripts.OnData().eval()
        session = treadle.Session(saved(module, tmp_path))
        for x in (torch.full((2, 4), 3.0), torch.full((2, 4), -9.0), torch.ones(2, 4)):
            assert_same(run(session, (x,)), module(x))

    @pytest.mark.parametrize("scale", [0.001, 1.0, -5.0])
    def test_branches_and_loops_that_keep_shapes_run_in_the_native_run(self, scale):
        """
        No node of the graph or of a body is a Python step.
        """
        module = scripts.Searching().eval()
        session = treadle.Session(scripted(module))
        x = torch.full((2, 4), scale)

        assert_same(run(session, (x,)), module(x))
        ops = [node.op for node in all_nodes(session.graph)]
        assert "loop" in ops
        assert "branch" in ops
        assert "call" not in ops

    @pytest.mark.parametrize("steps", [1, 8, 300])
    def test_a_loop_may_collect_tensors(self, steps):
        """
        Short loops are unrolled, long ones run in the native run.
        """
        module = scripts.Recurrent().eval()
        session = treadle.Session(scripted(module))
        x = torch.randn(steps, 2, 3)

        assert_same(run(session, (x,)), module(x))
        assert ("loop" in {node.op for node in session.graph.nodes}) == (steps == 300)

    def test_one_plan_serves_all_numbers_of_iterations(self):
        """
        After the plan for the first sizes.
        """
        module = scripts.Recurrent().eval()
        session = treadle.Session(scripted(module))
        for steps in (5, 9, 2, 70):
            x = torch.randn(steps, 2, 3)
            assert_same(run(session, (x,)), module(x))
        assert session.compiles == 2

    def test_loops_that_the_core_cannot_run_are_unrolled(self):
        """
        Lists that are read or held elsewhere, shapes that change, numbers that sizes are made of.
        """
        module = scripts.Unrolled().eval()
        session = treadle.Session(scripted(module))
        x = torch.randn(2, 3)

        assert_same(run(session, (x,)), module(x), tolerance=1e-4)
        assert "loop" not in {node.op for node in session.graph.nodes}

    @pytest.mark.parametrize(("steps", "native"), [(5, False), (400, True)])
    def test_nested_loops_fill_lists(self, steps, native):
        """
        Several tensors an iteration, and lists of them: a long loop fills them in the native run.
        """
        module = scripts.NestedLists()
        session = treadle.Session(scripted(module))
        x = torch.randn(steps, 2)

        assert_same(run(session, (x,)), module(x))
        assert ("loop" in {node.op for node in session.graph.nodes}) == native

    def test_loops_that_are_long_together_fill_a_list(self):
        """
        Each alone would be unrolled; together they run in the native run.
        """
        module = scripts.LongInside()
        session = treadle.Session(scripted(module))
        x = torch.randn(2)

        assert_same(run(session, (x,)), module(x))
        assert len(session.graph.nodes) < 100

    @pytest.mark.parametrize("name", ["ReadLists", "ChangedRow"])
    def test_lists_that_are_read_or_changed_have_all_their_entries(self, name):
        """
        Their length, first entries and aliases are those of PyTorch.
        """
        module = getattr(scripts, name)()
        x = torch.randn(3)

        assert_same(run(treadle.Session(scripted(module)), (x,)), module(x), tolerance=1e-4)

    def test_an_entry_of_a_list_that_a_loop_has_filled_is_not_written(self):
        """
        The list would have to change with it.
        """
        session = treadle.Session(scripted(scripts.WritesEntry()))
        with pytest.raises(UnsupportedModelError, match="a tensor of a list that a loop has filled in place"):
            session.run({"x": np.ones(3, np.float32)})

    def test_a_tensor_that_a_loop_put_into_a_list_is_not_written(self):
        """
        PyTorch would change the list's last tensor, too.
        """
        session = treadle.Session(scripted(scripts.WritesListed()))
        with pytest.raises(UnsupportedModelError, match="which may be in a list in place"):
            session.run({"x": np.ones(3, np.float32)})

    @pytest.mark.parametrize("scale", [0.5, 3.0, 12.0])
    def test_loops_may_change_shapes(self, scale):
        module = scripts.Growing().eval()
        session = treadle.Session(scripted(module))
        x = torch.full((2,), scale)
        assert_same(run(session, (x,)), module(x))
        assert all(call.function is None for plan in session.plans() for call in plan.calls)

    @pytest.mark.parametrize("name", ["Chosen", "Halved"])
    def test_the_sides_of_a_branch_may_give_other_sizes(self, name):
        """
        They run in the native run, also if data tell the size, with the same bits at all numbers of threads.
        """
        module = getattr(scripts, name)()
        session = treadle.Session(scripted(module))
        others = treadle.Pool(intra_op=3, inter_op=2)
        for scale in (1.0, -1.0, 0.0):
            x = scale * torch.arange(-2, 6, dtype=torch.float32)
            results = run(session, (x,))
            assert_same(results, module(x))
            again = session.run({session.inputs[0].name: x.numpy()}, pool=others)
            assert [array.tobytes() for array in again.values()] == [array.tobytes() for array in results]
        assert all(call.function is None for plan in session.plans() for call in plan.calls)

    def test_entries_are_read_and_written_at_indices_from_data(self, tmp_path):
        """
        As in the suppression of overlapping boxes.
        """
        module = scripts.Suppressed().eval()
        session = treadle.Session(saved(module, tmp_path))
        scores, overlap = torch.rand(6), torch.rand(6, 6)
        assert_same(run(session, (scores, overlap)), module(scores, overlap))

    @pytest.mark.parametrize(
        ("module", "shape"),
        [(scripts.OnData(), (2, 4)), (scripts.Searching(), (2, 4)), (scripts.Recurrent(), (200, 2, 3))],
    )
    def test_results_do_not_depend_on_threads(self, module, shape):
        module = scripted(module)
        x = np.full(shape, 3.0, np.float32)
        first = treadle.Session(module, intra_op=1, inter_op=1).run({"x": x})
        other = treadle.Session(module, intra_op=2, inter_op=2).run({"x": x})

        for name, array in first.items():
            np.testing.assert_array_equal(array, other[name])


class TestFaults:
    def test_every_unsupported_op_is_listed_with_its_line(self):
        """
        Those in branches and forks too, before any input is known.
        """
        with pytest.raises(UnsupportedModelError) as caught:
            treadle.Session(scripted(scripts.Wrong()))
        text = str(caught.value)

        assert len(caught.value.faults) == 3
        for op in ("aten::digamma", "aten::igamma", "aten::nanmedian"):
            assert op in text
        assert "scripts.py:" in text
        assert "`return torch.digamma(x)`" in text

    def test_none_in_place_of_a_tensor_names_the_argument(self):
        """
        For example in scripts of parametrizations, which PyTorch cannot run either.
        """
        layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(4, 4, 3)).eval()
        with pytest.raises(ModelError, match="its argument 'weight' is None"):
            treadle.Session(torch.jit.script(layer)).run({"input": np.ones((1, 4, 5), np.float32)})

    def test_complex_inputs_and_results_are_refused_with_advice(self):
        """
        Complex numbers are supported inside a program only.
        """
        module = Complex().eval()
        with pytest.raises(UnsupportedModelError, match=r"pass torch\.view_as_real"):
            treadle.Session(module, example_inputs=(torch.ones(2, dtype=torch.complex64),))
        with pytest.raises(UnsupportedModelError, match=r"split it with torch\.view_as_real"):
            treadle.Session(module, example_inputs=(torch.ones(2),))

    def test_a_shape_error_names_its_node_once(self):
        """
        It names the op of the script, not also the node that its rule made.
        """
        session = treadle.Session(scripted(scripts.Misfit()))
        with pytest.raises(ModelError, match=r"  - node aten::conv1d at [^']*: x has 3 channels, but w"):
            session.run({"x": np.zeros((1, 3, 8), np.float32)})

    def test_a_script_that_raises(self):
        """
        An exception that a script raises for some shapes has its own message, and other shapes run.
        """
        session = treadle.Session(scripted(scripts.Raising()))
        assert session.run({"x": np.zeros((2, 1), np.float32)})["output"].sum() == 2
        with pytest.raises(ModelError, match="two rows at most"):
            session.run({"x": np.zeros((3, 1), np.float32)})

    def test_inputs_are_never_written(self):
        x = np.zeros(3, np.float32)
        with pytest.raises(UnsupportedModelError, match="writes into its input 'x'"):
            treadle.Session(scripted(scripts.WritesInput())).run({"x": x})
        assert not x.any()

    def test_training_mode_is_refused(self):
        with pytest.raises(ModelError, match=r"call \.eval\(\)"):
            treadle.Session(torch.jit.script(torch.nn.Dropout().train()))
        with pytest.raises(ModelError, match=r"call \.eval\(\)"):
            treadle.Session(torch.nn.Dropout().train(), example_inputs=(torch.ones(2),))

    def test_a_module_needs_examples(self):
        with pytest.raises(InputError, match="example_inputs"):
            treadle.Session(torch.nn.Linear(2, 2).eval())


class Complex(torch.nn.Module):
    def forward(self, x):
        return x * 1j


class Held(torch.nn.Module):
    """Sets an attribute in each call."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class TestProgramsAsTheyAreWritten:
    def test_outputs_of_a_dictionary_are_named_by_its_keys(self, tmp_path):
        """
        List methods used on the way are followed.
        """

        class Keyed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Listed()

            def forward(self, x):
                return {"sum": self.inner(x)[0], "parts": self.inner(x)[1]}

        class Listed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

            def forward(self, x):
                found = [x * k for k in range(0, 5, 2)]
                found.reverse()
                order = [3, 1, 2]
                order.sort()
                with torch.no_grad():
                    y = found[0] * order[-1] + self.attention(x, x, x)[0]
                return [y, found[1]]

        module, x = Keyed().eval(), torch.randn(2, 5, 8)
        session = treadle.Session(saved(module, tmp_path))
        results = session.run({"x": x.numpy()})
        with torch.no_grad():
            expected = module(x)
        assert list(results) == ["sum", "parts"]
        for name, want in expected.items():
            np.testing.assert_allclose(results[name], want.numpy(), rtol=1e-4, atol=1e-5)

    def test_state_between_runs_is_refused_when_the_script_is_loaded(self):
        """
        The error says what to do instead.
        """
        with pytest.raises(UnsupportedModelError, match=r"sets the attribute 'calls' .* pass it to the next run"):
            treadle.Session(scripted(Held()))

    def test_examples_of_other_types_are_refused(self):
        """
        With the argument's name and type; extra examples are refused too.
        """
        script = torch.jit.script(plus)
        with pytest.raises(InputError, match="a str for the argument 'x', which is a Tensor"):
            treadle.Session(script, example_inputs=("text",))
        with pytest.raises(InputError, match="a float for the argument 'n', which is a int"):
            treadle.Session(script, example_inputs=(torch.ones(2), 1.5))
        with pytest.raises(InputError, match=r"takes 2 arguments \(x, n\), example_inputs has 3"):
            treadle.Session(script, example_inputs=(torch.ones(2), 1, 2))

    def test_scripted_and_traced_functions_are_models(self):
        """
        As modules are.
        """
        x = torch.ones(2)
        for script, example in ((torch.jit.script(plus), (x, 2)), (torch.jit.trace(torch.exp, (x,)), None)):
            session = treadle.Session(script, example_inputs=example)
            (got,) = session.run({session.inputs[0].name: x.numpy()}).values()
            np.testing.assert_allclose(got, script(*(example or (x,))).numpy(), rtol=1e-6)


def plus(x, n: int):
    return x + n
