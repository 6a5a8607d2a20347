"""einsum: sums of products in Einstein's notation."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from treadle import dtypes
from treadle.errors import DtypeError, ShapeError
from treadle.graph.shape import StaticShape, broadcast, common_dim, text
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import alike, present, result, widened


def parsed(equation: str, operands: int) -> tuple[tuple[str, ...], str]:
    """(terms of the operands, term of the result) of `equation`, the result made explicit.

    `...` stands for leading axes that broadcast. Raises ShapeError if it cannot be read.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = tuple(left.split(","))
    if len(terms) != operands:
        raise ShapeError(f"equation {equation!r} has {len(terms)} operands, got {operands}")
    for term in (*terms, right):
        letters = term.replace("...", "", 1)
        if any(not letter.isascii() or not letter.isalpha() for letter in letters):
            raise ShapeError(f"equation {equation!r}: {term!r} may hold letters and one ... only")
    if not arrow:
        counts = Counter(letter for term in terms for letter in term if letter != ".")
        right = ("..." if "..." in left else "") + "".join(sorted(letter for letter in counts if counts[letter] == 1))
    unknown = set(right) - set(left) - {"."}
    if unknown or len(set(right.replace(".", ""))) != len(right.replace(".", "")):
        raise ShapeError(f"equation {equation!r}: the result must name axes of the operands, each once")
    return terms, right


def einsum_shape(terms: Sequence[str], out: str, shapes: Sequence[StaticShape]) -> StaticShape:
    """The shape of the result. Raises ShapeError if an axis has two sizes or a term does not fit its operand."""
    sizes: dict[str, int] = {}
    leading: StaticShape = ()
    for number, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        before, dots, after = term.partition("...")
        named = len(before) + len(after)
        if named > len(shape) or (not dots and named != len(shape)):
            raise ShapeError(f"operand {number} {text(shape)} does not have the axes of {term!r}")
        if dots:
            leading = broadcast(leading, shape[len(before) : len(shape) - len(after)])
        named_dims = (*shape[: len(before)], *shape[len(shape) - len(after) :])
        for letter, dim in zip(before + after, named_dims, strict=True):
            common = common_dim(sizes.get(letter, 1), dim)
            if common is None:
                raise ShapeError(
                    f"axis {letter!r} has size {sizes[letter]} before, but {dim} in operand {number} {text(shape)}"
                )
            sizes[letter] = common
    before, dots, after = out.partition("...")
    return (*(sizes[c] for c in before), *(leading if dots else ()), *(sizes[c] for c in after))


def infer_einsum(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: equation."""
    dtype, shapes = alike(inputs)
    if not (dtype.is_float or dtype.is_integer):
        raise DtypeError(f"einsum multiplies numbers, got {dtype}")
    terms, out = parsed(attrs["equation"], len(inputs))
    return [result(dtype, einsum_shape(terms, out, shapes))]


def evaluate_einsum(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    operands = [present(arrays, index) for index in range(len(arrays))]
    terms, out = parsed(attrs["equation"], len(operands))
    if "..." in "".join(terms) and "..." not in out:
        # NumPy refuses to sum over `...`, which ONNX allows: the summed axes get to the front instead.
        terms_, kept = terms, "..." + out
        wide = np.einsum(",".join(terms_) + "->" + kept, *(widened(array) for array in operands))
        found = np.sum(wide, axis=tuple(range(wide.ndim - len(out))))
    else:
        found = np.einsum(",".join(terms) + "->" + out, *(widened(array) for array in operands), optimize=True)
    return [np.asarray(found).astype(dtypes.from_numpy(operands[0].dtype).numpy)]
