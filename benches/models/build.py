"""Builds the model files that benches run: `python -m benches.models.build` makes those that are missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benches.models import text, vision

FOLDER = Path(__file__).resolve().parents[2] / "build" / "models"

MODELS: dict[str, Callable[[Path], None]] = {
    "resnet50": vision.resnet50,
    "mobilenet_v2": vision.mobilenet_v2,
    "googlenet": vision.googlenet,
    "squeezenet1_1": vision.squeezenet1_1,
    "bert_base_s128": text.bert_base_s128,
    "minilm_s64": text.minilm_s64,
}


def model(name: str) -> str:
    """The path of the model `name`, built now if it is missing."""
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        MODELS[name](part)
        part.replace(path)
    return str(path)


def all_models() -> list[str]:
    """The paths of all models."""
    return [model(name) for name in MODELS]


if __name__ == "__main__":
    print("\n".join(all_models()))
