"""Runs the onnx package's node test cases through treadle.compat.onnx_backend."""

from __future__ import annotations

import warnings

import pytest

import treadle.compat.onnx_backend as backend
from tests.unit.frontends.onnx.node_cases import cases, compare, given, not_run, result
from treadle.errors import TreadleError

GROUPS = 8


def complaint(case) -> str | None:
    """Returns None if a session gives the expected outputs, else a description of the difference or the error."""
    names = [value.name for value in case.model.graph.input]
    try:
        prepared = backend.prepare(case.model)
        for inputs, wanted in case.data_sets:
            found = prepared.run({name: given(item) for name, item in zip(names, inputs, strict=False)})
            for value, item in zip(case.model.graph.output, wanted, strict=True):
                compare(found[value.name], result(item), case)
    except (TreadleError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"[:300]
    return None


@pytest.mark.parametrize("group", range(GROUPS))
def test_sessions_agree_with_the_onnx_node_cases(group: int) -> None:
    """
    This holds for ops with a kernel and with a reference only, with known shapes and with shapes that depend on data.
    """
    chosen = [name for name in sorted(cases()) if name not in not_run()][group::GROUPS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        complaints = {name: found for name in chosen if (found := complaint(cases()[name])) is not None}

    assert complaints == {}
    assert len(chosen) > 200
