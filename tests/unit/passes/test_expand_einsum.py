"""Sums of products in Einstein's notation become matrix products."""

import pytest

from treadle import dtypes
from treadle.passes.expand_einsum import ExpandEinsum

CASES = {
    "ij,jk->ik": "matmul",
    "ij,jk": "matmul",
    "bij,bjk->bik": "matmul",
    "bqhd,bkhd->bhqk": "transpose transpose matmul",
    "bhqk,bkhd->bqhd": "transpose matmul transpose",
    "ijk->kij": "transpose",
    "ij->": "reduce_sum",
    "ij->j": "reduce_sum",
    "i,i->": "reshape reshape matmul reshape",
    "i,j->ij": "reshape reshape mul",
    "ij,ij->ij": "mul",
    "bij,b->bij": "reshape mul",
    "ijkl,klm->ijm": "reshape reshape matmul reshape",
    "ij,jk,kl->il": "matmul matmul",
    "ijm,jk->ik": "reduce_sum matmul",
    "ij,j->i": "reshape matmul reshape",
}
SIZES = {"i": 3, "j": 4, "k": 5, "l": 2, "m": 6, "b": 2, "q": 3, "h": 4, "d": 8}


def einsum(write, equation, **other):
    terms = equation.partition("->")[0].split(",")
    inputs = [
        write.input(*({**SIZES, **other}[c] for c in term), name=f"x{number}") for number, term in enumerate(terms)
    ]
    return write.done(write.op("einsum", *inputs, equation=equation))


@pytest.mark.parametrize("equation", CASES)
def test_equations_become_products(write, apply, equation):
    """
    Axes that are summed, shared, or of one operand alone; one operand, two and three.
    """
    assert " ".join(apply(einsum(write, equation), ExpandEinsum())) == CASES[equation]


@pytest.mark.parametrize(
    ("equation", "shapes", "ops"),
    [
        ("...pd,...qd->...pq", [(2, 6, 4), (2, 5, 4)], "transpose matmul"),
        ("...pd,qd->...pq", [(2, 6, 4), (5, 4)], "transpose reshape matmul reshape"),
        ("i...,ij->j...", [(3, 7, 2), (3, 4)], "transpose reshape matmul reshape transpose"),
        ("...d->...", [(2, 6, 4)], "reduce_sum"),
    ],
)
def test_axes_without_a_letter_are_given_one(write, apply, equation, shapes, ops):
    """
    As many as each operand has more than letters; the last ones belong together.
    """
    inputs = [write.input(*shape, name=f"x{number}") for number, shape in enumerate(shapes)]
    assert " ".join(apply(write.done(write.op("einsum", *inputs, equation=equation)), ExpandEinsum())) == ops


@pytest.mark.parametrize("equation", ["ii->i", "ii", "...ii->...i"])
def test_diagonals_stay(write, apply, equation):
    """
    A letter twice in one term.
    """
    terms = equation.partition("->")[0].split(",")
    inputs = [write.input(*(3 for _ in term.replace("...", "z")), name=f"x{n}") for n, term in enumerate(terms)]
    graph = write.done(write.op("einsum", *inputs, equation=equation))

    assert apply(graph, ExpandEinsum()) == ["einsum"]


@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.f16])
def test_other_dtypes_stay(write, apply, dtype):
    """
    Sums of integers and of half floats have another dtype than their factors.
    """
    inputs = [write.input(3, 4, name="x", dtype=dtype), write.input(4, 2, name="y", dtype=dtype)]

    assert apply(write.done(write.op("einsum", *inputs, equation="ij,jk->ik")), ExpandEinsum()) == ["einsum"]


def test_axes_that_broadcast_stay(write, apply):
    """
    Size 1 stands for every size.
    """
    inputs = [write.input(3, 1, name="x"), write.input(4, 2, name="y")]

    assert apply(write.done(write.op("einsum", *inputs, equation="ij,jk->ik")), ExpandEinsum()) == ["einsum"]
