"""Cases of einsum."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _case(name: str, equation: str, *arrays: np.ndarray) -> Case:
    return Case(
        f"einsum/{name}", "einsum", {"equation": equation}, arrays, onnx=OnnxCall("Einsum", {"equation": equation})
    )


CASES = [
    _case("matmul", "ij,jk->ik", floats("a", 5, 9), floats("b", 9, 7)),
    _case("implicit", "ij,jk", floats("a", 5, 9), floats("b", 9, 7)),
    _case("attention_scores", "bqhd,bkhd->bhqk", floats("q", 2, 5, 3, 8), floats("k", 2, 7, 3, 8)),
    _case("attention_values", "bhqk,bkhd->bqhd", floats("p", 2, 3, 5, 7), floats("v", 2, 7, 3, 8)),
    _case("transpose", "ijk->kij", floats("a", 3, 4, 5)),
    _case("sum", "ij->", floats("a", 5, 9)),
    _case("rows_summed", "ij->i", floats("a", 5, 9)),
    _case("diagonal", "ii->i", floats("a", 6, 6)),
    _case("outer", "i,j->ij", floats("a", 5), floats("b", 7)),
    _case("three", "ij,jk,kl->il", floats("a", 2, 3), floats("b", 3, 4), floats("c", 4, 5)),
    _case("batch_dots", "...ij,...jk->...ik", floats("a", 2, 1, 3, 4), floats("b", 5, 4, 6)),
    _case("batch_implicit", "...i,...i", floats("a", 3, 4), floats("b", 3, 4)),
    _case("int64", "ij,j->i", integers("a", -9, 9, 3, 4), integers("b", -9, 9, 4)),
]
