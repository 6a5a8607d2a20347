"""TorchScript whose sizes depend on data runs natively: what follows such a size is made once it is known."""

from __future__ import annotations

import importlib.util
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch uses it)")

import treadle  # noqa: E402
from tests.models.at_once import wait_for_a_run  # noqa: E402 - after the skip
from tests.unit.frontends.torch import sized_scripts  # noqa: E402
from tests.unit.frontends.torch.running import assert_same, run  # noqa: E402
from treadle.errors import RunCancelledError, RunError, RunTimeoutError  # noqa: E402
from treadle.frontends.torch import rest  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::DeprecationWarning:torch.*")


def inputs() -> list[Any]:
    """Returns tensors of which other parts are positive: some, few, all, none."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((6, 5)).astype(np.float32)
    return [torch.from_numpy(each) for each in (x, x - 1, np.abs(x) + 0.01, -np.abs(x), 2 * x[::-1].copy())]


def assert_native(session: treadle.Session) -> None:
    assert [call.node for plan in session.plans() for call in plan.calls if call.function is not None] == []


def expected(script: Any, x: Any) -> Any:
    """Returns PyTorch's result, None where it raises."""
    try:
        return script(x)
    except (RuntimeError, torch.jit.Error):
        return None


@pytest.mark.parametrize("function", sized_scripts.ALL, ids=lambda function: function.__name__)
def test_the_results_are_those_of_pytorch(function: Any, tmp_path: Path) -> None:
    """No part of them is computed in Python, and where PyTorch raises, the run fails."""
    script = torch.jit.script(function)
    torch.jit.save(script, str(tmp_path / "model.pt"))
    session = treadle.Session(tmp_path / "model.pt")
    for x in (*inputs(), *inputs()):
        wanted = expected(script, x)
        if wanted is None:
            with pytest.raises(RunError):
                run(session, (x,))
        else:
            assert_same(run(session, (x,)), wanted)
    assert_native(session)


@pytest.mark.parametrize(
    "function",
    [
        sized_scripts.finds_again,
        sized_scripts.joins_rows_of_the_chosen,
        sized_scripts.not_overlapping,
        sized_scripts.rows_of_two,
        sized_scripts.thins_out,
    ],
    ids=lambda function: function.__name__,
)
def test_further_sizes_compile_nothing(function: Any) -> None:
    script = torch.jit.script(function)
    session = treadle.Session(script)
    x = torch.from_numpy(np.random.default_rng(6).standard_normal((40, 5)).astype(np.float32))
    some = [x - shift for shift in (0.0, 0.25, -0.25, 0.5, -0.5)]
    for each in some[:2]:
        run(session, (each,))
    plans = len(session.plans())
    for each in some:
        assert_same(run(session, (each,)), script(each))
    assert len(session.plans()) == plans


@pytest.mark.parametrize(
    "function",
    [sized_scripts.not_overlapping, sized_scripts.joins_what_data_count, sized_scripts.finds_again],
    ids=lambda function: function.__name__,
)
def test_bits_are_the_same_at_all_numbers_of_threads(function: Any) -> None:
    session = treadle.Session(torch.jit.script(function))
    x = {session.inputs[0].name: np.random.default_rng(7).standard_normal((64, 5)).astype(np.float32)}
    first = session.run(x, pool=treadle.Pool(intra_op=1, inter_op=1))
    for threads in ((2, 1), (1, 2), (3, 2)):
        again = session.run(x, pool=treadle.Pool(intra_op=threads[0], inter_op=threads[1]))
        assert [array.tobytes() for array in again.values()] == [array.tobytes() for array in first.values()]


class _Chosen(torch.nn.Module):
    """Reads the size of what a mask chooses."""

    def forward(self, x: Any) -> Any:
        chosen = x[x > 0]
        torch._check(chosen.shape[0] >= 2)
        return chosen.view(-1, 1) * torch.arange(chosen.shape[0]).unsqueeze(1), chosen.shape[0]


class _Counted(torch.nn.Module):
    """Makes tensors of a size that it computes."""

    def forward(self, x: Any) -> Any:
        n = x.abs().sum().to(torch.int64).item()
        torch._check(n >= 0)
        return torch.zeros(n, 3) + 1, torch.arange(n)


class _Joined(torch.nn.Module):
    """Joins positions with the first half of them."""

    def forward(self, x: Any) -> Any:
        found = x.nonzero()
        return torch.cat([found, found[: found.shape[0] // 2]]) + found.shape[0]


class _Unique(torch.nn.Module):
    """Counts what there is."""

    def forward(self, x: Any) -> Any:
        found, inverse, counts = torch.unique(x.round(), return_inverse=True, return_counts=True)
        return found + 1, inverse, counts


@pytest.mark.parametrize(
    "module", [_Chosen(), _Counted(), _Joined(), _Unique()], ids=lambda module: type(module).__name__
)
def test_exported_programs_read_such_sizes_too(module: Any) -> None:
    first, *others = inputs()
    session = treadle.Session(torch.export.export(module, (first,)))
    for x in (first, others[0], others[-1]):
        assert_same(run(session, (x,)), module(x))
    assert_native(session)


def nested(levels: int, folder: Path) -> Any:
    """Returns a script of branches and loops inside one another, all of which data decide about."""
    lines = ["import torch", "def nested(x: torch.Tensor):", "    y = x"]
    for level in range(levels):
        space = "    " * (level + 1)
        if level % 3 == 2:
            lines += [f"{space}for i{level} in range(int(y[0].item()) % 2 + 1):"]
        else:
            lines += [f"{space}if bool(y.sum() > {level}):"]
        lines += [f"{space}    y = y + {level % 5}"]
    lines += ["    return y"]
    path = folder / "nested_script.py"
    path.write_text("\n".join(lines))
    spec = importlib.util.spec_from_file_location("nested_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return torch.jit.script(module.nested)


def test_control_flow_nested_30_deep_runs_natively(tmp_path: Path) -> None:
    script = nested(30, tmp_path)
    session = treadle.Session(script)
    for first in (1.0, 0.0, 40.0, -3.0):
        x = torch.tensor([first, 1.0])
        assert_same(run(session, (x,)), script(x))
    assert_native(session)


def nested_finders(levels: int, kind: str) -> Any:
    """Returns a script of branches, loops or both in turn inside one another, each of which chooses elements."""
    lines = ["def nested(x):", "    y = x", "    n = torch.zeros((), dtype=torch.int64)"]
    for level in range(levels):
        space = "    " * (level + 1)
        if kind == "loops" or (kind == "both" and level % 2 == 0):
            lines += [f"{space}i{level} = torch.zeros((), dtype=torch.int64)", f"{space}while bool(i{level} < 1):"]
            lines += [f"{space}    i{level} = i{level} + 1"]
        else:
            lines += [f"{space}if bool(y.sum() > -1e9):"]
        lines += [f"{space}    y = y[y > {level - 40}]", f"{space}    n = n + y.size(0)"]
    lines += ["    return y, n"]
    return torch.jit.CompilationUnit("\n".join(lines) + "\n").nested


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["branches", "loops", "both"])
def test_bodies_30_deep_may_find_sizes(kind: str) -> None:
    """What is made of each of them does not multiply by level."""
    script = nested_finders(30, kind)
    session = treadle.Session(script)
    compiles = []
    for x in (torch.arange(-60.0, 4.0), torch.arange(-35.0, 20.0), torch.arange(-70.0, 1.0)):
        assert_same(run(session, (x,)), script(x))
        compiles.append(session.compiles)
    assert compiles[2] == compiles[1]  # the first plan is for one size
    assert_native(session)


ENDLESS = {"x": np.ones((2, 2), np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_that_never_ends_stops_at_its_timeout(threads: int) -> None:
    """And when it is cancelled. It finds sizes in each iteration."""
    session = treadle.Session(torch.jit.script(sized_scripts.endless))
    pool = treadle.Pool(intra_op=threads, inter_op=threads)
    with pytest.raises(RunTimeoutError):
        session.run(ENDLESS, pool=pool, timeout=5)
    assert_native(session)
    token = treadle.CancelToken()
    future = session.run_async(ENDLESS, pool=pool, cancel=token)
    wait_for_a_run(pool)
    time.sleep(0.05)  # the loop has begun by then
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()


def test_a_run_of_higher_priority_goes_before_the_next_iteration() -> None:
    pool = treadle.Pool(intra_op=1, inter_op=1)
    urgent = treadle.Session(torch.jit.script(sized_scripts.thins_out), pool=pool)
    x = {"x": inputs()[0].numpy()}
    urgent.run(x)
    session = treadle.Session(torch.jit.script(sized_scripts.endless), pool=pool)
    with pytest.raises(RunTimeoutError):
        session.run(ENDLESS, timeout=5)
    token = treadle.CancelToken()
    future = session.run_async(ENDLESS, cancel=token)
    wait_for_a_run(pool)
    for _ in range(3):
        urgent.run(x, priority=1, timeout=60)
    assert not future.done()
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()


def test_timelines_show_iterations_and_the_branch_taken(tmp_path: Path) -> None:
    """Each iteration finds elements once; a step of one side of the branch shows only if that is taken."""
    session = treadle.Session(torch.jit.script(sized_scripts.keeps_the_first))
    for x in inputs()[:3]:
        run(session, (x,))
        iterations = int(x.abs().sum()) % 4 + 1
        assert _steps(session, x, tmp_path)["index"] % iterations == 0
    session = treadle.Session(torch.jit.script(sized_scripts.takes_a_side))
    for x in inputs()[:3]:
        run(session, (x,))
        steps = _steps(session, x, tmp_path)
        assert ("softmax" in steps, "cumsum" in steps) == (bool(x.sum() > 0), not bool(x.sum() > 0))


def _steps(session: treadle.Session, x: Any, folder: Path) -> Counter[str]:
    """Returns how often each step shows in the timeline of a run."""
    with treadle.trace(folder / "trace.json"):
        run(session, (x,))
    return Counter(event["name"] for event in json.loads((folder / "trace.json").read_text())["traceEvents"])


def test_an_empty_list_of_a_loop_cannot_be_stacked() -> None:
    """As in PyTorch."""
    session = treadle.Session(torch.jit.script(sized_scripts.collects))
    with pytest.raises(RunError, match="its list has no tensors"):
        session.run({"x": np.zeros((2, 3), np.float32)})


def test_an_error_names_the_line_of_the_script() -> None:
    session = treadle.Session(torch.jit.script(sized_scripts.unfit))
    with pytest.raises(RunError, match="view"):
        session.run({"x": np.ones((2, 4), np.float32)})


@pytest.mark.parametrize(
    "function",
    [
        sized_scripts.doubles,
        sized_scripts.joins_parts,
        sized_scripts.numbers_the_chosen,
        sized_scripts.returns_early,
        sized_scripts.rows_of_two,
        sized_scripts.sizes_from_elements,
        sized_scripts.takes_a_side,
    ],
    ids=lambda function: function.__name__,
)
def test_results_are_inferred_without_sample_sizes(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a size is inferred for all sizes: it is not run in advance for made-up ones."""
    tried: list[str] = []
    monkeypatch.setattr(rest, "_results_for_samples", lambda _, __, place: tried.append(place))
    script = torch.jit.script(function)
    session = treadle.Session(script)
    for x in inputs():
        assert_same(run(session, (x,)), script(x))
    assert tried == []


def test_a_loop_may_give_a_value_further_axes() -> None:
    """How many it gives depends on data."""

    script = torch.jit.script(sized_scripts.gains_axes)
    session = treadle.Session(script)
    for x in inputs():
        assert_same(run(session, (x,)), script(x))
