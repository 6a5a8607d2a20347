"""TREADLE_DISABLE leaves optimisations out: results stay right, and artifacts of other settings are not used."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import treadle
from tests.models import small
from treadle.errors import KnobError
from treadle.optimisations import OPTIMISATIONS
from treadle.passes import pipeline

SOURCES = Path(treadle.__file__).parent


def convolutional(**sizes: int) -> onnx.ModelProto:
    """The small convolutional network with fixed shapes, so that its compiled form becomes an artifact."""
    model = small.convolutional(**sizes)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    return model


def families(session: treadle.Session) -> set[str]:
    """The families of the kernels of a session."""
    return {call.spec.family for plan in session.plans() for call in plan.calls if call.spec is not None}


@pytest.mark.parametrize("name", OPTIMISATIONS)
def test_results_are_right_without_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """
    A convolutional network and a transformer layer agree with the onnx package's reference.
    """
    monkeypatch.setenv("TREADLE_DISABLE", name)
    for model in (convolutional(), small.attention()):
        feed = small.inputs_for(model)
        found = treadle.Session(model).run(feed)

        for output, expected in small.wanted(model, feed).items():
            np.testing.assert_allclose(found[output], expected, rtol=1e-3, atol=1e-4)


def test_every_name_is_a_pass_or_read_somewhere() -> None:
    """
    A name in the table that nothing looks up would switch nothing off.
    """
    steps = (*pipeline.INFER, *pipeline.SIMPLIFY, *pipeline.FUSE, *pipeline.LAYOUT)
    passes = {step.name for step, _ in steps}
    read = {
        name for path in SOURCES.rglob("*.py") for name in re.findall(r'is_enabled\("(\w+)"\)', path.read_text("utf-8"))
    }

    assert set(OPTIMISATIONS) - passes == read


def test_several_names_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Without blocked layouts and epilogues, none of their kernels is left.
    """
    model = convolutional()

    assert "conv" in families(treadle.Session(model))
    monkeypatch.setenv("TREADLE_DISABLE", "choose_layouts, fuse_epilogue")
    found = families(treadle.Session(model))

    assert "conv" not in found
    assert "conv_plain" in found


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The error names the variable and what came.
    """
    monkeypatch.setenv("TREADLE_DISABLE", "winograd,magic")

    with pytest.raises(KnobError, match=r"TREADLE_DISABLE.*'winograd,magic'"):
        treadle.Session(small.add())


def test_artifacts_of_other_settings_are_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    Winograd's algorithm rounds differently, so a session that took the artifact compiled with it would give its bits.
    """
    network = convolutional(channels=64, size=57)
    feed, model = small.inputs_for(network), network.SerializeToString()
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    with_winograd = [output.tobytes() for output in treadle.Session(model).run(feed).values()]
    monkeypatch.setenv("TREADLE_DISABLE", "winograd")
    stored = [output.tobytes() for output in treadle.Session(model).run(feed).values()]
    monkeypatch.setenv("TREADLE_CACHE", "off")
    compiled = [output.tobytes() for output in treadle.Session(model).run(feed).values()]

    assert stored == compiled != with_winograd
