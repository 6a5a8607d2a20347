"""Speed of attention on one core, as one kernel and as products and a softmax, in % of the FMA limit.

python -m benches.micro.attention [--isa ISA] [--seconds S] [CASE...]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benches.micro.kernel_timer import KernelTimer
from treadle.codegen import target as targets
from treadle.dtypes import f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.passes.base import PassContext
from treadle.passes.fuse_attention import FuseAttention
from treadle.passes.infer_shapes import InferShapes

_SCALE = (Step("const", (), f32, 0.125), Step("mul", (0, 1), f32))
_PLAIN = Expr((f32,), _SCALE, (2,))
_MASKED = Expr((f32, f32), (_SCALE[0], Step("mul", (0, 2), f32), Step("add", (3, 1), f32)), (4,))

Case = tuple[int, int, int, tuple[int, ...] | None]
_CASES: dict[str, Case] = {
    "minilm, 64 tokens": (64, 12, 32, None),
    "bert, 128 tokens": (128, 12, 64, None),
    "bert, 128 tokens, padding mask": (128, 12, 64, (1, 1, 1, 128)),
    "gpt2, 128 tokens, causal mask": (128, 12, 64, (1, 1, 128, 128)),
    "vit, 197 patches": (197, 12, 64, None),
    "bert, 512 tokens": (512, 12, 64, None),
    "2048 tokens": (2048, 4, 64, None),
}
"""Tokens, heads, depth of a head, shape of the mask."""


def build(case: Case) -> tuple[Graph, dict[str, Any]]:
    """Returns two products and a softmax, as they are before FuseAttention, and arrays for the inputs."""
    tokens, heads, depth, mask = case
    random, graph = np.random.default_rng(0), Graph("attention")
    values = [graph.input(name, f32, (1, tokens, heads, depth)) for name in "qkv"]
    arrays = {value.name: random.standard_normal(value.static_shape).astype(np.float32) for value in values}
    extra = [] if mask is None else [graph.constant(random.standard_normal(mask).astype(np.float32))]
    perms = {"a_perm": (0, 2, 1, 3), "b_perm": (0, 2, 3, 1), "epilogue": _PLAIN if mask is None else _MASKED}
    scores = graph.add("matmul", [*values[:2], *extra], {"transpose_a": False, "transpose_b": False, **perms})
    weights = graph.add("softmax", [scores.output], {"axis": -1})
    perms = {"b_perm": (0, 2, 1, 3), "out_perm": (0, 2, 1, 3)}
    y = graph.add("matmul", [weights.output, values[2]], {"transpose_a": False, "transpose_b": False, **perms})
    graph.outputs = [y.output]
    return graph, arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", help="parts of names of cases")
    parser.add_argument("--isa", default=targets.best_isa())
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    timer = KernelTimer(targets.for_isa(options.isa))
    context = PassContext(timer.target)
    limit = timer.fma_limit(f32)
    print(f"FMA limit {limit / 1e9:.1f} GFLOP/s ({options.isa}, one core)")
    for name, case in _CASES.items():
        if options.cases and not any(part in name for part in options.cases):
            continue
        tokens, heads, depth, _ = case
        flops, shares = 4.0 * heads * tokens * tokens * depth, []
        for passes in ((), (FuseAttention(),)):
            graph, arrays = build(case)
            for step in (InferShapes(), *passes):
                step.run(graph, context)
            seconds, _ = timer.graph_seconds(graph, arrays, options.seconds)
            limit = max(limit, timer.fma_limit(f32, 0.02))
            shares.append((seconds, 100 * flops / seconds / limit))
        separate, fused = shares
        print(
            f"{name:32s} {fused[0] * 1e6:10.1f} us {fused[1]:6.1f} %   "
            f"separate {separate[0] * 1e6:10.1f} us {separate[1]:6.1f} %   {separate[0] / fused[0]:5.2f} x"
        )


if __name__ == "__main__":
    main()
