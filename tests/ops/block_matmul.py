"""Cases of block_matmul."""

import numpy as np

from tests.ops.case import Case, floats, random


def _case(
    name: str,
    *shape: int,
    columns: int = 21,
    bits: int = 4,
    block: int = 32,
    zeros: type | None = None,
    rounds: bool = False,
) -> Case:
    rng = random(f"block_matmul/{name}")
    blocks = -(-shape[-1] // block)
    weights = rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    scales = (rng.random((columns, blocks)) + 0.1).astype(np.float32)
    begin = None if zeros is None else rng.integers(0, 1 << bits, scales.shape).astype(zeros)
    operands = (floats(f"block_matmul/{name}", *shape), weights, scales, begin)
    attrs = {"bits": bits, "block": block, "rounds": rounds}
    return Case(f"block_matmul/{name}", "block_matmul", attrs, operands, frozenset({1, 2, 3}))


CASES = [
    _case("vector", 96),
    _case("one_row", 1, 128, columns=80),
    _case("rows", 2, 7, 64),
    _case("many_rows", 33, 160, columns=49),
    _case("parts_of_the_depth", 40, 1100, columns=49),
    _case("panels_of_a_chunk_in_parts", 90, 1056, columns=80, bits=2, zeros=np.uint8),
    _case("many_rows_of_a_ragged_depth", 41, 51, block=16, bits=2, zeros=np.uint8),
    _case("no_rows", 0, 32),
    _case("short_depth", 3, 50, block=16),
    _case("zeros", 5, 96, zeros=np.uint8),
    _case("real_zeros", 5, 96, zeros=np.float32),
    _case("long_blocks", 4, 300, block=128),
    _case("two_bits", 5, 70, bits=2, block=16, zeros=np.uint8),
    _case("eight_bits", 5, 70, bits=8, block=16, zeros=np.uint8),
    *(
        _case(f"rounded_{bits}_{block}_{rows}", rows, 150, bits=bits, block=block, zeros=zeros, rounds=True)
        for bits in (2, 4, 8)
        for block, rows, zeros in ((16, 1, None), (64, 7, np.uint8), (32, 30, np.float32))
    ),
]
