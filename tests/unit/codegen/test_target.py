"""The CPU that LLVM schedules instructions for."""

from __future__ import annotations

import pytest

from treadle.codegen.llvm_host import Host
from treadle.codegen.target import scheduling_cpu


@pytest.mark.parametrize(
    ("cpu", "has_fp16", "scheduled"),
    [
        ("znver5", False, "znver5"),
        ("rocketlake", False, "rocketlake"),
        ("rocketlake", True, "sapphirerapids"),
        ("graniterapids", True, "graniterapids"),
    ],
)
def test_a_cpu_with_a_masked_model_number_is_told_by_its_instructions(cpu: str, has_fp16: bool, scheduled: str) -> None:
    """
    A hypervisor may report an earlier CPU; instructions that this one lacks show it.
    """
    machine = Host("x86_64-unknown-linux-gnu", cpu, {"avx512f": True, "avx512fp16": has_fp16})

    assert scheduling_cpu(machine) == scheduled
