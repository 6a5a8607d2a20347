"""ATen ops as functions of tensors, by family; results are compared with PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it

Case = tuple[Callable[..., object], tuple[torch.Tensor, ...]]


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))


def positive(*shape: int) -> torch.Tensor:
    return seeded(*shape).abs() + 0.1


def ints(*shape: int, high: int = 5, low: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(7))


X, Y, IMAGE = seeded(3, 4), seeded(3, 4), seeded(2, 6, 9, 9)
WHOLE = ints(3, 4, low=-4)
MASK = X > 0
SIGNS = torch.tensor([0.0, -0.0, 1.5, -1.5, torch.inf, -torch.inf, torch.nan])

UNARY = [
    "abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
    "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt",
    "sigmoid",
    "sign",
    "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "logical_not",
]  # fmt: skip
ACTIVATIONS = [
    "celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu", "relu6",
    "selu", "silu", "softplus", "softsign", "tanhshrink", "hardshrink", "softshrink",
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "fmod", "remainder"]

CASES: dict[str, Case] = {
    **{
        f"unary_{n}": (getattr(torch, n), (torch.rand(3, 4, generator=torch.Generator().manual_seed(1)),))
        for n in UNARY
    },
    **{
        f"of_ints_{n}": (getattr(torch, n), (WHOLE,)) for n in ("abs", "neg", "sin", "sqrt", "sigmoid", "floor", "sign")
    },
    **{f"act_{n}": (getattr(F, n), (3 * X,)) for n in ACTIVATIONS},
    **{f"binary_{n}": (getattr(torch, n), (X, Y)) for n in BINARY},
    "acosh": (lambda x: torch.acosh(1 + x.abs()), (X,)),
    "shifts": (lambda n: (n << 2, n >> 1, torch.bitwise_left_shift(n, n.abs() % 3)), (WHOLE,)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,)),
    "glu": (lambda x: F.glu(x, 1), (X,)),
    "prelu": (F.prelu, (IMAGE, seeded(6))),
    "threshold": (lambda x: F.threshold(x, 0.1, 20.0), (X,)),
    "softplus_beta": (lambda x: F.softplus(x, 2.0, 1.0), (3 * X,)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), (X,)),
    "clamp_one_side": (lambda x: x.clamp(min=0.2) + x.clamp(max=0.1), (X,)),
    "clamp_by_tensors": (torch.clamp, (X, -Y.abs(), Y.abs())),
    "add_alpha": (lambda x, y: torch.add(x, y, alpha=2.5), (X, Y)),
    "rsub": (lambda x: 3 - x, (X,)),
    "promotion": (lambda x, n: (x + n, n * 2, n / 2, n + 0.5, n > 1.5, x * True), (X, WHOLE)),
    "promotion_of_scalars": (lambda x, s: (x.half() + s, x + s.double()), (X, torch.tensor(2.0))),
    "bools_add_and_multiply": (lambda m: (m + m, m * m, m & ~m, m | m, m ^ m), (MASK,)),
    "bits": (lambda n: (n & 3, n | 4, n ^ 1, ~n), (WHOLE,)),
    "floor_divide": (lambda x, n: (x // 0.7, n // 3, torch.div(n, 3, rounding_mode="trunc")), (X, WHOLE)),
    "div_rounding": (lambda x: torch.div(x, 0.7, rounding_mode="trunc"), (X,)),
    "pow": (lambda x: (x**2, x**3, x**0.5, x**-1, x**-0.5, x**1.7, 2**x, x**1), (positive(3, 4),)),
    "where": (lambda m, x, y: (torch.where(m, x, y), torch.where(m, x, 0.0)), (MASK, X, Y)),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), (X, MASK)),
    "lerp": (lambda x, y: (torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=2), torch.addcdiv(x, x, y)), (X, Y + 5)),
    "atan2": (torch.atan2, (X, Y)),
    "sign": (lambda x, n, m: (torch.sign(x), torch.sgn(x), torch.sign(n), torch.sign(m)), (SIGNS, WHOLE, MASK)),
    "clamp_to_nan": (
        lambda x: (x.clamp(min=torch.nan), x.clamp(max=torch.nan), x.clamp(0, torch.nan), x.clamp_min(torch.nan)),
        (X,),
    ),
    "nan_in_kernels_alike": (
        lambda x, m: (torch.where(m, torch.nan, x), torch.where(m.flip(0), torch.nan, x.cumsum(0))),
        (X, MASK),
    ),
    "clamp_of_nan": (lambda x: (x.clamp(0, 1), x.clamp(min=0), x.clamp(max=0)), (SIGNS,)),
    "atan2_of_signs": (torch.atan2, (SIGNS[:, None].expand(7, 7).clone(), SIGNS.expand(7, 7).clone())),
    "hypot": (torch.hypot, (1e25 * X, 1e25 * Y)),
    "hypot_of_signs": (torch.hypot, (SIGNS[:, None].expand(7, 7).clone(), SIGNS.expand(7, 7).clone())),
    "logical": (lambda x, n: (torch.logical_and(x, n), torch.logical_or(x, n), torch.logical_xor(x, n)), (X, WHOLE)),
    # products
    "linear": (F.linear, (X, seeded(5, 4), seeded(5))),
    "linear_of_rank_3": (F.linear, (seeded(2, 3, 4), seeded(5, 4), seeded(5))),
    "linear_without_bias": (F.linear, (X, seeded(5, 4))),
    "matmul": (torch.matmul, (seeded(2, 3, 4), seeded(4, 5))),
    "matmul_of_vectors": (torch.matmul, (seeded(4), seeded(4))),
    "bmm": (torch.bmm, (seeded(2, 3, 4), seeded(2, 4, 5))),
    "baddbmm": (
        lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2),
        (seeded(2, 3, 5), seeded(2, 3, 4), seeded(2, 4, 5)),
    ),
    "addmm of nothing": (lambda c, x, y: torch.addmm(c, x * torch.nan, y, alpha=0), (seeded(5), X, seeded(4, 5))),
    "addmm": (lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2.0), (seeded(5), X, seeded(4, 5))),
    "mv": (torch.mv, (X, seeded(4))),
    "outer": (torch.outer, (seeded(3), seeded(4))),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), (seeded(2, 3, 4), seeded(2, 4, 5))),
    "bilinear": (F.bilinear, (X, seeded(3, 5), seeded(2, 4, 5))),
    "attention": (F.scaled_dot_product_attention, (seeded(2, 2, 6, 8), seeded(2, 2, 5, 8), seeded(2, 2, 5, 7))),
    "attention_mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (seeded(2, 2, 6, 8), seeded(2, 2, 6, 8), seeded(2, 2, 6, 8), torch.ones(6, 6).tril().bool()),
    ),
    "attention_of_nothing": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (seeded(2, 2, 6, 8), torch.ones(2, 1, 6, 6).tril().bool() & (torch.arange(6) > 2)),
    ),
    "attention_bias_of_nothing": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        (seeded(2, 2, 19, 8), torch.zeros(19, 19).masked_fill(torch.arange(19)[:, None] < 3, -torch.inf)),
    ),
    "attention_bias": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m, scale=0.3),
        (seeded(2, 2, 6, 8), seeded(6, 6)),
    ),
    "attention_causal": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (seeded(2, 2, 6, 8),)),
    "attention_grouped": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        (seeded(2, 4, 6, 8), seeded(2, 2, 6, 8)),
    ),
    # convolutions
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), (seeded(2, 6, 9), seeded(4, 6, 3))),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), (IMAGE, seeded(4, 6, 3, 3), seeded(4))),
    "conv2d_groups": (lambda x, w: F.conv2d(x, w, groups=3, dilation=2), (IMAGE, seeded(6, 2, 3, 3))),
    "conv2d_depthwise": (lambda x, w: F.conv2d(x, w, groups=6, padding=1), (IMAGE, seeded(6, 1, 3, 3))),
    "conv2d_same": (lambda x, w: F.conv2d(x, w, padding="same", dilation=2), (IMAGE, seeded(4, 6, 5, 3))),
    "conv2d_unbatched": (F.conv2d, (IMAGE[0], seeded(4, 6, 3, 3))),
    "conv3d": (F.conv3d, (seeded(1, 2, 5, 5, 5), seeded(3, 2, 3, 3, 3))),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        (IMAGE, seeded(6, 4, 3, 3)),
    ),
    # normalisations
    "batch_norm": (
        F.batch_norm,
        (IMAGE, seeded(6), positive(6), seeded(6), seeded(6)),
    ),
    "batch_norm_plain": (F.batch_norm, (IMAGE, seeded(6), positive(6))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, [4], w, b), (X, seeded(4), seeded(4))),
    "layer_norm_of_two_axes": (lambda x: F.layer_norm(x, [9, 9]), (IMAGE,)),
    "rms_norm": (lambda x, w: F.rms_norm(x, [4], w), (X, seeded(4))),
    "rms_norm_by_hand": (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), (X,)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), (IMAGE, seeded(6), seeded(6))),
    "instance_norm": (F.instance_norm, (IMAGE,)),
    "normalize": (lambda x: F.normalize(x, dim=1), (X,)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), (IMAGE,)),
    "softmax": (lambda x: (F.softmax(x, 1), F.log_softmax(x, 0), F.softmax(x, -1, dtype=torch.float64)), (X,)),
    # pools and sizes
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    "max_pool2d_ceil": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (IMAGE,)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), (seeded(2, 6, 9),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (IMAGE,)),
    "avg_pool2d_without_pads": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (IMAGE,)),
    "adaptive_avg_pool2d": (
        lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, 3), F.adaptive_avg_pool2d(x, (4, 7))),
        (IMAGE,),
    ),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4), (seeded(2, 6, 9),)),
    "adaptive_max_pool2d": (lambda x: (F.adaptive_max_pool2d(x, 3), F.adaptive_max_pool2d(x, (4, 2))), (IMAGE,)),
    "interpolate_nearest": (lambda x: F.interpolate(x, scale_factor=2.0), (IMAGE,)),
    "interpolate_nearest_to_a_size": (lambda x: F.interpolate(x, (7, 13)), (IMAGE,)),
    "interpolate_bilinear": (lambda x: F.interpolate(x, (14, 5), mode="bilinear"), (IMAGE,)),
    "interpolate_bilinear_scaled": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (IMAGE,)),
    "interpolate_corners": (lambda x: F.interpolate(x, (14, 5), mode="bilinear", align_corners=True), (IMAGE,)),
    "interpolate_bicubic": (lambda x: F.interpolate(x, (14, 5), mode="bicubic"), (IMAGE,)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (seeded(2, 8, 3, 3),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (seeded(2, 3, 4, 4),)),
    "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0), F.pad(x, (-1, 1))), (X,)),
    "pad_reflect_cut": (lambda x: F.pad(x, (-2, 3, 3, -1), "reflect"), (IMAGE,)),
    "pad_modes": (lambda x: (F.pad(x, (1, 2, 2, 1), "reflect"), F.pad(x, (1, 2, 2, 1), "replicate")), (IMAGE,)),
    # reductions
    "sum": (lambda x: (x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), x.sum(-1, keepdim=True)), (X,)),
    "sum_of_ints_and_bools": (lambda n, m: (n.sum(), m.sum(1)), (WHOLE, MASK)),
    "mean": (lambda x: (x.mean(), x.mean((2, 3)), x.mean(1, keepdim=True)), (IMAGE,)),
    "prod": (lambda x: (x.prod(), x.prod(1)), (X,)),
    "extremes": (lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True)), (X,)),
    "positions": (lambda x: (x.argmax(1), x.argmin(), x.argmax(0, keepdim=True)), (X,)),
    "any_all_over_no_axes": (lambda m: (torch.any(m, dim=[]), torch.all(m, dim=[])), (MASK,)),
    "median": (lambda x, n: (x.median(), n.median(), *x.median(1), *n.median(0, keepdim=True)), (X, WHOLE)),
    "median_of_nan": (
        lambda x: (x.median(), *x.reshape(1, 7).median(1), *torch.stack([x, -x]).median(0), *x.median(0, keepdim=True)),
        (SIGNS,),
    ),
    "median_of_nothing": (lambda x: x.median(), (torch.zeros(0),)),
    "any_all_of_nothing": (lambda m: (m.any(), m.all(), m.any(1), m.all(1)), (torch.zeros(2, 0, dtype=torch.bool),)),
    "any_all": (lambda m: (m.any(), m.all(1), m.any(0, keepdim=True)), (MASK,)),
    "var": (lambda x: (x.var(), x.var(1), x.std(0, unbiased=False), x.std((0, 1), keepdim=True)), (X,)),
    "var_mean": (lambda x: torch.var_mean(x, 1), (X,)),
    "norm": (lambda x: (x.norm(), x.norm(dim=1), torch.linalg.vector_norm(x, 1, 0), x.norm(3.0)), (X,)),
    "logsumexp": (lambda x: (torch.logsumexp(x, 1), torch.logsumexp(x, 0, keepdim=True)), (X,)),
    "logsumexp_of_infinities": (
        lambda x: torch.logsumexp(x, 1),
        (torch.tensor([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]) * float("inf"),),
    ),
    "cumsum": (lambda x: x.cumsum(1), (X,)),
    "topk": (lambda x: (*x.topk(2, 1), *x.topk(1, 0, largest=False)), (X,)),
    "sort": (lambda x: (*x.sort(1), x.argsort(0, descending=True)), (X,)),
    # shapes
    "view": (lambda x: (x.view(4, 3), x.reshape(-1), x.reshape(2, -1), x.flatten(), x.view(3, 2, 2).flatten(1)), (X,)),
    "unflatten": (lambda x: (x.unflatten(1, (2, -1)), x.unsqueeze(1).squeeze(1), x[None].squeeze()), (X,)),
    "transposes": (lambda x: (x.permute(0, 2, 3, 1), x.transpose(1, -1), x.mT, x[0, 0].T, x.movedim(1, 3)), (IMAGE,)),
    "expand": (lambda x: (x.expand(2, 3, 4), x[:, :1].expand(-1, 5), x.repeat(2, 1, 3), x[:1].expand_as(x)), (X,)),
    "tile": (lambda x: (x.tile(2), x.repeat_interleave(2, 1)), (X,)),
    "cat": (
        lambda x, y: (torch.cat([x, y]), torch.cat([x, y], 1), torch.stack([x, y], 1), torch.hstack([x, y])),
        (X, Y),
    ),
    "cat_promotes": (lambda x, n: torch.cat([x, n]), (X, WHOLE)),
    "slices": (lambda x: (x[1:], x[:, ::2], x[-1], x[..., 1], x[1, 2], x[None, :, 1:3], x[:, -2:]), (X,)),
    "splits": (lambda x: (*x.split(2, 1), *x.chunk(3, 0), *x.split([1, 3], 1), *x.unbind(0), x.narrow(1, 1, 2)), (X,)),
    "flip_roll": (lambda x: (x.flip(1), x.flip(0, 1), x.roll(1, 0), x.roll((1, 2), (0, 1)), x.roll(3)), (X,)),
    "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-1)), (X,)),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), (seeded(3), seeded(4))),
    "diagonal_by_decomposition": (lambda x: torch.eye(4) * x[0] + torch.zeros(4, 4), (X,)),
    # elements by position
    "embedding": (F.embedding, (ints(2, 3), seeded(5, 4))),
    "gather": (lambda x, i: x.gather(1, i), (X, ints(3, 2, high=4))),
    "index_select": (lambda x, i: x.index_select(1, i), (X, torch.tensor([2, 0]))),
    "take_along_dim": (lambda x: torch.take_along_dim(x, x.argsort(1), 1), (X,)),
    "index": (
        lambda x, i, j: (x[i], x[:, j], x[i, j], x[i[:, None], j]),
        (X, torch.tensor([2, 0]), torch.tensor([1, 3])),
    ),
    "index_of_inner_axes": (lambda x, i: (x[:, i, i], x[:, i, :, i]), (IMAGE, torch.tensor([1, 3]))),
    "scatter": (
        lambda x, i, y: (x.scatter(1, i, y), x.scatter(1, i, 2.0), x.scatter_add(0, i, y)),
        (X, ints(3, 2, high=3), Y),
    ),
    "index_put": (lambda x, i, v: x.index_put((i,), v), (X, torch.tensor([2, 0]), seeded(2, 4))),
    "one_hot": (lambda n: F.one_hot(n, 5), (ints(3),)),
    # creation
    "arange": (lambda x: x + torch.arange(4) + torch.arange(1, 5) + torch.arange(0, 2, 0.5), (X,)),
    "full": (lambda x: x + torch.full((3, 4), 2.0) + torch.zeros(4) + torch.ones(3, 1) + torch.linspace(0, 1, 4), (X,)),
    "likes": (
        lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3), x.new_zeros(2), x.new_ones(2)),
        (X,),
    ),
    "casts": (lambda x: (x.double(), x.to(torch.int64), x.bool(), x.half().float(), x.int().type_as(x)), (X,)),
    "positions_of_tokens": (lambda n: torch.arange(n.shape[1]).expand(n.shape[0], -1) + n, (WHOLE,)),
    "dropout_in_evaluation": (lambda x: F.dropout(x, 0.5, training=False), (X,)),
    "rotary": (
        lambda q, p: q * torch.cos(p) + torch.cat((-q[..., 4:], q[..., :4]), -1) * torch.sin(p),
        (seeded(2, 3, 8), seeded(3, 8)),
    ),
    # written in place
    "in_place": (lambda x: x.clone().relu_().add_(1).mul_(2.0), (X,)),
    "in_place_through_views": (lambda x: _written(x.clone()), (X,)),
    "in_place_seen_by_views": (lambda x: _seen(x * 2), (X,)),
}


def _written(x: torch.Tensor) -> torch.Tensor:
    x[:, 0] = 1.0
    x[1:].mul_(3)
    x.t()[2].zero_()
    x.view(-1)[0] = 7
    return x


def _seen(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    row, column = x[0], x[:, 1]
    x.add_(1)
    row.mul_(2)
    return x, row, column
