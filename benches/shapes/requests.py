"""Random requests to models with open dimensions, the same in every process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def texts(rng: np.random.Generator, batch: int, length: int) -> dict[str, Array]:
    """Token numbers of `batch` texts, the longest of `length` tokens, with a mask of what is no padding."""
    lengths = rng.integers(1, length + 1, (batch, 1))
    lengths[0] = length
    mask = (np.arange(length) < lengths).astype(np.int64)
    tokens = rng.integers(0, 30522, (batch, length)) * mask
    return {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}


def image(rng: np.random.Generator, height: int, width: int) -> dict[str, Array]:
    """One image."""
    return {"image": rng.standard_normal((1, 3, height, width), dtype=np.float32)}


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests to `model`: two sizes, each between bounds; a turn of an engine starts with a run of size `warm_up`."""

    model: str
    bounds: tuple[tuple[int, int], tuple[int, int]]
    warm_up: tuple[int, int]
    inputs: Callable[[np.random.Generator, int, int], dict[str, Array]]

    def sizes(self, count: int) -> list[tuple[int, int]]:
        """`count` different random sizes."""
        (low, high), (least, most) = self.bounds
        numbers = np.random.default_rng(0).choice((high - low + 1) * (most - least + 1), count, replace=False)
        return [(low + int(i) % (high - low + 1), least + int(i) // (high - low + 1)) for i in numbers]

    def feed(self, seed: int, sizes: Sequence[int]) -> dict[str, Array]:
        """Inputs of these sizes, by name."""
        return self.inputs(np.random.default_rng(seed), *sizes)


KINDS = {
    "encoder": Kind("encoder_open", ((1, 8), (5, 256)), (2, 300), texts),
    "detector": Kind("detector_open", ((64, 480), (64, 480)), (500, 500), image),
}
