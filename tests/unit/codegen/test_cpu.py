"""Which machine model a CPU has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from treadle.codegen import cpu
from treadle.codegen import target as targets
from treadle.codegen.artifact import artifact_key
from treadle.codegen.cache import kernel_key
from treadle.codegen.cpu import CpuId, machine_for, parse_cpu_info
from treadle.errors import KnobError, MachineFileError
from treadle.plan.kernels.byte_table import ByteTableSpec
from treadle.plan.machine import FOLDER, GENERIC, machine_model

CPU_INFO = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC

processor\t: 1
vendor_id\t: other
"""


def test_the_first_cpu_is_identified() -> None:
    """
    Vendor, family and model come from the first paragraph.
    """
    assert parse_cpu_info(CPU_INFO) == CpuId("AuthenticAMD", 26, 2)


@pytest.mark.parametrize("text", ["", "processor : 0\nFeatures : asimd\n", CPU_INFO.replace("26", "many")])
def test_a_cpu_may_have_no_identification(text: str) -> None:
    """
    Other architectures, and systems that hide it, have none.
    """
    assert parse_cpu_info(text) is None


@pytest.mark.parametrize("isa", GENERIC)
@pytest.mark.parametrize("unknown", [None, CpuId("GenuineIntel", 250, 1), CpuId("Unheard", 26, 2)])
def test_an_unknown_cpu_has_the_generic_model(unknown: CpuId | None, isa: str) -> None:
    """
    There is a model for every CPU.
    """
    assert machine_for(unknown, isa, isa) == GENERIC[isa]


def test_a_known_cpu_has_its_model() -> None:
    """
    With a lesser instruction set it has the generic one of that.
    """
    zen5 = CpuId("AuthenticAMD", 26, 2)

    assert machine_for(zen5, "avx512", "avx512") == "zen5"
    assert machine_for(zen5, "avx2", "avx512") == "generic-avx2"


def test_a_hidden_instruction_set_is_not_assumed() -> None:
    """
    Virtual machines may hide AVX-512 of a CPU that has it.
    """
    assert machine_for(CpuId("AuthenticAMD", 26, 2), "avx2", "avx2") == "generic-avx2"


def test_vendors_number_their_families_alike() -> None:
    """
    Family and model alone do not name a CPU.
    """
    assert machine_for(CpuId("GenuineIntel", 6, 207), "avx512", "avx512") == "emerald-rapids"
    assert machine_for(CpuId("AuthenticAMD", 6, 207), "avx512", "avx512") == "generic-avx512"


@pytest.mark.parametrize(("model", "isa", "name"), [(0x01, "avx2", "generic-avx2"), (0x11, "avx512", "zen4")])
def test_a_family_may_have_several_models(model: int, isa: str, name: str) -> None:
    """
    Zen 3 and Zen 4 have one family.
    """
    assert machine_for(CpuId("AuthenticAMD", 25, model), isa, isa) == name


@pytest.mark.parametrize("kind", cpu.KINDS, ids=lambda kind: kind.name)
def test_models_of_the_table_exist(kind: cpu.Kind) -> None:
    """
    Every model that can be chosen is in the package.
    """
    assert machine_model(kind.name).name == kind.name


def test_a_forced_instruction_set_has_the_model_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    TREADLE_ISA chooses the model as well as the instructions.
    """
    monkeypatch.delenv("TREADLE_MACHINE", raising=False)
    monkeypatch.setenv("TREADLE_ISA", "generic")

    assert targets.detect().machine.name == "generic"


def test_a_model_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    TREADLE_MACHINE takes a name or a file; keys of kernels and artifacts depend on its content.
    """
    monkeypatch.setenv("TREADLE_ISA", "generic")
    monkeypatch.setenv("TREADLE_MACHINE", "generic")
    named = targets.detect()
    file = tmp_path / "mine.toml"
    content = (FOLDER / "generic.toml").read_text()
    file.write_text(content)
    monkeypatch.setenv("TREADLE_MACHINE", str(file))
    first = targets.detect()
    assert named.machine.call_ns == first.machine.call_ns == 60.0
    file.write_text(content.replace("[60.0", "[61.0"))
    second = targets.detect()

    assert second.machine.call_ns == 61.0
    assert replace(first, digest=second.digest) == second
    assert artifact_key("model", {}, first) != artifact_key("model", {}, second)
    assert kernel_key(ByteTableSpec(), first) != kernel_key(ByteTableSpec(), second)


def test_a_wrong_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Neither a file nor a model of the package.
    """
    monkeypatch.setenv("TREADLE_MACHINE", "My Computer")
    with pytest.raises(KnobError, match="TREADLE_MACHINE: wanted a name such as zen3"):
        targets.detect()
    monkeypatch.setenv("TREADLE_MACHINE", "nosuchmachine")
    with pytest.raises(MachineFileError, match=r"wanted a \.toml file or one of"):
        targets.detect()
