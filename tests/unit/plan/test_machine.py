"""Files of machine models: what they must hold, and which errors wrong ones give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from treadle.errors import MachineFileError
from treadle.plan.machine import FIGURES, FOLDER, GENERIC, digest_of, machine_model, parse
from treadle.plan.target import Target

NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
GOOD = (FOLDER / "generic-avx2.toml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_files_of_the_package_are_complete(name: str) -> None:
    """
    Each has all figures, and figures that contradict each other are mistakes.
    """
    model = machine_model(name)

    assert model.name == name
    assert model.l2_bytes_per_ns >= model.l3_bytes_per_ns >= model.l3_shared_bytes_per_ns
    assert model.l3_bytes_per_ns >= model.memory_bytes_per_ns >= model.memory_shared_bytes_per_ns
    assert model.l2_latency_ns < model.l3_latency_ns < model.memory_latency_ns
    assert model.call_ns <= model.wake_ns <= model.unpark_ns
    assert 2 <= model.sums_in_flight <= 16


@pytest.mark.parametrize("isa", GENERIC)
def test_each_instruction_set_has_a_generic_model(isa: str) -> None:
    """
    A target without a model has the generic one of its instruction set.
    """
    target = Target(isa, "x86_64-unknown-linux-gnu", "", "", 16, 16, 1 << 15, 1 << 20, 1 << 25)

    assert target.machine.isa == isa
    assert target.machine.name == GENERIC[isa]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('isa = "avx2"', 'isa = "mmx"', "isa: wanted one of avx512, avx2, generic, got 'mmx'"),
        ('isa = "avx2"', "isa = [1]", "isa: wanted one of"),
        ('isa = "avx2"', "isa = ", "wanted TOML"),
        ("[sources]", "[soruces]", "[sources]: wanted texts"),
        ("[figures]", "[figure]", "[figures]: wanted figures, got None"),
        ("call_ns = ", "calls_ns = ", "got 'call_ns, calls_ns'"),
        ("[60.0, ", "[-60.0, ", "call_ns: wanted a number above 0 and at most 1e+09, got -60.0"),
        ("[60.0, ", "[true, ", "call_ns: wanted a number above 0"),
        ("[60.0, ", "[nan, ", "call_ns: wanted a number above 0"),
        ("[60.0, ", "[inf, ", "call_ns: wanted a number above 0"),
        ('[60.0, "fitted"]', "60.0", "call_ns: wanted [number, one of fitted, scaled, assumed], got 60.0"),
        ('[60.0, "fitted"]', '[60.0, "guessed"]', "call_ns: wanted [number, one of"),
        ('[60.0, "fitted"]', "[60.0, [1]]", "call_ns: wanted [number, one of"),
        ("l3_share = [1.0", "l3_share = [1.5", "l3_share: wanted a number above 0 and at most 1, got 1.5"),
    ],
)
def test_a_wrong_file_is_refused(old: str, new: str, wanted: str) -> None:
    """
    The error names the file, the figure, what was wanted and what came.
    """
    assert old in GOOD

    with pytest.raises(MachineFileError) as refused:
        parse(GOOD.replace(old, new, 1).encode(), "mine.toml")

    assert "mine.toml" in str(refused.value)
    assert wanted in str(refused.value)


def test_a_file_that_is_not_text_is_refused() -> None:
    """
    Bytes that are not UTF-8 are no TOML.
    """
    with pytest.raises(MachineFileError, match="wanted TOML"):
        parse(b"\xff\xfe", "mine.toml")


def test_a_missing_file_is_refused() -> None:
    """
    The error lists the models of the package.
    """
    with pytest.raises(MachineFileError, match="one of emerald-rapids, generic, generic-avx2"):
        digest_of("nosuchmachine")


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    """
    What is in the cache folder is named after the content that the process began with.
    """
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    before = digest_of(str(file))
    assert machine_model(str(file), before).name == "mine"
    machine_model.cache_clear()
    file.write_text(GOOD.replace("60.0", "61.0"))

    with pytest.raises(MachineFileError, match="has changed"):
        machine_model(str(file), before)
    assert machine_model(str(file), digest_of(str(file))).call_ns == 61.0


def test_a_model_of_another_instruction_set_is_refused() -> None:
    """
    Figures are of vectors of one width.
    """
    target = Target("avx2", "x86_64-unknown-linux-gnu", "", "", 32, 16, 1 << 15, 1 << 20, 1 << 25, model="zen5")

    with pytest.raises(MachineFileError, match="wanted figures for avx2, got some for avx512"):
        _ = target.machine
    assert replace(target, isa="avx512").machine.name == "zen5"


def test_there_is_a_source_for_every_figure() -> None:
    """
    Every figure that is declared is read, in the order of the record.
    """
    assert "fma_ns" in FIGURES
    assert "unpark_ns" in FIGURES
    assert "name" not in FIGURES


def test_l3_counts_as_far_as_a_process_can_count_on_it() -> None:
    """
    Other guests use the rest.
    """
    target = Target("avx2", "x86_64-unknown-linux-gnu", "", "", 32, 16, 1 << 15, 1 << 19, 1 << 25, model="zen3")

    assert target.last_cache == (1 << 25) * target.machine.l3_share < 1 << 25
    assert replace(target, l3=1 << 19).last_cache == 1 << 19
