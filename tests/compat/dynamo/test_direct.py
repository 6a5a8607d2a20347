"""Graphs of torch.compile read tensors in place and write into new ones, for tensors of any layout."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch uses it)")

from treadle.compat import dynamo  # noqa: E402 - after the skip
from treadle.compat.dynamo import direct  # noqa: E402
from treadle.errors import InputError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore::FutureWarning")


def captured(function, *examples):
    """Returns what treadle gives torch.compile for the graph of `function`, to be called without PyTorch's guards."""
    calls = []

    def backend(module, inputs):
        calls.append(dynamo.backend(module, inputs))
        return calls[-1]

    torch.compile(function, backend=backend, dynamic=False)(*examples)
    assert not dynamo.report().fallbacks
    return calls[0]


def affine(x):
    return x * 2 + 1


@pytest.fixture(params=["direct", "by arrays"])
def way(request, monkeypatch):
    """Runs with and without the functions of PyTorch that Direct needs."""
    if request.param == "by arrays":
        monkeypatch.setattr(direct, "_HAS_ALL", False)
    return request.param


class TestArguments:
    def test_any_order_in_memory(self, way):
        """
        Views with offsets, steps and broadcast axes, transposed ones, and contiguous ones again.
        """
        x = torch.randn(3, 4)
        call = captured(affine, x)
        wide = torch.randn(9, 8)
        for given in (x, wide[2:5, 1:5], wide[::3, ::2], torch.randn(4, 3).t(), torch.randn(4).expand(3, 4), x):
            torch.testing.assert_close(call(given)[0], given * 2 + 1, rtol=0, atol=0)

    def test_an_argument_written_between_calls_is_read_again(self, way):
        """
        Each call reads the elements of its arguments.
        """
        x = torch.randn(3, 4)
        call = captured(affine, x)
        for _ in range(3):
            x.mul_(3)
            torch.testing.assert_close(call(x)[0], x * 2 + 1, rtol=0, atol=0)

    @pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int16", "uint8", "bool"])
    def test_dtypes(self, dtype):
        """
        Results have the dtype of the arguments, bit by bit.
        """
        x = torch.arange(6).to(getattr(torch, dtype))
        call = captured(lambda x: torch.where(x > 2, x, x.flip(0)), x)
        for given in (x, x.flip(0), x[::2].repeat(2)):
            got = call(given)[0]
            assert got.dtype is given.dtype
            assert torch.equal(got, torch.where(given > 2, given, given.flip(0)))

    @pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
    def test_few_elements(self, shape):
        """
        Scalars and empty tensors are accepted.
        """
        x = torch.randn(shape)
        call = captured(lambda x: (x + 1, x.sum()), x)
        for given in (x, torch.randn(shape)):
            torch.testing.assert_close(call(given), [given + 1, given.sum()])

    def test_tensors_of_other_kinds(self):
        """
        Parameters, tensors that require gradients, inference tensors, lazily conjugated ones.
        """
        x = torch.randn(3, 4)
        call = captured(affine, x)
        with torch.inference_mode():
            inference = torch.randn(3, 4)
        others = [
            torch.nn.Parameter(x),
            x.clone().requires_grad_(),
            inference,
            torch.randn(3, 4, dtype=torch.cfloat).conj().imag,
        ]
        for given in [*others, x, *others]:
            torch.testing.assert_close(call(given)[0], given.detach() * 2 + 1, rtol=0, atol=0)

    def test_a_tensor_of_another_shape_is_refused(self):
        """
        PyTorch's guards reject it; without them it is an error, and nothing beyond its end is read.
        """
        x = torch.randn(3, 4)
        call = captured(affine, x)
        for _ in range(2):
            call(x)
            with pytest.raises(InputError, match="wanted rank"):
                call(torch.randn(3))
            with pytest.raises(InputError, match="wanted dtype"):
                call(x.int())

    def test_the_same_tensor_twice(self):
        """
        One tensor may be both arguments in one call, and not in the next.
        """
        x, y = torch.randn(3), torch.randn(3)
        call = captured(lambda x, y: 2 * x - y, x, y)
        for first, second in ((x, y), (x, x), (y, x)):
            torch.testing.assert_close(call(first, second)[0], 2 * first - second)


class TestResults:
    @pytest.mark.parametrize("size", [7, 200_000])
    def test_results_belong_to_the_caller(self, size, way):
        """
        No later call writes into them, and they may be written, whatever their size.
        """
        x = torch.randn(size)
        call = captured(affine, x)
        kept = [call(x * n)[0] for n in range(4)]
        for n, result in enumerate(kept):
            torch.testing.assert_close(result, x * n * 2 + 1, rtol=0, atol=1e-5)
        before = x.clone()
        kept[0].zero_()
        assert torch.equal(x, before)
        assert len({result.data_ptr() for result in kept}) == len(kept)

    def test_results_beside_views_of_arguments(self):
        """
        A view of an argument shares its memory; the other results are right.
        """
        x = torch.randn(3, 4)
        call = captured(lambda x: (x + 1, x.t(), x.sum(), torch.view_as_complex(x.reshape(3, 2, 2) * 2)), x)
        for given in (x, torch.randn(3, 4)):
            plus, view, total, pairs = call(given)
            assert view.data_ptr() == given.data_ptr()
            torch.testing.assert_close([plus, total], [given + 1, given.sum()])
            torch.testing.assert_close(pairs, torch.view_as_complex(given.reshape(3, 2, 2) * 2))

    def test_each_thread_gets_its_own_results(self):
        x = torch.randn(50)
        call, wrong = captured(affine, x), []

        def work(number):
            with torch.no_grad():
                mine = torch.full((50,), float(number))
                wrong.extend(1 for _ in range(300) if not torch.equal(call(mine)[0], mine * 2 + 1))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
