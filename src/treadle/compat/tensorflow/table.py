"""The ops of the facade and their public names.

Their rules are in `frontends.tensorflow`, which frozen graphs use too.
"""

from __future__ import annotations

from treadle.compat.tensorflow.api import Op
from treadle.compat.tensorflow.dispatch import register
from treadle.frontends.tensorflow.table import MATH, RULES

OPS: dict[str, Op] = {rule.name: Op(rule) for rule in RULES.values()}
register(OPS)

ALSO: dict[str, tuple[str, ...]] = {
    **{rule.name: (f"math.{rule.name}",) for rule in MATH},
    "div_no_nan": ("math.div_no_nan", "math.divide_no_nan"),
    "matmul": ("linalg.matmul",),
    "einsum": ("linalg.einsum",),
    "norm": ("linalg.norm",),
    "eye": ("linalg.eye",),
    "tensordot": ("linalg.tensordot",),
    "sigmoid": ("math.sigmoid", "nn.sigmoid"),
    "tanh": ("math.tanh", "nn.tanh"),
    "softplus": ("math.softplus", "nn.softplus"),
    "nn.conv": ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.convolution"),
    "nn.max_pool": ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
    "nn.avg_pool": ("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"),
    "nn.swish": ("nn.silu",),
    "nn.top_k": ("math.top_k",),
    "nn.l2_normalize": ("math.l2_normalize",),
    "nn.log_softmax": ("math.log_softmax",),
    "nn.softmax": ("math.softmax",),
    "math.in_top_k": ("nn.in_top_k",),
    "nn.local_response_normalization": ("nn.lrn",),
    "identity": ("stop_gradient",),
    "divide": ("math.divide", "realdiv"),
}
"""Further public names of ops."""


def names(op: Op) -> tuple[str, ...]:
    """Return all public names of `op`, its own name first."""
    return (op.name, *ALSO.get(op.name, ()))
