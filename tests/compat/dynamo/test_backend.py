"""torch.compile(backend="treadle"): supported graphs run on treadle, others run eagerly and are reported."""

from __future__ import annotations

import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch uses it)")

from benches.torch.models import Bert, ResNet50, seeded  # noqa: E402 - after the skip

import treadle  # noqa: E402
from tests.compat.dynamo import modules  # noqa: E402
from treadle.compat import dynamo  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore::FutureWarning")


def weighted_rows(x):
    return torch.vmap(lambda row: row.sum() * row)(x)


def compiled(module, **options):
    return torch.compile(module.eval(), backend="treadle", **options)


class TestRunning:
    def test_pytorch_finds_the_backend_by_its_name(self):
        """
        Through the entry point; the program imports nothing of treadle.
        """
        assert "treadle" in torch._dynamo.list_backends()

    def test_results_are_those_of_eager(self):
        module = modules.Block()
        x = torch.randn(2, 3, 8, 8)
        got = compiled(module)(x)

        torch.testing.assert_close(got, module(x), rtol=0, atol=1e-5)
        assert (dynamo.report().compiled, dynamo.report().fallbacks) == (1, ())

    def test_resnet(self):
        """
        The architecture of ResNet-50, one block per stage: entirely on treadle, within 1e-4 of eager.
        """
        module = seeded(lambda: ResNet50(classes=10, blocks=(1, 1, 1, 1)))
        x = torch.randn(1, 3, 64, 64)
        expected = module(x)

        torch.testing.assert_close(compiled(module)(x), expected, rtol=0, atol=1e-4 * float(expected.abs().max()))
        assert dynamo.report().fallbacks == ()

    def test_bert(self):
        """
        The architecture of BERT with two layers, at two lengths.
        """
        module = seeded(lambda: Bert(width=64, layers=2, heads=4, vocabulary=100, positions=32))
        fast = compiled(module)
        for tokens in (16, 24, 32):
            x = torch.randint(0, 100, (1, tokens))
            torch.testing.assert_close(fast(x), module(x), rtol=0, atol=1e-4)
        assert dynamo.report().fallbacks == ()

    def test_sizes_that_depend_on_data(self):
        """
        Where PyTorch is told to capture the ops that find them.
        """

        def joined(x):
            found = x.nonzero()
            return torch.cat([found, found[: found.shape[0] // 2]]) + found.shape[0]

        fast = torch.compile(joined, backend="treadle", fullgraph=True)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            for shift in (0.0, 0.5, -0.5):
                x = torch.randn(6, 5) + shift
                torch.testing.assert_close(fast(x), joined(x))
        assert (dynamo.report().compiled, dynamo.report().fallbacks) == (1, ())

    @pytest.mark.parametrize("dynamic", [False, True])
    def test_results_may_be_sizes_that_depend_on_data(self, dynamic):
        """
        Sizes, arithmetic on them, and integers out of tensors, which code behind them uses: one graph, and no further
        plan for further ones.
        """

        def counted(x):
            found = x.nonzero()
            return found, found.shape[0], found.shape[0] * 2 + x.shape[0]

        def scaled(x):
            number = x.sum().to(torch.int64).item()
            return x * number, number, number - 1

        names = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
        for count, function in enumerate((counted, scaled), 1):
            fast = torch.compile(function, backend="treadle", fullgraph=True, dynamic=dynamic)
            plans = []
            with torch._dynamo.config.patch(names):
                for shift in (0.0, 0.5, -0.5, 1.0, 0.25):
                    x = torch.randn(6, 5) + shift
                    found, wanted = fast(x), function(x)
                    torch.testing.assert_close(found[0], wanted[0])
                    assert found[1:] == wanted[1:]
                    assert list(map(type, found[1:])) == [int, int]
                    plans.append(dynamo.report().plans)
            assert plans[1:] == plans[1:2] * 4
            assert (dynamo.report().compiled, dynamo.report().fallbacks) == (count, ())

    def test_sizes_may_change(self):
        """
        After the second shape PyTorch passes sizes as arguments.
        """
        module = modules.Block()
        fast = torch.compile(module.eval(), backend="treadle", dynamic=True)
        for rows in (2, 5, 3, 5):
            x = torch.randn(rows, 3, 6 + rows, 9)
            torch.testing.assert_close(fast(x), module(x), rtol=0, atol=1e-5)
        assert dynamo.report().compiled == 1
        assert dynamo.report().fallbacks == ()

    def test_a_graph_of_symbols_is_compiled_once(self, sessions):
        """
        One plan for all sizes, also where PyTorch makes symbols of sizes that the model fixes (the width).
        """
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        fast = torch.compile(module, backend="treadle", dynamic=True)
        for shape in ((2, 5, 32), (3, 9, 32), (4, 40, 32), (2, 3, 32)):
            x = torch.randn(*shape)
            torch.testing.assert_close(fast(x), module(x), rtol=0, atol=1e-4)
        (session,) = sessions
        assert session.compiles == len(session.open_plans()) == 1
        assert dynamo.report().fallbacks == ()

    def test_results_that_follow_from_sizes(self, sessions):
        """
        Numbers, views of arguments and slices are those of each call's sizes.
        """

        def function(x, y):
            return x * x.shape[0], x.shape[1] + 1, x[:, : x.shape[1] // 2], y.view(-1), torch.cat([x, y])

        fast = torch.compile(function, backend="treadle", dynamic=True)
        for rows, more, columns in ((2, 4, 5), (3, 3, 9), (4, 7, 40)):
            x, y = torch.randn(rows, columns), torch.randn(more, columns)
            got, expected = fast(x, y), function(x, y)
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
            assert got[3].data_ptr() == y.data_ptr()
        assert sum(session.compiles for session in sessions) == 1
        assert dynamo.report().fallbacks == ()

    def test_a_dimension_that_is_marked(self, sessions):
        """
        `mark_dynamic` with a range: the first compile is the last.
        """
        fast = torch.compile(lambda x: x.softmax(-1), backend="treadle")
        for rows in (5, 9, 20):
            x = torch.randn(rows, 8)
            torch._dynamo.mark_dynamic(x, 0, min=4, max=32)
            torch.testing.assert_close(fast(x), x.softmax(-1), rtol=0, atol=1e-5)
        assert sum(session.compiles for session in sessions) == 1

    def test_results_that_are_not_computed_are_passed_through(self):
        """
        Arguments are returned themselves, views share their memory, buffers are those of the module.
        """
        module = modules.Returns()
        x = torch.randn(3, 4)
        got = compiled(module)(x)

        assert got["same"] is x
        assert got["kept"] is module.kept
        assert got["view"].data_ptr() == x.data_ptr()
        assert (got["size"], got["none"]) == (3, None)
        torch.testing.assert_close(got["sum"], x.sum())
        assert dynamo.report().fallbacks == ()

    def test_arguments_need_not_be_contiguous(self):
        module = modules.Block()
        x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)

        torch.testing.assert_close(compiled(module)(x), module(x), rtol=0, atol=1e-5)

    def test_many_threads_call_it(self):
        module = modules.Block()
        fast, x = compiled(module), torch.randn(2, 3, 8, 8)
        expected, wrong = fast(x), []

        def call():
            with torch.no_grad():
                wrong.extend(1 for _ in range(20) if not torch.equal(fast(x), expected))

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_options_are_those_of_a_session(self):
        module, x = modules.Block(), torch.randn(2, 3, 8, 8)
        one = compiled(module, options={"intra_op": 1, "inter_op": 1, "math": "exact"})(x)

        torch.testing.assert_close(one, module(x), rtol=0, atol=1e-5)
        torch._dynamo.reset()
        with pytest.raises(Exception, match="intra_op, inter_op, pool, math"):
            compiled(module, options={"threads": 1})(x)


class TestParameters:
    def test_a_written_parameter_is_used(self):
        """
        Parameters are constants, but each call checks them.
        """
        module, x = modules.Block(), torch.randn(2, 3, 8, 8)
        fast = compiled(module)
        for _ in range(8):
            module.conv.weight.mul_(1.5)
            torch.testing.assert_close(fast(x), module(x), rtol=0, atol=1e-4)

    def test_a_loaded_state_dict_is_used(self):
        module, other, x = modules.Block(), modules.Block(), torch.randn(2, 3, 8, 8)
        fast = compiled(module)
        fast(x)
        module.load_state_dict(other.state_dict())

        torch.testing.assert_close(fast(x), other.eval()(x), rtol=0, atol=1e-5)

    def test_layers_that_share_code_keep_their_parameters(self):
        """
        Layers with equal graphs do not get each other's parameters.
        """
        module, x = modules.Stack(), torch.randn(2, 4)
        fast = compiled(module)
        for _ in range(3):
            torch.testing.assert_close(fast(x), module(x), rtol=0, atol=1e-5)


class TestFallbacks:
    def test_unsupported_ops_run_eagerly_and_are_named(self):
        module, x = modules.Unsupported(), torch.randn(3)
        fast = compiled(module)
        with pytest.warns(dynamo.FallbackWarning, match=r"aten\.nanmedian\.default"):
            got = fast(x)

        torch.testing.assert_close(got, module(x))
        (fallback,) = dynamo.report().fallbacks
        assert "modules.py:" in fallback.reasons[0]
        assert "aten.nanmedian" in str(dynamo.report())

    def test_each_reason_causes_one_warning(self):
        x = torch.randn(3)
        with pytest.warns(dynamo.FallbackWarning):
            compiled(modules.Unsupported())(x)
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled(modules.Unsupported())(x)
        assert len(dynamo.report().fallbacks) == 2

    def test_graphs_with_gradients_run_in_pytorch(self):
        """
        With gradients enabled, the module trains as if it were not compiled.
        """
        module = torch.nn.Linear(3, 1)
        fast = torch.compile(module, backend="treadle")
        with torch.enable_grad(), pytest.warns(dynamo.FallbackWarning, match=r"torch\.no_grad"):
            fast(torch.ones(2, 3)).sum().backward()

        torch.testing.assert_close(module.weight.grad, torch.full((1, 3), 2.0))

    def test_graphs_that_write_arguments_run_in_pytorch(self):
        """
        treadle never changes an argument, so such a program runs eagerly.
        """
        x = torch.zeros(3)
        with pytest.warns(dynamo.FallbackWarning, match="in place"):
            got = compiled(modules.WritesInput())(x)

        assert x.tolist() == [1, 1, 1]
        assert got.tolist() == [2, 2, 2]

    def test_tensors_without_plain_memory_run_eagerly(self):
        """
        For example batched tensors of torch.vmap: they are no error of the backend.
        """
        x = torch.randn(4, 8)
        function = torch.compile(weighted_rows, backend="treadle")
        with pytest.warns(dynamo.FallbackWarning, match="not plain memory"):
            got = function(x)
        torch.testing.assert_close(got, x.sum(1, keepdim=True) * x)

    def test_unsupported_dtypes_run_eagerly(self):
        """
        The warning names the dtype.
        """
        with pytest.warns(dynamo.FallbackWarning, match="float8"):
            got = compiled(Widened())(torch.ones(2).to(torch.float8_e4m3fn))
        assert got.tolist() == [1, 1]

    def test_complex_arguments_and_results(self):
        """
        Conjugates too, which PyTorch only marks.
        """
        z = torch.polar(torch.ones(3), torch.arange(3.0))
        got = compiled(Doubled())(z.conj())
        torch.testing.assert_close(got, z.conj() * 2)
        assert not dynamo.report().fallbacks

    def test_decompositions_add_no_guards(self):
        """
        Symbols of a decomposition must not enter the guards of the captured graph: no argument defines them.
        """
        x = torch.randn(3, 4)
        for function in (differences, halves):
            torch.testing.assert_close(torch.compile(function, backend="treadle")(x), function(x))
        assert not dynamo.report().fallbacks


def differences(x):
    return torch.diff(x, dim=1)


def halves(x):
    return torch.kron(x, torch.hsplit(x, 2)[1])


class Widened(torch.nn.Module):
    def forward(self, x):
        return x.float()


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x * 2


def test_thread_settings_are_treadles_own():
    """
    torch.set_num_threads sets PyTorch's pools, treadle.threads treadle's team.
    """
    before = treadle.threads.get().intra_op
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert treadle.threads.get().intra_op == before
    finally:
        torch.set_num_threads(count)
