"""The vector registers that a register block may use."""

from __future__ import annotations

from treadle.plan.target import Target


def sum_registers(target: Target, *, vnni: bool = False) -> int:
    """Returns the vector registers for sums and factors of a register block, with `vnni` of bytes.

    Without one instruction for both, a product takes a register before it is added, and a factor of 1 another one,
    which adds pairs of products. SSE overwrites one of its factors.
    """
    is_generic = target.isa == "generic"
    if vnni and not target.has_vnni:
        return target.registers - 1 - (is_generic or target.has_byte_pairs)
    return target.registers - is_generic


def byte_registers(target: Target) -> int:
    """Returns the same for products of bytes: without VNNI, one waits to be added, and there is a register of ones.

    With AVX-512, LLVM loads weights of later steps ahead, and would spill sums to have registers for them.
    """
    if target.has_vnni:
        return target.registers
    return target.registers - (5 if target.isa == "avx512" else 2)


def pair_registers(target: Target) -> int:
    """Returns the same for products of bytes that were widened to pairs of 16 bits, one of which waits to be added.

    Bytes that no single instruction widens take three more.
    """
    return target.registers - (4 if target.isa == "generic" else 1)
