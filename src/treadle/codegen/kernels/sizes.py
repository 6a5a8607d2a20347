"""sizes: the arguments become a tensor."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.memory import store
from treadle.codegen.emit.types import DOUBLE
from treadle.dtypes import f64, i64
from treadle.plan.kernels.sizes import SizesArgs, SizesSpec


def emit_sizes(k: Kernel, spec: SizesSpec) -> None:
    """y[i] = elements[i], converted to the dtype of y. There is one chunk."""
    args = k.args(SizesArgs[ir.Value], spec)
    for index, element in enumerate(args.elements):
        number = element if spec.whole else k.b.bitcast(element, DOUBLE)
        store(k, convert(k, number, i64 if spec.whole else f64, spec.dtype), k.pointer(0), index, spec.dtype)
