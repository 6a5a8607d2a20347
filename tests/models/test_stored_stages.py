"""Models with sizes that depend on data are kept on disk: neither the first load nor the first run compiles again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models import test_computed_fractions as fractions
from tests.models.test_computed_sizes import WIDTH, chain, first, modelled, rows, top
from tests.models.test_data_python import counted_terms, found_after_python, multiplied_rows, places
from tests.models.test_data_sizes import chosen_rows
from tests.models.test_data_sizes import rows as chosen


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path))
    monkeypatch.delenv("TREADLE_DEBUG", raising=False)


def check(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]]) -> treadle.Session:
    """Run a session of the model's bytes, and assert that it gives what the reference gives."""
    session = treadle.Session(model.SerializeToString())
    for given in feeds:
        wanted = ReferenceEvaluator(model).run(None, given)
        for got, array in zip(session.run(given).values(), wanted, strict=True):
            assert (got.shape, got.dtype) == (array.shape, array.dtype)
            np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-6)
    return session


MODELS = {
    "found": (chosen_rows, [{"x": chosen(count)} for count in (5, 9, 24)]),
    "found in open sizes": (lambda: chosen_rows("n"), [{"x": chosen(count, 20 + count)} for count in (5, 9)]),
    "computed": (lambda: modelled(top), [dict(given) for given in rows(5, 7, 3)]),
    "computed in open sizes": (
        lambda: modelled(first, ["rows", WIDTH]),
        [dict(given) for given in rows(5, 7, count=31)],
    ),
    "computed floats": (
        lambda: fractions.modelled(fractions.resized_by_scales, fractions.OPEN),
        [fractions.image(12, 14, 5), fractions.image(9, 22, 9), fractions.image(15, 11, 3)],
    ),
    "Python behind": (multiplied_rows, [{"x": chosen(count), "axis": np.array(1)} for count in (5, 9, 24)]),
    "Python between": (found_after_python, [{"x": chosen(count), "axis": np.array(1)} for count in (5, 9, 24)]),
    "Python of the reference": (counted_terms, [{"x": places(*at)} for at in ((1, 3), (4,), (1, 2, 3))]),
    "a chain": (chain, [dict(given) for given in rows(20, 14)]),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_later_session_compiles_nothing(name: str) -> None:
    """The plans in front and behind are from disk; sizes that the first session never saw are bound, too."""
    build, feeds = MODELS[name]
    assert check(build(), feeds[:2]).compiles >= 2
    later = check(build(), feeds)
    assert later.compiles == 0


def test_sizes_that_no_stored_plan_serves_are_compiled_and_stored() -> None:
    """Nothing found is a case of its own, which the third session finds on disk."""
    check(chosen_rows("n"), [{"x": chosen(5)}])
    feeds = [{"x": chosen(count)} for count in (7, 0, 3)]
    assert check(chosen_rows("n"), feeds).compiles > 0
    assert check(chosen_rows("n"), feeds).compiles == 0


def test_plans_of_a_stored_model_are_shown() -> None:
    """The plan in front is compiled again for that."""
    check(chosen_rows(), [{"x": chosen(5)}])
    later = check(chosen_rows(), [{"x": chosen(5)}])
    assert [call.op for call in later.plans()[0].calls if call.control is not None] == ["data_stage"]
