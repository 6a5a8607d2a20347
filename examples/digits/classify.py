"""Classifies the held-out digits with treadle: a few shown, the accuracy on all, and who did what when.

python examples/digits/classify.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import treadle
from treadle.cli.output import width
from treadle.cli.timeline import draw

HERE = Path(__file__).parent
SHADES = " .:-=+*#%@"
SHOWN = 6


def show(images: np.ndarray, guesses: np.ndarray) -> None:
    """Print digits side by side, each over what it was taken for."""
    for row in range(8):
        print("   ".join("".join(2 * SHADES[level * 9 // 16] for level in image[row]) for image in images))
    print("   ".join(f"{f'this is a {guess}':^16}" for guess in guesses))


def main() -> None:
    with np.load(HERE / "images.npz") as data:
        levels, labels = data["images"], data["labels"]
    images = (levels / 16.0).astype(np.float32)[:, None]
    session = treadle.Session(HERE / "digits.onnx")
    session.run({"images": images})
    with treadle.trace("digits-trace.json") as recording:
        probabilities = session.run({"images": images})["probabilities"]
    guesses = probabilities.argmax(1)
    show(levels[:SHOWN], guesses[:SHOWN])
    right = int((guesses == labels).sum())
    print(f"\n{right} of {len(labels)} held-out images right ({right / len(labels):.1%})\n")
    print("two Inception blocks, each with four branches that need not wait for each other:")
    print(draw(recording.events, width()))
    print("\nthe same timeline for ui.perfetto.dev: digits-trace.json")


if __name__ == "__main__":
    main()
