"""Fixtures of the whole suite."""

import os
import signal
from collections.abc import Iterator

import pytest

from weft.codegen import target as targets
from weft.plan.target import Target


@pytest.fixture(params=targets.available_isas())
def target(request: pytest.FixtureRequest) -> Target:
    """Every instruction set that this CPU can run, one after another."""
    return targets.for_isa(request.param)


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither use nor fill the user's cache of kernels; they share one of their own."""
    before = os.environ.get("WEFT_CACHE")
    os.environ["WEFT_CACHE"] = str(tmp_path_factory.mktemp("kernels") / "cache")
    yield
    if before is None:
        del os.environ["WEFT_CACHE"]
    else:
        os.environ["WEFT_CACHE"] = before


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Programs that tests start can be interrupted, also where whoever started pytest ignores SIGINT."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
