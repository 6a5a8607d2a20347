"""Which inputs and outputs are pairs of a state by their names."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.runtime.signature import Interface, Tensor
from treadle.runtime.state_pairs import Growth, chosen_pairs


def interface(inputs: str, outputs: str) -> Interface:
    """Matrices with these names, by space."""
    names = (inputs.split(), outputs.split())
    return Interface(*(tuple(Tensor(name, np.dtype(np.float32), ("a", "b")) for name in each) for each in names))


@pytest.mark.parametrize(
    ("inputs", "outputs", "pairs"),
    [
        (
            "x past_key_values.0.key past_key_values.0.value",
            "y present.0.key present.0.value",
            {"past_key_values.0.key": "present.0.key", "past_key_values.0.value": "present.0.value"},
        ),
        ("past_0 past_1", "present_0 present_1", {"past_0": "present_0", "past_1": "present_1"}),
        ("x h0 c0", "y hn cn", {"h0": "hn", "c0": "cn"}),
        ("input state sr", "output stateN", {"state": "stateN"}),
        ("x past", "y present", {"past": "present"}),
        ("x h_in", "h_out y", {"h_in": "h_out"}),
        ("x prev_hidden", "new_hidden", {"prev_hidden": "new_hidden"}),
        (
            "past_key_values.0.decoder.key past_key_values.0.encoder.key",
            "present_key_values.0.decoder.key",
            {"past_key_values.0.decoder.key": "present_key_values.0.decoder.key"},
        ),
    ],
)
def test_names_tell_pairs(inputs: str, outputs: str, pairs: dict[str, str]) -> None:
    """Words for before and after differ, the rest of the names is the same."""
    found = chosen_pairs(interface(inputs, outputs), None, {})
    assert {pair.input.name: pair.output.name for pair in found} == pairs


@pytest.mark.parametrize(("inputs", "outputs"), [("input", "output"), ("x", "y"), ("x past", "y past_out")])
def test_names_without_more_tell_nothing(inputs: str, outputs: str) -> None:
    """Nothing is left of them that both share."""
    with pytest.raises(ValueError, match="name the pairs"):
        chosen_pairs(interface(inputs, outputs), None, {})


def test_the_graph_tells_pairs_that_names_do_not() -> None:
    """What the model only appends to is a pair, with its axis."""
    (pair,) = chosen_pairs(interface("x kept", "y all"), None, {"kept": Growth("all", 1, (("kept", "all"),))})
    assert (pair.input.name, pair.output.name, pair.axis) == ("kept", "all", 1)
