"""Cases of non_max_suppression."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, i64, random


def _boxes(key: str, batch: int, count: int, *, center: bool = False) -> np.ndarray:
    """Boxes of which many overlap; corners come in any order."""
    numbers = random(key).random((batch, count, 4)).astype(np.float32)
    if center:
        return numbers * np.array([1, 1, 0.4, 0.4], np.float32)
    first = numbers[..., :2]
    return np.concatenate([first, first + (numbers[..., 2:] - 0.5) * np.float32(0.6)], axis=-1)


def _case(
    name: str, boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float = 0.5, least: float = 0.3,
    *, center: bool = False,
) -> Case:  # fmt: skip
    operands = (boxes, scores, i64(most), np.array([overlap], np.float32), np.array([least], np.float32))
    attrs = {"center": center}
    return Case(f"non_max_suppression/{name}", "non_max_suppression", attrs, operands, frozenset({2, 3, 4}), outputs=2)


def _scores(key: str, *shape: int, levels: int = 0) -> np.ndarray:
    """Numbers in [0, 1), of a few `levels` if there are equal ones."""
    scores = random(key).random(shape).astype(np.float32)
    return np.floor(scores * levels) / np.float32(levels) if levels else scores


CASES = [
    _case("one_class", _boxes("a", 1, 40), _scores("a", 1, 1, 40), 10),
    _case("classes", _boxes("b", 2, 100), _scores("b", 2, 7, 100), 15),
    _case("center", _boxes("c", 1, 64, center=True), _scores("c", 1, 3, 64), 20, 0.3, center=True),
    _case("equal_scores", _boxes("d", 1, 50), _scores("d", 1, 2, 50, levels=3), 50, 0.2, 0.1),
    _case("all_kept", _boxes("e", 1, 30), _scores("e", 1, 1, 30), 100, 1.0, -1.0),
    _case("none_is_high", _boxes("f", 1, 30), _scores("f", 1, 2, 30), 5, 0.5, 2.0),
    _case("none_wanted", _boxes("g", 1, 30), _scores("g", 1, 2, 30), 0),
    _case("negative_number", _boxes("g", 1, 30), _scores("g", 1, 2, 30), -3),
    _case("touching", np.array([[[0, 0, 1, 1], [0, 1, 1, 2], [0, 0, 0, 0], [0, 0, 1, 1]]], np.float32),
          np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32), 4, 0.0, 0.1),
    _case("not_numbers", _boxes("h", 1, 9),
          np.array([[[np.nan, 0.5, 0.9, np.inf, 0.4, 0, np.nan, 1, 0.6]]], np.float32), 9),
    _case("many_boxes", _boxes("i", 1, 1500), _scores("i", 1, 3, 1500), 200, 0.6),
]  # fmt: skip
