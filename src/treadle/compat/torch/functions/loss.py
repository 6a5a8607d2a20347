"""The losses of torch.nn.functional."""

from __future__ import annotations

from treadle.compat.torch.dispatch import tensor_function
from treadle.compat.torch.functions.activation import log_softmax, softplus
from treadle.compat.torch.functions.arithmetic import abs_, add, clamp, div, eq, lt, mul, ne, neg, pow_, sub, where
from treadle.compat.torch.functions.elementary import exp, log
from treadle.compat.torch.functions.promotion import cast
from treadle.compat.torch.functions.reduction import mean, sum_
from treadle.compat.torch.functions.selection import gather, index_select
from treadle.compat.torch.functions.shape import reshape, unsqueeze
from treadle.compat.torch.tensor import Tensor


def _reduced(each: Tensor, reduction: str) -> Tensor:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return each if reduction == "none" else mean(each) if reduction == "mean" else sum_(each)


@tensor_function
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Returns the squares of the differences."""
    return _reduced(pow_(sub(input, target), 2), reduction)


@tensor_function
def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Returns the sizes of the differences."""
    return _reduced(abs_(sub(input, target)), reduction)


@tensor_function
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Returns d^2 / (2 beta) for differences d below beta, |d| - beta / 2 above."""
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return _reduced(div(_huber(sub(input, target), beta), beta), reduction)


@tensor_function
def huber_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Returns d^2 / 2 for differences d below delta, delta (|d| - delta / 2) above."""
    return _reduced(_huber(sub(input, target), delta), reduction)


def _huber(difference: Tensor, delta: float) -> Tensor:
    size = abs_(difference)
    return where(lt(size, delta), mul(mul(size, size), 0.5), mul(sub(size, 0.5 * delta), delta))


@tensor_function
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Returns -(y log p + (1 - y) log(1 - p)), with logarithms limited to at least -100."""
    yes, no = clamp(log(input), -100), clamp(log(sub(1, input)), -100)
    each = neg(add(mul(target, yes), mul(sub(1, target), no)))
    return _reduced(each if weight is None else mul(each, weight), reduction)


@tensor_function
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Returns binary_cross_entropy of sigmoid(input), without overflow for large inputs."""
    no = mul(sub(1, target), softplus(input))
    yes = mul(target, softplus(neg(input)))
    each = add(no, yes if pos_weight is None else mul(yes, pos_weight))
    return _reduced(each if weight is None else mul(each, weight), reduction)


@tensor_function
def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Returns target (log target - input), 0 where target is 0; "batchmean" divides the sum by the batch size."""
    if log_target:
        each = mul(exp(target), sub(target, input))
    else:
        none = eq(target, 0)
        each = where(none, 0.0, mul(target, sub(log(where(none, 1.0, target)), input)))
    if reduction == "batchmean":
        return div(sum_(each), input.shape[0])
    return _reduced(each, reduction)


@tensor_function
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Returns minus the log-probabilities of the target classes [N, *] or [] in input [N, C, *] or [C].

    The mean is weighted and excludes targets equal to `ignore_index`. Raises RuntimeError if shapes do not fit.
    """
    axis = 0 if input.ndim == 1 else 1
    if tuple(input.shape[:axis] + input.shape[axis + 1 :]) != tuple(target.shape):
        raise RuntimeError(
            f"Expected target size {[*input.shape[:axis], *input.shape[axis + 1 :]]}, got {list(target.shape)}"
        )
    kept = ne(target, ignore_index)
    classes = where(kept, target, 0)
    share = _shares(classes, kept, weight, input)
    each = mul(neg(reshape(gather(input, axis, unsqueeze(classes, axis)), target.shape)), share)
    each = where(kept, each, 0.0)
    return div(sum_(each), sum_(share)) if reduction == "mean" else _reduced(each, reduction)


def _shares(classes: Tensor, kept: Tensor, weight: Tensor | None, like: Tensor) -> Tensor:
    """Returns the weight of each element, 0 where it is ignored."""
    if weight is None:
        return cast(kept, like.dtype)
    return where(kept, reshape(index_select(weight, 0, reshape(classes, [-1])), classes.shape), 0.0)


@tensor_function
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Returns nll_loss of log_softmax(input [N, C, *] or [C]).

    target holds classes, or probabilities in the shape of input.
    """
    axis = 0 if input.ndim == 1 else 1
    known = log_softmax(input, axis)
    classes = input.shape[axis]
    spread = [classes if at == axis else 1 for at in range(input.ndim)]
    weights = None if weight is None else reshape(weight, spread)
    if target.dtype.is_floating_point:
        smoothed = add(mul(target, 1 - label_smoothing), label_smoothing / classes) if label_smoothing else target
        each = neg(sum_(mul(known, smoothed) if weights is None else mul(mul(known, weights), smoothed), axis))
        return div(sum_(each), max(1, each.numel())) if reduction == "mean" else _reduced(each, reduction)
    hit = nll_loss(known, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return hit
    kept = ne(target, ignore_index)
    smooth = where(kept, neg(sum_(known if weights is None else mul(known, weights), axis)), 0.0)
    if reduction == "mean":
        share = _shares(where(kept, target, 0), kept, weight, input)
        rest = div(sum_(smooth), sum_(share))
    else:
        rest = _reduced(smooth, reduction)
    return add(mul(hit, 1 - label_smoothing), mul(rest, label_smoothing / classes))
