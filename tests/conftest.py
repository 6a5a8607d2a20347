"""Fixtures of the whole suite."""

import pytest

from weft.codegen import target as targets
from weft.plan.target import Target


@pytest.fixture(params=targets.available_isas())
def target(request: pytest.FixtureRequest) -> Target:
    """Every instruction set that this CPU can run, one after another."""
    return targets.for_isa(request.param)
