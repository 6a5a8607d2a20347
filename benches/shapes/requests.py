"""Random requests to models with open dimensions, the same in every process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benches.models.text_images import ALIGNED

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


def line(rng: np.random.Generator, height: int, width: int) -> dict[str, Array]:
    """The image of one line of text."""
    return {"line": rng.standard_normal((1, 3, height, width), dtype=np.float32)}


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests to `model`: two sizes, multiples of `step` between bounds.

    An engine's turn starts with a run of others, the next of `warm_ups`: a first size and several second ones.
    """

    model: str
    bounds: tuple[tuple[int, int], tuple[int, int]]
    warm_ups: tuple[int, range]
    inputs: Callable[[np.random.Generator, int, int], dict[str, Array]]
    step: int = 1

    def sizes(self, count: int) -> list[tuple[int, int]]:
        """`count` different random sizes."""
        firsts, seconds = (range(low, high + 1, self.step) for low, high in self.bounds)
        numbers = np.random.default_rng(0).choice(len(firsts) * len(seconds), count, replace=False)
        return [(firsts[int(i) % len(firsts)], seconds[int(i) // len(firsts)]) for i in numbers]

    def warm_up(self, turn: int) -> tuple[int, int]:
        """The sizes of the run before the requests of a turn; no request and few other turns have them."""
        first, seconds = self.warm_ups
        return first, seconds[turn % len(seconds)]

    def feed(self, seed: int, sizes: Sequence[int]) -> dict[str, Array]:
        """Inputs of these sizes, by name."""
        return self.inputs(np.random.default_rng(seed), *sizes)


KINDS = {
    "encoder": Kind("encoder_open", ((1, 8), (5, 256)), (2, range(257, 301)), texts),
    "detector": Kind("detector_open", ((64, 480), (64, 480)), (500, range(481, 501)), image),
    "mobile_detector": Kind(
        "mobile_detector_open", ((64, 800), (64, 800)), (832, range(64, 833, ALIGNED)), image, step=ALIGNED
    ),
    "recogniser": Kind("recogniser_open", ((32, 48), (32, 640)), (48, range(641, 661)), line),
}
