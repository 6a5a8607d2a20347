"""Kernels are chosen by whether all of the model's weights stay in the caches, whichever outputs a run fetches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.machines import MACHINES

from treadle.codegen.target import detect
from treadle.driver import Options, compile_for, plans_of
from treadle.dtypes import f32
from treadle.graph.graph import Graph

LAYER_BYTES = 256 * 256 * 9 * 4


def two_heads() -> Graph:
    """Two convolutions of one input, outputs `a` and `b`."""
    rng = np.random.default_rng(0)
    graph = Graph()
    x = graph.input("x", f32, (1, 256, 14, 14))
    attrs = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1}
    for name in ("a", "b"):
        weights = graph.constant(rng.standard_normal((256, 256, 3, 3), dtype=np.float32), f"{name}.weights")
        out = graph.value(name, f32, (1, 256, 14, 14))
        graph.add("conv", [x, weights, None], attrs, outputs=[out])
        graph.outputs = [*graph.outputs, out]
    return graph


def kernels_of(output_names: list[str], l3: int) -> set[str]:
    """The specs of the convolutions that are compiled for `output_names`, on a machine with `l3` bytes of a last cache
    that is near."""
    here = detect()
    options = Options(replace(here, l2=1 << 20, l3=l3, model=MACHINES[here.isa].model, digest=""))
    (plan,) = plans_of(compile_for(two_heads(), options, [(1, 256, 14, 14)], output_names))
    return {str(call.spec) for call in plan.calls if call.spec is not None and "conv" in call.spec.family}


def test_an_output_has_the_same_kernels_whichever_others_are_fetched() -> None:
    """One head's weights would fit half of the last cache, both heads' do not."""
    l3 = 3 * LAYER_BYTES
    assert kernels_of(["a"], l3) == kernels_of(["a", "b"], l3)


def test_resident_weights_are_transformed_at_compile_time() -> None:
    """The size of the last cache decides, on machines where either choice can be the faster one."""
    streamed, resident = kernels_of(["a"], LAYER_BYTES), kernels_of(["a"], 64 * LAYER_BYTES)
    if detect().isa == "avx512":
        assert streamed != resident
