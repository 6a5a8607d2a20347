"""Activation functions."""

from __future__ import annotations

import math

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.dtypes import dtype as DType  # noqa: N812
from treadle.compat.torch.functions.arithmetic import abs_, add, clamp, div, gt, le, lt, minimum, mul, sub, unary, where
from treadle.compat.torch.functions.axes import axis_of
from treadle.compat.torch.functions.elementary import erf, expm1
from treadle.compat.torch.functions.promotion import require_floats
from treadle.compat.torch.functions.rule import apply_rule, of_op
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor

relu, sigmoid, tanh = unary("relu", floats=False), unary("sigmoid"), unary("tanh")
celu = of_op("celu", lambda input, alpha=1.0: (_floats("elu_cpu", input), alpha))
glu = of_op("glu", lambda input, dim=-1: (input, dim))
prelu = of_op("prelu", lambda input, weight: (input, weight))
selu = of_op("selu", lambda input: (_floats("elu_cpu", input),))
threshold = of_op("threshold", lambda input, threshold, value: (input, threshold, value))


@tensor_function
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Returns x P(X <= x) for a standard normal X; `approximate="tanh"` selects the approximation by tanh."""
    _floats("GeluKernelImpl", input)
    if approximate == "tanh":
        inner = mul(add(input, mul(mul(mul(input, input), input), 0.044715)), math.sqrt(2 / math.pi))
        return mul(mul(input, 0.5), add(tanh(inner), 1))
    if approximate != "none":
        raise RuntimeError("approximate argument must be either none or tanh.")
    return mul(mul(input, 0.5), add(erf(mul(input, math.sqrt(0.5))), 1))


@tensor_function
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns x sigmoid(x)."""
    _floats("silu_cpu", input)
    return mul(input, sigmoid(input))


@tensor_function
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Returns log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    _floats("softplus_cpu", input)
    scaled = mul(input, beta)
    return where(gt(scaled, threshold), input, div(emit("softplus", scaled), beta))


@tensor_function
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns x tanh(softplus(x))."""
    _floats("mish_cpu", input)
    return mul(input, tanh(emit("softplus", input)))


@tensor_function
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Returns x where it is positive, else negative_slope x."""
    _floats("leaky_relu_cpu", input)
    return where(gt(input, 0), input, mul(input, negative_slope))


@tensor_function
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Returns x where it is positive, else alpha (exp(x) - 1)."""
    _floats("elu_cpu", input)
    return where(gt(input, 0), input, mul(expm1(minimum(input, 0)), alpha))


@tensor_function
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Returns x limited to [min_val, max_val]; for integer tensors the limits are truncated."""
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("Bool inputs not supported for hardtanh")
    if input.dtype.category == 1:
        held = np.iinfo(input.dtype.numpy)
        return clamp(input, int(max(min_val, held.min)), int(min(max_val, held.max)))
    return clamp(input, min_val, max_val)


@tensor_function
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns x limited to [0, 6]."""
    return hardtanh(input, 0, 6)


@tensor_function
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns x / 6 + 1 / 2, limited to [0, 1]."""
    _floats("hardsigmoid_cpu", input)
    return clamp(add(div(input, 6), 0.5), 0, 1)


@tensor_function
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns x hardsigmoid(x)."""
    _floats("hardswish_cpu", input)
    return mul(input, hardsigmoid(input))


@tensor_function
def softsign(input: Tensor) -> Tensor:
    """Returns x / (1 + |x|)."""
    return div(input, add(abs_(input), 1))


@tensor_function
def logsigmoid(input: Tensor) -> Tensor:
    """Returns log(sigmoid(x))."""
    _floats("log_sigmoid_cpu", input)
    return emit("neg", emit("softplus", emit("neg", input)))


@tensor_function
def tanhshrink(input: Tensor) -> Tensor:
    """Returns x - tanh(x)."""
    return sub(input, tanh(input))


@tensor_function
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Returns x where |x| > lambd, else 0; NaN stays NaN."""
    require_floats("hardshrink_cpu", input.dtype)
    return where(le(abs_(input), lambd), 0, input)


@tensor_function
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Returns x moved towards 0 by lambd, and 0 where |x| <= lambd; NaN stays NaN."""
    require_floats("softshrink_check", input.dtype)
    return where(le(abs_(input), lambd), 0, where(lt(input, 0), add(input, lambd), sub(input, lambd)))


@tensor_function
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Returns the input. Raises NotImplementedError while training, as treadle runs inference only."""
    if training and p:
        raise NotImplementedError(
            "dropout while training: treadle runs inference; call module.eval() or training=False"
        )
    return input


@tensor_function
def softmax(input: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """Returns exp(x) / sum(exp(x)) along `dim`."""
    return _along("softmax", input, dim, dtype)


@tensor_function
def log_softmax(input: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """Returns x - log(sum(exp(x))) along `dim`."""
    return _along("log_softmax", input, dim, dtype)


@tensor_function
def softmin(input: Tensor, dim: int | None = None) -> Tensor:
    """Returns softmax(-x) along `dim`."""
    return softmax(sub(0, input), dim)


def _along(op: str, x: Tensor, dim: int | None, to: DType | None) -> Tensor:
    """Applies `op` along `dim`; for None along the axis that PyTorch assumes for this number of axes."""
    require_floats(f"{op}_lastdim_kernel_impl", x.dtype if to is None else to)
    axis = axis_of(x, dim if dim is not None else 0 if x.ndim in (0, 1, 3) else 1)
    found: Tensor = apply_rule(op, (x, axis, to))
    return found


def _floats(kernel: str, x: Tensor) -> Tensor:
    """Returns `x`. Raises NotImplementedError, naming PyTorch's `kernel`, if its elements are not floats."""
    require_floats(kernel, x.dtype)
    return x
