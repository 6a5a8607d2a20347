"""Settings from the environment that are not about threads."""

from __future__ import annotations

import pytest

from treadle import knobs
from treadle.errors import KnobError


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("TREADLE_CACHE", "Off", "off"),
        ("TREADLE_CACHE", "/some/where", "/some/where"),
        ("TREADLE_CACHE_MB", " 12 ", 12),
        ("TREADLE_CACHE_MB", "", 4096),
        ("TREADLE_ISA", "avx2", "avx2"),
        ("TREADLE_CACHES", "32K, 512K,32M", (32 << 10, 512 << 10, 32 << 20)),
        ("TREADLE_PLAN_CACHE", "1", 1),
    ],
)
def test_values_are_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object
) -> None:
    """
    Whenever they are asked for; an empty variable counts as none.
    """
    monkeypatch.setenv(name, text)

    assert knobs.get(name) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, text)
            for name in ("TREADLE_CACHE_MB", "TREADLE_DEBUG", "TREADLE_OUTPUTS_MB")
            for text in ("-1", "1_0", "x", "1.5")
        ),
        ("TREADLE_PLAN_CACHE", "0"),
        ("TREADLE_PLAN_CACHE", "9" * 30),
        ("TREADLE_ISA", "AVX2"),
        *(
            ("TREADLE_CACHES", text)
            for text in ("32K", "32K,512K", "32K,16K,32M", "32,512K,32M", "0K,0K,0K", "1K,2K,3K,4K")
        ),
        ("TREADLE_PARALLEL_BACKEND", "threads"),
        ("TREADLE_MATMUL_PROVIDER", "blas"),
    ],
)
def test_impossible_values_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """
    The error names the variable, what was wanted and what came; nothing is clamped.
    """
    monkeypatch.setenv(name, text)

    with pytest.raises(KnobError) as caught:
        knobs.get(name)

    message = str(caught.value)
    assert message.startswith(f"environment variable {name}: wanted {knobs.KNOBS[name].wanted}, got {text!r}")


@pytest.mark.parametrize("name", knobs.KNOBS)
def test_defaults_are_values_a_user_could_give(name: str) -> None:
    """
    A default that its own variable refused would be another setting than any the table describes.
    """
    knob = knobs.KNOBS[name]

    assert knob.default is None or knob.parse(str(knob.default)) == knob.default
