"""What convolutions do with finished sums: apply the fused tail, then store them, blocked."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from weft.codegen.emit.kernel import Index, Kernel
from weft.codegen.emit.loops import loop
from weft.codegen.emit.memory import lane_mask, load, load_masked, store
from weft.codegen.emit.vectors import constant, splat
from weft.codegen.kernels.expr import emit_expr
from weft.plan.kernel_spec import KernelSpec

_HEAVY = {"exp", "log", "sigmoid", "tanh", "erf", "softplus", "pow", "sin", "cos", "div", "sqrt"}
"""Ops so long that a tail with them is emitted once a block, in a loop, instead of once a vector."""


class Tail:
    """The fused tail of a convolution kernel.

    `spec["kinds"]` says how each further operand is read: `scalar` (one element), `channel` (one element an
    output channel, padded to whole vectors), `ragged` (the same, not padded), `image` (one element an image and output
    channel, not padded), `full` (blocked as the output).
    """

    def __init__(self, k: Kernel, spec: KernelSpec, first_pointer: int, outputs: Index) -> None:
        self.k = k
        self.expr = spec["tail"]
        self.dtype, self.lanes = spec["dtype"], spec["lanes"]
        self._kinds: tuple[str, ...] = spec["kinds"]
        self._first = first_pointer
        self._outputs = outputs
        self._heavy = self.expr is not None and any(step.op in _HEAVY for step in self.expr.steps)

    def store_block(self, sums: list[ir.Value], image: Index, channel: Index, outs: Sequence[Index]) -> None:
        """Store `sums` (pixel by pixel, a vector for each of `outs`, the vectors' places of pixel 0 in out).

        They belong to `image`, `channel` is the output channel of lane 0 of the first vector.
        """
        k, lanes = self.k, self.lanes
        width = len(outs)
        pixels = len(sums) // width
        fixed = [self._fixed(image, k.add(channel, v * lanes)) for v in range(width)]
        if not self._heavy or pixels == 1:
            for number, value in enumerate(sums):
                p, v = divmod(number, width)
                at = k.add(outs[v], p * lanes)
                store(k, self._apply(value, fixed[v], at), k.pointer(0), at, self.dtype)
            return
        for number, value in enumerate(sums):
            store(k, value, k.pointer(0), k.add(outs[number % width], number // width * lanes), self.dtype)
        for v, out in enumerate(outs):
            with loop(k, 0, pixels * lanes, lanes, name="tail") as turn:
                at = k.add(out, turn.index)
                value = load(k, k.pointer(0), at, self.dtype, lanes)
                store(k, self._apply(value, fixed[v], at), k.pointer(0), at, self.dtype)

    def _fixed(self, image: Index, channel: Index) -> list[ir.Value | None]:
        """The operands that are the same for all pixels; None for the others."""
        k = self.k
        found: list[ir.Value | None] = []
        for number, kind in enumerate(self._kinds, start=self._first):
            if kind == "scalar":
                found.append(splat(k, load(k, k.pointer(number), 0, self.dtype), self.lanes))
            elif kind == "channel":
                found.append(load(k, k.pointer(number), channel, self.dtype, self.lanes))
            elif kind in ("ragged", "image"):
                mask = lane_mask(k, k.sub(self._outputs, channel), self.lanes)
                none = constant(self.dtype, 0.0, self.lanes)
                at = channel if kind == "ragged" else k.add(k.mul(image, self._outputs), channel)
                found.append(load_masked(k, k.pointer(number), at, self.dtype, mask, none))
            else:
                found.append(None)
        return found

    def _apply(self, value: ir.Value, fixed: list[ir.Value | None], at: Index) -> ir.Value:
        """The tail of `value`, whose place in the output is `at`."""
        k = self.k
        if self.expr is None:
            return value
        operands = [
            load(k, k.pointer(number), at, self.dtype, self.lanes) if operand is None else operand
            for number, operand in enumerate(fixed, start=self._first)
        ]
        (result,) = emit_expr(k, self.expr, [value, *operands])
        return result
