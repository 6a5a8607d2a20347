"""Losses as modules."""

from __future__ import annotations

from treadle.compat.torch.functions import distance, loss
from treadle.compat.torch.nn.module import Module
from treadle.compat.torch.tensor import Tensor


class _Loss(Module):
    """Base of losses with a reduction: "mean", "sum" or "none"."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction


class MSELoss(_Loss):
    """The mean squared error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The mean absolute error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """The mean absolute error, quadratic near 0."""

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """The mean squared error near 0, linear farther away."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class _Weighted(_Loss):
    """Base of losses with weights per class or element."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)


class BCELoss(_Weighted):
    """The binary cross entropy of probabilities and labels."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """BCELoss of the sigmoid of the input."""

    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of a target from log-probabilities."""

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(_Weighted):
    """The negative log-likelihood of the target class."""

    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(_Weighted):
    """NLLLoss of the log-softmax of the input."""

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Returns the loss: a scalar, or one number per element with reduction="none"."""
        return loss.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Returns the similarities, without the axis `dim`."""
        return distance.cosine_similarity(x1, x2, self.dim, self.eps)
