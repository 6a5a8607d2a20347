"""Builds the model files of the benchmarks: `python -m benches.models.build` makes those that are missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benches.models import (
    channels_last,
    detectors,
    open_sizes,
    packaged,
    sequence,
    synthetic,
    text,
    text_images,
    vision,
    vision_kinds,
)

FOLDER = Path(__file__).resolve().parents[2] / "build" / "models"


def _quantized(source: str, form: str, path: Path) -> None:
    from benches.models.quantize import quantize

    quantize(Path(model(source)), form, path)


MODELS: dict[str, Callable[[Path], None]] = {
    "resnet50": vision.resnet50,
    "mobilenet_v2": vision.mobilenet_v2,
    "googlenet": vision.googlenet,
    "squeezenet1_1": vision.squeezenet1_1,
    "bert_base_s128": text.bert_base_s128,
    "minilm_s64": text.minilm_s64,
}

KINDS: dict[str, Callable[[Path], None]] = {
    "efficientnet_b0": vision_kinds.efficientnet_b0,
    "densenet121": vision_kinds.densenet121,
    "shufflenet_v2": vision_kinds.shufflenet_v2,
    "resnext50": vision_kinds.resnext50,
    "unet_128": vision_kinds.unet_128,
    "mobilenet_v2_nhwc": channels_last.mobilenet_v2_nhwc,
    "bert_base_s1024": text.bert_base_s1024,
    "whisper_tiny": sequence.whisper_tiny,
    "gpt2_s64": sequence.gpt2_s64,
    "lstm_speech": sequence.lstm_speech,
    "gru_text": sequence.gru_text,
    "embedding_bags": sequence.embedding_bags,
    "ssd_128": detectors.ssd_128,
}

SYNTHETIC: dict[str, Callable[[Path], None]] = {
    "matmuls_64x128": synthetic.matmuls_64x128,
    "matmuls_256x32": synthetic.matmuls_256x32,
    "matmuls_256x64": synthetic.matmuls_256x64,
    "matmul_2048": synthetic.matmul_2048,
    "towers_3x3": synthetic.towers_3x3,
    "chain_1000": synthetic.chain_1000,
    "fan_1000": synthetic.fan_1000,
    "chosen_rows": detectors.chosen_rows,
}

QUANTIZED: dict[str, Callable[[Path], None]] = {
    f"{source}.{form}": partial(_quantized, source, form)
    for source in ("resnet50", "mobilenet_v2", "bert_base_s128", "minilm_s64")
    for form in ("qdq-s8", "qdq-u8", "dynamic")
}
"""Forms of `benches.models.quantize`; ONNX Runtime is needed to make them."""

OPEN: dict[str, Callable[[Path], None]] = {
    "encoder_open": open_sizes.encoder_open,
    "embedder_open": open_sizes.embedder_open,
    "decoder_open": open_sizes.decoder_open,
    "detector_open": open_sizes.detector_open,
    "mobile_detector_open": text_images.mobile_detector_open,
    "recogniser_open": text_images.recogniser_open,
}
"""Models with open dimensions."""

PACKAGES: dict[str, Callable[[Path], None]] = {name: partial(packaged.link, name) for name in packaged.PACKAGED}
"""Models of packages, which `scripts/test_packages` installs."""

GROUPS = {
    "models": MODELS,
    "kinds": KINDS,
    "synthetic": SYNTHETIC,
    "quantized": QUANTIZED,
    "open": OPEN,
    "packages": PACKAGES,
}


def model(name: str) -> str:
    """Returns the path of the model `name`; builds it if it is missing."""
    path = FOLDER / f"{name}.onnx"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = FOLDER / f"{name}.part"
        next(group[name] for group in GROUPS.values() if name in group)(part)
        part.replace(path)
    return str(path)


def is_quantized(path: str) -> bool:
    """Whether a model file is one of QUANTIZED, or of a package with 8-bit factors."""
    name = Path(path).stem
    return name in QUANTIZED or (name in packaged.PACKAGED and packaged.PACKAGED[name].quantized)


def all_models(group: str = "models") -> list[str]:
    """Returns the paths of all models of a group, one of GROUPS; of packages, those that are installed."""
    return [model(name) for name in GROUPS[group] if group != "packages" or packaged.is_installed(name)]


if __name__ == "__main__":
    print("\n".join(all_models()))
