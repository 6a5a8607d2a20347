"""Speed of matrix products on one core, in % of the FMA limit measured in the same run.

    python -m benches.micro.gemm [--isa ISA] [--precision f32|bf16] [--seconds S] [--provider NAME]... [CASE...]

With --provider (treadle, openblas, mkl, onednn), each provider multiplies each case; the last column is the number of
calls that a product and its epilogue become.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benches.micro.kernel_timer import KernelTimer
from treadle import dtypes
from treadle.codegen import target as targets
from treadle.dtypes import DType, bf16, f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.ops.op import Info
from treadle.ops.table import OPS
from treadle.runtime import providers

_BIAS = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))
_BIAS_RESIDUAL = Expr((f32, f32, f32), (Step("add", (0, 1), f32), Step("add", (3, 2), f32)), (4,))
_GELU = Expr(
    (f32, f32),
    (
        Step("add", (0, 1), f32),
        Step("const", (), f32, 0.7071067811865476),
        Step("mul", (2, 3), f32),
        Step("erf", (4,), f32),
        Step("const", (), f32, 1.0),
        Step("add", (5, 6), f32),
        Step("const", (), f32, 0.5),
        Step("mul", (2, 8), f32),
        Step("mul", (9, 7), f32),
    ),
    (10,),
)
_SCALE = Expr((f32,), (Step("const", (), f32, 0.125), Step("mul", (0, 1), f32)), (2,))

Case = tuple[list[tuple[int, ...]], dict[str, Any], bool]
_CASES: dict[str, Case] = {}
for _n in (8, 16, 24, 32, 48, 64, 100, 128, 256, 512, 1000, 1024, 1536, 2048, 3000, 4096):
    _CASES[f"{_n}^3"] = ([(_n, _n), (_n, _n)], {}, False)
    _CASES[f"{_n}^3 constant"] = ([(_n, _n), (_n, _n)], {}, True)
_CASES |= {
    "bert projection": ([(1, 128, 768), (768, 768), (768,)], {"epilogue": _BIAS}, True),
    "bert output": ([(1, 128, 768), (768, 768), (768,), (1, 128, 768)], {"epilogue": _BIAS_RESIDUAL}, True),
    "bert up": ([(1, 128, 768), (768, 3072), (3072,)], {"epilogue": _GELU}, True),
    "bert up without gelu": ([(1, 128, 768), (768, 3072), (3072,)], {"epilogue": _BIAS}, True),
    "bert down": ([(1, 128, 3072), (3072, 768), (768,), (1, 128, 768)], {"epilogue": _BIAS_RESIDUAL}, True),
    "bert scores": (
        [(1, 128, 12, 64), (1, 128, 12, 64)],
        {"a_perm": (0, 2, 1, 3), "b_perm": (0, 2, 3, 1), "epilogue": _SCALE},
        False,
    ),
    "bert context": ([(1, 12, 128, 128), (1, 128, 12, 64)], {"b_perm": (0, 2, 1, 3), "out_perm": (0, 2, 1, 3)}, False),
    "minilm projection": ([(1, 64, 384), (384, 384), (384,)], {"epilogue": _BIAS}, True),
    "minilm up": ([(1, 64, 384), (384, 1536), (1536,)], {"epilogue": _GELU}, True),
    "minilm down": ([(1, 64, 1536), (1536, 384), (384,)], {"epilogue": _BIAS}, True),
    "minilm scores": ([(1, 64, 12, 32), (1, 64, 12, 32)], {"a_perm": (0, 2, 1, 3), "b_perm": (0, 2, 3, 1)}, False),
    "256 x 32^3": ([(256, 32, 32), (256, 32, 32)], {}, False),
    "256 x 64^3": ([(256, 64, 64), (256, 64, 64)], {}, False),
    "decoding scores": ([(12, 1, 64), (12, 512, 64)], {"transpose_b": True}, False),
    "vector x transposed": ([(1, 1024), (1024, 1024)], {"transpose_b": True}, False),
    "transposed a": ([(512, 512), (512, 512)], {"transpose_a": True}, False),
    "transposed b": ([(512, 512), (512, 512)], {"transpose_b": True}, False),
    "2048 wide, 16 rows": ([(16, 2048), (2048, 2048)], {}, True),
    **{f"few rows: {_n}": ([(_n, 1024), (1024, 16384)], {}, True) for _n in (1, 2, 4, 8, 12, 24)},
    "vector x matrix": ([(1, 2048), (2048, 1000)], {}, True),
}


def build(
    shapes: list[tuple[int, ...]], attrs: dict[str, Any], constant: bool, dtype: DType, left: DType | None = None
) -> tuple[Graph, Any]:
    """Returns a graph of one matmul, and arrays for its inputs; the left factor may have another dtype `left`."""
    random = np.random.default_rng(0)
    graph, arrays, values, infos = Graph(), {}, [], []
    attrs = {"transpose_a": False, "transpose_b": False, **attrs}
    for number, shape in enumerate(shapes):
        here = left if left is not None and number == 0 else dtype
        data = random.standard_normal(shape).astype(here.numpy)
        infos.append(Info(here, shape, None))
        if constant and number in (1, 2):
            values.append(graph.constant(data))
        else:
            values.append(graph.input(f"x{number}", here, shape))
            arrays[f"x{number}"] = data
    (result,) = OPS["matmul"].infer(attrs, infos, 1)
    node = graph.add("matmul", values, attrs, outputs=1)
    node.output.dtype, node.output.shape = result.dtype, result.shape
    graph.outputs = [node.output]
    return graph, arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", help="parts of names of cases")
    parser.add_argument("--isa", default=targets.best_isa())
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16"), help="bf16: cases with constant weights")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--provider", action="append", choices=providers.NAMES, help="may be given several times")
    options = parser.parse_args()
    chosen = [(name, providers.provider_for(name)) for name in options.provider or [providers.TREADLE]]
    timer = KernelTimer(targets.for_isa(options.isa))
    factors = dtypes.BY_NAME[options.precision]
    if factors == bf16 and not timer.target.has_bf16_dot:
        parser.error(f"--precision bf16: {options.isa} on {timer.target.cpu} has no products of bf16")
    limit = timer.fma_limit(factors)
    print(f"{factors} limit {limit / 1e9:.1f} GFLOP/s ({options.isa}, one core)")
    for name, (shapes, attrs, constant) in _CASES.items():
        if (options.cases and not any(part in name for part in options.cases)) or (factors == bf16 and not constant):
            continue
        for provider_name, provider in chosen:
            graph, arrays = build(shapes, attrs, constant, f32, factors)
            seconds, calls = timer.graph_seconds(graph, arrays, options.seconds, provider)
            limit = max(limit, timer.fma_limit(factors, 0.02))
            flops = max(call.flops for call in calls)
            rate = flops / seconds
            cut = ", ".join(f"{call.spec.family if call.spec else call.op} x{call.chunks}" for call in calls)
            print(
                f"{name:24s} {provider_name:9s} {seconds * 1e6:10.2f} us {rate / 1e9:7.1f} GFLOP/s "
                f"{100 * rate / limit:6.1f} %   {cut}"
            )


if __name__ == "__main__":
    main()
