"""Fixtures of the whole suite."""

import gc
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.everywhere import CLIENTS, Clients, Eager
from treadle import _native, knobs
from treadle.codegen import target as targets
from treadle.plan.target import Target
from treadle.runtime import executable

ALONE = {
    "compat/tensorflow/test_threads.py",
    "models/test_runnable_threads.py",
    "unit/runtime/test_levels.py",
    "unit/runtime/test_many_clients.py",
    "unit/runtime/test_native_process.py",
    "unit/runtime/test_node_caps.py",
    "unit/runtime/test_numpy_threads.py",
    "unit/runtime/test_parts.py",
    "unit/runtime/test_pinning.py",
    "unit/runtime/test_pool.py",
    "unit/runtime/test_python_ops_process.py",
    "unit/runtime/test_report.py",
    "unit/runtime/test_run_control.py",
    "unit/runtime/test_spinning.py",
    "unit/runtime/test_thread_limit.py",
    "unit/runtime/test_threads.py",
}
"""Tests that watch which threads work, or when: each has the CPUs to itself where the others run several at a time."""

_FOLDER = f"{Path(__file__).parent}/"

settings.register_profile("treadle", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("treadle")  # no verdict depends on the machine's speed, nor on which examples came up


ISAS = (knobs.get("TREADLE_ISA"),) if knobs.get("TREADLE_ISA") else targets.available_isas()
"""The instruction sets of `target`: what TREADLE_ISA forces; else each that this CPU can run, best first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run with the best instruction set only what runs with each (scripts/test_machines --others runs the rest)"
    parser.addoption("--best-isa", action="store_true", help=text)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m alone` or `-m "not alone"`, files of which no test is wanted are not imported."""
    wanted = {"alone": True, "not alone": False}.get(config.option.markexpr)
    is_other = wanted is not None and collection_path.is_file() and is_alone(collection_path) is not wanted
    return True if is_other else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_alone(item.path):
            item.add_marker("alone")
    if config.getoption("best_isa", default=False):
        left_out = {item for item in items if isinstance(item, pytest.Function) and isa_of(item) in ISAS[1:]}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Garbage collections of tests leave out what lives to the end: modules, and all tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def frozen_leftovers() -> Iterator[None]:
    """Garbage collections of later modules leave out what the tests of a module leave in caches.

    Else a collection takes a second in the middle of the suite, and some tests ask for several.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the end nothing is left out: the bindings report objects that are never freed."""
    gc.unfreeze()


def is_alone(path: Path) -> bool:
    """True if `path` is one of ALONE."""
    return str(path).removeprefix(_FOLDER) in ALONE


def isa_of(function: pytest.Function) -> object:
    """The instruction set that the fixture `target` gives to `function`, None without that fixture."""
    return function.callspec.params.get("target") if hasattr(function, "callspec") else None


@pytest.fixture(params=ISAS)
def target(request: pytest.FixtureRequest) -> Target:
    """One after another each of ISAS."""
    return targets.for_isa(request.param)


@pytest.fixture(scope="module")
def wide_team() -> Iterator[_native.Team]:
    """A team with a slot for each of the limits that runs ask for."""
    team = _native.Team("wide", 8, 8)
    yield team
    team.close()


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    """Threads that run the same at the same time."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        yield Clients(pool)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers share every step that has several chunks."""
    monkeypatch.setattr(executable, "_native", Eager())


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither use nor fill the user's cache of kernels; they share one, also with pytest's other processes.

    Small models are compiled in this process, as in each that has loaded LLVM.
    """
    import llvmlite.binding  # noqa: F401

    before = os.environ.get("TREADLE_CACHE")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    os.environ["TREADLE_CACHE"] = str(folder / "kernels")
    yield
    if before is None:
        del os.environ["TREADLE_CACHE"]
    else:
        os.environ["TREADLE_CACHE"] = before


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Programs that tests start can be interrupted, also where whoever started pytest ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
