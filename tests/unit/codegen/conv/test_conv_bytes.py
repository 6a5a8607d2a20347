"""Direct convolutions of bytes, whose sums are exact on every instruction set, with and without VNNI."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.assembly import loops_of
from tests.kernel_runner import lower_graph, run_graph, without_vnni

from treadle.dtypes import DType, f32, i8, i32, u8
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.value import Value
from treadle.ops.conv import evaluate_conv
from treadle.plan.kernels.conv.direct import DirectConvSpec
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Bytes:
    """A convolution of bytes x [images, channels, *size], whose zero point is `zero`.

    `large` is the share of weights of which two products, added, may exceed 16 bits.
    """

    channels: int
    outputs: int
    size: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    images: int = 1
    dtype: DType = u8
    zero: int = 0
    large: float = 1.0

    @property
    def attrs(self) -> dict[str, Any]:
        return {"strides": self.strides, "pads": self.pads, "dilations": (1, 1), "groups": self.groups}

    def arrays(self) -> tuple[Array, Array]:
        """x and weights, of all numbers that bytes can be."""
        rng = np.random.default_rng(self.channels)
        info = np.iinfo(self.dtype.numpy)
        x = rng.integers(info.min, info.max + 1, (self.images, self.channels, *self.size))
        w = rng.integers(-128, 128, (self.outputs, self.channels // self.groups, *self.kernel))
        w[0], x[0, :, 0] = -128, info.max
        w = np.where(rng.random(w.shape) < self.large, w, w // 2)
        return x.astype(self.dtype.numpy), w.astype(np.int8)

    def reference(self) -> Array:
        """The sums."""
        x, w = (array.astype(np.int64) for array in self.arrays())
        (sums,) = evaluate_conv(self.attrs, [x - self.zero, w, None])
        return sums.astype(np.int32)

    def graph(self, target: Target) -> tuple[Graph, dict[str, Array]]:
        """The convolution between reorders, and its input."""
        graph, (x, w) = Graph(), self.arrays()
        layout = Blocked(target.lanes(f32))

        def reordered(value: Value, blocked: Blocked | None) -> Value:
            moved = graph.value(f"{value.name}.moved", value.known_dtype, value.static_shape)
            moved.layout = blocked
            graph.add("reorder", [value], outputs=[moved])
            return moved

        given = reordered(graph.input("x", self.dtype, x.shape), layout)
        out = graph.value("out", i32, self.reference().shape)
        out.layout = layout
        graph.add("conv", [given, graph.constant(w, "w"), None], {**self.attrs, "zero": self.zero}, outputs=[out])
        graph.outputs = [reordered(out, None)]
        return graph, {"x": x}

    def spec(self, target: Target) -> DirectConvSpec:
        """The kernel that multiplies."""
        calls, _ = lower_graph(self.graph(target)[0], target)
        (spec,) = (call.spec for call in calls if isinstance(call.spec, DirectConvSpec))
        return spec

    def check(self, target: Target) -> None:
        """Asserts that the sums are exact, in both orders of chunks."""
        graph, given = self.graph(target)
        for reverse in (False, True):
            (found,) = run_graph(graph, given, target=target, reverse_chunks=reverse).values()
            np.testing.assert_array_equal(found, self.reference())


SAME = (1, 1, 1, 1)

CASES = {
    "1x1": Bytes(32, 48, (7, 9)),
    "1x1 of odd channels": Bytes(37, 21, (5, 7), zero=11),
    "1x1 strided": Bytes(32, 32, (9, 9), strides=(2, 2), zero=200),
    "3x3": Bytes(32, 64, (8, 30), (3, 3), pads=SAME, zero=128),
    "3x3 of 3 channels": Bytes(3, 24, (15, 16), (3, 3), strides=(2, 2), pads=SAME, zero=128),
    "3x3 grouped": Bytes(64, 64, (6, 7), (3, 3), pads=SAME, groups=2, zero=3),
    "1x7 of several images": Bytes(20, 16, (3, 25), (1, 7), pads=(0, 3, 0, 3), images=2, zero=90),
    "signed": Bytes(32, 40, (8, 11), (3, 3), pads=SAME, dtype=i8, zero=-5),
    "signed without a zero point": Bytes(24, 40, (6, 6), dtype=i8),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_bytes_are_exact(name: str, target: Target) -> None:
    CASES[name].check(target)
    CASES[name].check(without_vnni(target))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("large", [0.0, 0.01])
def test_sums_of_bytes_are_exact_where_pairs_are_added_in_16_bits(name: str, large: float, target: Target) -> None:
    """Few weights are so large that they are split in two terms."""
    replace(CASES[name], large=large).check(without_vnni(target))


@pytest.mark.parametrize(("large", "remainders"), [(0.0, False), (0.01, True)])
def test_without_vnni_bytes_of_small_weights_are_multiplied(large: float, remainders: bool, target: Target) -> None:
    """One instruction multiplies four bytes of a lane, where none of the weights beside it has to be split."""
    other = without_vnni(target)
    if not other.has_byte_pairs:
        pytest.skip("the instruction set has no products of bytes")
    spec = replace(CASES["3x3"], large=large).spec(other)
    assert spec.vnni
    assert not spec.words
    assert spec.remainders == remainders
    products = [[line.split()[0] for line in body] for body in loops_of(spec, other)]
    longest = max(products, key=lambda body: body.count("vpmaddubsw"))
    assert longest.count("vpmaddubsw") == longest.count("vpmaddwd") == longest.count("vpaddd") > 0
    assert not any(name.startswith(("vpmovzx", "vpmovsx")) for name in longest)


def test_without_vnni_pairs_of_words_are_multiplied(target: Target) -> None:
    """Nothing is widened in a loop over products: a call before it does that, and removes the zero point."""
    other = without_vnni(target)
    spec = CASES["3x3"].spec(other)
    assert spec.words
    assert not spec.vnni
    assert not spec.padded
    assert not spec.bias
    for body in loops_of(spec, other):
        assert not any(line.startswith(("vps", "psr", "psl", "vpmovsx", "vpand", "pand")) for line in body)
