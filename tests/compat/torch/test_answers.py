"""Calls with PyTorch's answers, recorded from PyTorch 2.13. Where it is installed, it is asked again."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import pytest

import treadle.compat.torch as ours


def twice_and_seven(xs: list[int], n: int) -> list[int]:
    xs.extend([n, n])
    xs.append(7)
    return xs


def put(counts: dict[str, list[int]], name: str) -> int:
    counts[name].append(1)
    return len(counts[name])


def nested(xs: list[int]) -> int:
    twice_and_seven(xs, 2)
    return len(xs)


def _list_argument(torch: Any) -> Any:
    script, given = torch.jit.script(twice_and_seven), [1]
    return [script(given, 3), script(given, 3), script(given, 3), given]


def _dict_argument(torch: Any) -> Any:
    given: dict[str, list[int]] = {"a": [], "b": [2]}
    return [torch.jit.script(put)(given, "b"), given]


def _unit(torch: Any) -> Any:
    unit = torch.jit.CompilationUnit("def f(x: int) -> int:\n    return x + 1\n")
    unit.define("def g(x: Tensor, n: int) -> Tensor:\n    return x * n\n")
    return [unit.f(3), unit.g(torch.ones(2), 3)]


def _method(torch: Any) -> Any:
    class Doubler(torch.jit.ScriptModule):  # type: ignore[misc,name-defined]
        @torch.jit.script_method
        def forward(self, x):
            return x + x

    doubler = Doubler()
    return [doubler(torch.ones(2)), doubler(torch.ones(1)), doubler.forward(torch.ones(1))]


def _futures(torch: Any) -> Any:
    first = torch.futures.Future()
    first.set_result(3)
    second = first.then(lambda future: future.value() + 1)
    together = torch.futures.collect_all([first, second]).wait()
    return [torch.futures.wait_all([first, second]), [each.value() for each in together]]


NUMBERS = (3.0, 1.0, 2.0, 5.0, 4.0)

CASES: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    ("a script gets a list of its own", _list_argument, [[1, 3, 3, 7], [1, 3, 3, 7], [1, 3, 3, 7], [1]]),
    ("a script gets a dict of its own", _dict_argument, [2, {"a": [], "b": [2]}]),
    ("scripts pass lists to each other", lambda torch: torch.jit.script(nested)([1]), 4),
    ("an empty list selects nothing", lambda torch: list(torch.arange(6).reshape(2, 3)[[]].shape), [0, 3]),
    ("arange by name", lambda torch: torch.arange(start=1, end=9, step=3), [1, 4, 7]),
    ("arange with a start and end=", lambda torch: torch.arange(3, end=5), [3, 4]),
    ("byte and char", lambda torch: [torch.tensor([1.7, 2.2]).byte(), torch.tensor([-1.7]).char()], [[1, 2], [-1]]),
    ("legacy tensors", lambda torch: [torch.LongTensor([1, 2]), torch.FloatTensor([[1, 2]]), torch.LongTensor()],
     [[1, 2], [[1.0, 2.0]], []]),
    ("legacy tensors of sizes", lambda torch: list(torch.FloatTensor(2, 3).shape), [2, 3]),
    ("legacy classes", lambda torch: [isinstance(torch.ones(1), torch.FloatTensor),
                                      isinstance(torch.ones(1), torch.LongTensor)], [True, False]),
    ("jit.isinstance", lambda torch: [torch.jit.isinstance(each, list[int]) for each in ([1, 2], [1.5], 3)],
     [True, False, False]),
    ("jit.isinstance of nested containers",
     lambda torch: torch.jit.isinstance({"a": (1, None)}, dict[str, tuple[int, int | None]]), True),
    ("CompilationUnit", _unit, [4, [3.0, 3.0]]),
    ("script_method", _method, [[2.0, 2.0], [2.0], [2.0]]),
    ("futures", _futures, [[3, 4], [3, 4]]),
    ("quantile", lambda torch: torch.quantile(torch.tensor(NUMBERS), torch.tensor([0.0, 0.25, 0.625])),
     [1.0, 2.0, 3.5]),
    ("quantile of one number", lambda torch: torch.tensor(NUMBERS).quantile(0.5), 3.0),
    ("quantile along an axis", lambda torch: torch.quantile(torch.tensor([[1.0, 3.0], [2.0, 8.0]]), 0.5, 1, True),
     [[2.0], [5.0]]),
    ("quantile between elements", lambda torch: [
        torch.quantile(torch.tensor(NUMBERS), 0.4, interpolation=how)
        for how in ("lower", "higher", "midpoint", "nearest")], [2.0, 3.0, 2.5, 3.0]),
    ("searchsorted in rows", lambda torch: torch.searchsorted(
        torch.tensor([[1.0, 3.0, 5.0], [0.0, 0.0, 9.0]]), torch.tensor([[3.0], [0.0]]), right=True), [[2], [2]]),
    ("bucketize", lambda torch: torch.bucketize(torch.tensor([0, 3, 9]), torch.tensor([1, 3, 5]), out_int32=True),
     [0, 1, 3]),
    ("mode", lambda torch: torch.mode(torch.tensor([[3, 1, 1, 3], [2, 2, 0, 5]])), [[1, 2], [2, 1]]),
    ("cummax", lambda torch: torch.tensor([1.0, 3.0, 3.0, 2.0]).cummax(0), [[1.0, 3.0, 3.0, 3.0], [0, 1, 2, 2]]),
    ("cummin", lambda torch: torch.cummin(torch.tensor([4, 5, 2]), 0), [[4, 4, 2], [0, 0, 2]]),
    ("logcumsumexp", lambda torch: torch.tensor([-torch.inf, 0.0, -torch.inf]).logcumsumexp(0), [-math.inf, 0.0, 0.0]),
    ("masked_scatter", lambda torch: torch.tensor([1, 2, 3]).masked_scatter(
        torch.tensor([True, False, True]), torch.tensor([7, 8, 9])), [7, 2, 8]),
    ("histc", lambda torch: torch.histc(torch.tensor([1.0, 2.0, 1.0, 5.0, 9.0]), bins=4, min=0, max=5), [2, 1, 0, 1]),
    ("histc of the elements' own range", lambda torch: torch.histc(torch.tensor(NUMBERS), 2), [2, 3]),
)  # fmt: skip


def _plain(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [_plain(each) for each in found]
    return found.tolist() if hasattr(found, "tolist") else found


@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("call", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_answers_are_those_of_pytorch(call: Callable[[Any], Any], wanted: Any) -> None:
    assert _plain(call(ours)) == wanted
    if importlib.util.find_spec("torch") is not None:
        import torch

        assert _plain(call(torch)) == wanted


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ours.arange(5, step=2), TypeError, "missing start"),
        (lambda: ours.arange(1, 2, 3, 4), TypeError, "wanted end"),
        (lambda: ours.LongTensor(ours.ones(2)), TypeError, "expected torch.int64"),
        (lambda: ours.quantile(ours.ones(2), 1.5), RuntimeError, "range"),
        (lambda: ours.quantile(ours.arange(2), 0.5), RuntimeError, "float or double"),
        (lambda: ours.quantile(ours.ones(0), 0.5), RuntimeError, "non-empty"),
        (lambda: ours.quantile(ours.ones(2), 0.5, interpolation="cubic"), RuntimeError, "must be one of"),
        (lambda: ours.histc(ours.ones(2), bins=0), RuntimeError, "bins must be > 0"),
        (lambda: ours.histc(ours.ones(2), 2, 3, 1), RuntimeError, "larger than min"),
        (lambda: ours.histc(ours.arange(2)), NotImplementedError, "not implemented for 'Long'"),
        (lambda: ours.jit.isinstance([1], list), RuntimeError, "contained type"),
        (lambda: ours.jit.CompilationUnit("def f(x): return x\n").g, AttributeError, "it has f"),
        (lambda: ours.jit.CompilationUnit("def f(x"), SyntaxError, "never closed"),
        (lambda: ours.set_default_dtype(ours.float64), NotImplementedError, "pass dtype"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_denormals_are_kept() -> None:
    ours.set_default_dtype(ours.float32)
    assert ours.set_flush_denormal(False)
    assert not ours.set_flush_denormal(True)
