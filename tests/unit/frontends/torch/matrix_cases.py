"""Small matrices, groups of rows, windows: what filters, recommenders and geometry compute."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it

from tests.unit.frontends.torch.op_cases import Case, ints, seeded

SQUARES = seeded(2, 4, 4) + 4 * torch.eye(4)
POSITIVE = SQUARES @ SQUARES.mT
X, BAGS = seeded(3, 4), ints(2, 6, high=10)


MAXIMA = ints(2, 3, 8, 9, high=4).float()
MAXIMA[0, :, 2:4, 3:5], MAXIMA[1, 0], MAXIMA[1, 1, 5] = torch.nan, -torch.inf, torch.inf


def put(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    changed = x.clone()
    changed[mask] = values
    return changed


def solved(a: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.linalg.solve(a, y), torch.linalg.solve(a, y[..., 0]), torch.linalg.solve(a, y.mT, left=False),
        torch.linalg.solve(a[0], y), torch.linalg.solve_triangular(a, y, upper=True),
        torch.linalg.solve_triangular(a, y, upper=False, unitriangular=True),
        torch.cholesky_solve(y, torch.linalg.cholesky(a @ a.mT)), torch.linalg.solve(a[0], y[0, :, 0]),
    )  # fmt: skip


def bags(table: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    flat, begins = indices.view(-1), torch.tensor([0, 3, 3, 9])
    weights = torch.linspace(0, 1, 12).view(2, 6)
    return (
        F.embedding_bag(indices, table, mode="sum"), F.embedding_bag(indices, table),
        F.embedding_bag(flat, table, begins),
        F.embedding_bag(indices, table, mode="max"), F.embedding_bag(flat, table, begins, mode="max"),
        F.embedding_bag(indices, table, mode="sum", per_sample_weights=weights),
        F.embedding_bag(indices, table, padding_idx=2), F.embedding_bag(flat, table, begins, mode="max", padding_idx=2),
        F.embedding_bag(flat, table, begins, padding_idx=-8),
        F.embedding_bag(indices, table, mode="max", padding_idx=-8),
    )  # fmt: skip


def scattered(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    kinds = ("sum", "prod", "mean", "amax", "amin")
    return tuple(x.scatter_reduce(0, at, y, kind, include_self=own) for kind in kinds for own in (True, False))


CASES: dict[str, Case] = {
    "inverses": (lambda a: (torch.inverse(a), torch.linalg.inv(a[0]), torch.linalg.inv(a.double())), (SQUARES,)),
    "determinants": (
        lambda a: (torch.det(a), torch.det(a[0]), torch.logdet(a @ a.mT), *torch.linalg.slogdet(a)), (SQUARES,)
    ),
    "solved": (solved, (SQUARES, seeded(2, 4, 3))),
    "cholesky": (lambda a: (torch.linalg.cholesky(a), torch.linalg.cholesky(a[0], upper=True)), (POSITIVE,)),
    "spectra": (
        lambda a: (torch.linalg.eigvalsh(a), torch.linalg.svdvals(a[:, :3]), torch.linalg.eigh(a)[0]), (POSITIVE,)
    ),
    "matrix_norms": (
        lambda a: (
            *(torch.linalg.matrix_norm(a, p) for p in ("fro", 1, float("inf"), 2)), torch.linalg.vector_norm(a, 0)
        ),
        (SQUARES,),
    ),
    "diagonals": (
        lambda a: (
            a.diagonal(dim1=1, dim2=2), a.diagonal(-1, 2, 0), torch.diag(a[0]), torch.diag_embed(a[0]), a[0].trace()
        ),
        (seeded(3, 4, 4),),
    ),
    "cdist": (
        lambda x, y: tuple(torch.cdist(x, y, p) for p in (2.0, 1.0, float("inf"), 3.0, 0.0)),
        (seeded(2, 5, 3), X[:, :3]),
    ),
    "bags": (bags, (seeded(10, 4), BAGS)),
    "bags_that_begin_anywhere": (
        lambda table, at, begins: F.embedding_bag(at, table, begins, mode="sum", include_last_offset=True),
        (seeded(10, 4), BAGS.view(-1), torch.tensor([0, 5, 5, 12])),
    ),
    "bags_that_end_early": (
        lambda table, at, begins: (
            F.embedding_bag(at, table, begins, mode="sum", include_last_offset=True),
            F.embedding_bag(at, table, torch.tensor([0, 6, 9]), mode="sum", include_last_offset=True),
        ),
        (seeded(10, 4), BAGS.view(-1), torch.tensor([0, 5, 5, 9])),
    ),
    "scatter_reduce": (scattered, (X, ints(3, 4, high=3), seeded(3, 4))),
    "running": (
        lambda x: (x.cumprod(1), *x.cummax(1), *x.cummin(0), x.logcumsumexp(1), *x[0, 0].cummax(0)),
        (seeded(4, 7),),
    ),
    "running_integers": (lambda x: (x.cumprod(0), *x.cummax(1), *x.cummin(1)), (ints(4, 9, high=4),)),
    "running_to_nan": (
        lambda x: (*x.cummax(0), *x.cummin(0), x.logcumsumexp(0)),
        (torch.tensor([1.0, 3, 3, -2, torch.nan, 5, torch.nan, 7]),),
    ),
    "sorted_places": (
        lambda s, v: (
            torch.searchsorted(s, v), torch.searchsorted(s[0], v, right=True), torch.bucketize(v, s[1], out_int32=True),
            torch.searchsorted(s.flip(-1), v, side="right", sorter=torch.tensor([[4, 3, 2, 1, 0]] * 2)),
            torch.searchsorted(s[0], 0.25), torch.bucketize(v.flatten()[:3], s[0], right=True),
        ),
        (torch.tensor([[-1.0, 0, 0, 0.5, 2], [-2, -1, 0.25, 1, 1]]), torch.tensor([[0.0, 3, torch.nan], [1, -2, 0.5]])),
    ),
    "histograms": (
        lambda x: (torch.histc(x, 7, -1, 1), x[0].double().histc(4, 0, 0.5)),
        (torch.cat([seeded(5, 40), torch.tensor([[-1.0, 1, 0.5, 0, 2, torch.nan, torch.inf, -1.5]]).repeat(5, 1)], 1),),
    ),
    "counts_of_numbers": (
        lambda x, w: (torch.bincount(x), torch.bincount(x, w), x.bincount(minlength=20), torch.bincount(x, w.double())),
        (ints(30, high=9), seeded(30)),
    ),
    "modes": (
        lambda x: (*x.mode(1), *x.mode(0, keepdim=True), *x[0, 0].mode(), *x[:, :1].mode(-1)), (ints(4, 9, high=3),)
    ),
    "places_of_maxima": (
        lambda x: (
            *F.max_pool2d(x, 3, 2, 1, return_indices=True), *F.max_pool2d(x[0], (2, 3), return_indices=True),
            *F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True, return_indices=True),
            *F.max_pool1d(x[0], 3, 2, 1, return_indices=True), *F.max_pool3d(x, 2, 1, return_indices=True),
        ),
        (MAXIMA,),
    ),
    "unpooled": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(8, 9)),
        (seeded(2, 3, 8, 9),),
    ),
    "repeated_by_numbers": (
        lambda x, n: (
            torch.repeat_interleave(x, n, 0), torch.repeat_interleave(n), x.repeat_interleave(n, 0, output_size=7)
        ),
        (seeded(4, 3), torch.tensor([1, 0, 4, 2])),
    ),
    "scattered_by_masks": (
        lambda x, m, s: (
            put(x, m, x[m] * 2), put(x, m[:, 0], x[m[:, 0]] + 1), put(x, m[:, 0], s[0]), put(x, m[:, 0], s[:1])
        ),
        (seeded(4, 5), seeded(4, 5) > 0.2, seeded(4, 5)),
    ),
    "masked_scatter": (
        lambda x, m, s: (x.masked_scatter(m, s), x.masked_scatter(m[:, :1], s)),
        (seeded(4, 5), seeded(4, 5) > 0.2, seeded(4, 5)),
    ),
    "middles": (lambda x: (*x.median(1), *x.kthvalue(2, 0, keepdim=True)), (seeded(5, 7),)),
    "windows": (lambda x: (x.unfold(1, 3, 2), x.unfold(-1, 2, 1).mean(-1), x[0].unfold(0, 4, 4)), (seeded(2, 8, 3),)),
    "triangles_of_indices": (
        lambda x: (x[0][tuple(torch.tril_indices(4, 4, -1))], x[0, 0, 0] + torch.triu_indices(3, 4)), (SQUARES,)
    ),
    "grid_sample": (
        lambda x, t: F.grid_sample(x, F.affine_grid(t, [2, 3, 5, 4], align_corners=False), align_corners=False),
        (seeded(2, 3, 6, 6), seeded(2, 2, 3)),
    ),
    "places_where": (lambda x: torch.where(x > 0), (X,)),
}  # fmt: skip
