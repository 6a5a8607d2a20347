"""The loops over products in the assembly of a kernel."""

from __future__ import annotations

import re

from llvmlite import binding

from treadle.codegen import jit
from treadle.codegen.kernels.table import effort_of
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import Target

PRODUCT = re.compile(r"vdpbf16ps|vfmadd|v?pmaddwd|vpdpbusd")


def innermost_loops(assembly: str) -> list[list[str]]:
    """The instructions of each loop that holds products and no other such loop."""
    lines = [line.strip() for line in assembly.splitlines()]
    labels = {line[:-1]: number for number, line in enumerate(lines) if re.fullmatch(r"\.?\w+:", line)}
    spans = []
    for number, line in enumerate(lines):
        jump = re.match(r"j\w+\s+(\.?\w+)$", line)
        start = labels.get(jump[1], number) if jump else number
        if any(PRODUCT.match(inside) for inside in lines[start:number]):
            spans.append((start, number))
    inner = [a for a in spans if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return [lines[start:end] for start, end in inner]


def loops_of(spec: KernelSpec, target: Target) -> list[list[str]]:
    """The innermost loops of the kernel, as it is compiled for use."""
    with binding.create_context() as context:
        module = binding.parse_assembly(jit.emit_ir(spec, target), context)
        with module:
            machine = jit.target_machine(target)
            jit._optimize(module, machine, effort_of(spec.family))
            return innermost_loops(machine.emit_assembly(module))


def spills(body: list[str]) -> list[str]:
    """The instructions of a loop that move vectors to or from the stack."""
    return [line for line in body if "mm" in line and "(%rsp)" in line]
