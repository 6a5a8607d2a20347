"""The models that packages bring: where each lies in its package, and the inputs that programs give it.

The packages are those of `scripts/test_packages`, which installs them; only the models of those installed are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model of a package.

    Attributes:
        package: The module that brings it.
        path: Where it lies in the folder of the module.
        shapes: The shapes of inputs with open dimensions; integers are below `below`.
        values: Inputs that have to have a certain value.
        below: Where the integers of inputs end.
        quantized: It has 8-bit factors.
    """

    package: str
    path: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    below: int = 30
    quantized: bool = False

    def inputs(self, model: str) -> dict[str, Array]:
        """Seeded inputs of the model file: images show lines of text, other floats are from 0 to 1."""
        import onnx

        rng = np.random.default_rng(0)
        inputs = {}
        for value in onnx.load(model, load_external_data=False).graph.input:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            shape = self.shapes.get(value.name) or [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            if value.name in self.values:
                inputs[value.name] = self.values[value.name]
            elif np.issubdtype(dtype, np.floating):
                inputs[value.name] = (_text(*shape) if len(shape) == 4 else rng.random(shape)).astype(dtype)
            else:
                inputs[value.name] = rng.integers(0, self.below, shape).astype(dtype)
        return inputs


def _text(images: int, channels: int, height: int, width: int) -> Array:
    """White images (1) with lines of black text (-1): of noise alone, detectors give nothing but zeros."""
    import cv2

    image = np.full((height, width), 255, np.uint8)
    for row in range(36, height, 48):
        cv2.putText(image, "one team of threads 12345", (4, row), cv2.FONT_HERSHEY_SIMPLEX, 1.0, 0, 2, cv2.LINE_AA)
    return np.broadcast_to(image / 127.5 - 1, (images, channels, height, width))


_WINDOW = {"input": (1, 576), "state": (2, 1, 128)}
"""What Silero's detector takes at a time: 512 samples after the last 64 before them."""
_RATE = {"sr": np.array(16_000, np.int64)}

PACKAGED: dict[str, Packaged] = {
    "basic_pitch": Packaged(
        "basic_pitch", "saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": (1, 43_844, 1)}
    ),
    "ddddocr_common": Packaged("ddddocr", "common.onnx", {"input1": (1, 1, 64, 200)}),
    "ddddocr_old": Packaged("ddddocr", "common_old.onnx", {"input1": (1, 1, 64, 200)}, quantized=True),
    "ddddocr_det": Packaged("ddddocr", "common_det.onnx"),
    "magika": Packaged("magika", "models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}, below=256),
    "nudenet": Packaged("nudenet", "320n.onnx", {"images": (1, 3, 320, 320)}),
    "piper_hebrew": Packaged("piper", "hebrew/nakdimon.onnx", {"input_1": (1, 60)}),
    "piper_arabic": Packaged(
        "piper",
        "tashkeel/model.onnx",
        {"char_inputs": (1, 60), "diac_inputs": (1, 60)},
        {"input_lengths": np.array([60], np.int64)},
        below=10,
    ),
    "ppocrv4_cls": Packaged("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": (1, 3, 48, 192)}),
    "ppocrv4_det": Packaged("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 736, 1280)}),
    "ppocrv4_rec": Packaged("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    "ppocrv6_det": Packaged("rapidocr", "models/PP-OCRv6_det_small.onnx", {"x": (1, 3, 736, 1280)}),
    "ppocrv6_rec": Packaged("rapidocr", "models/PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 320)}),
    "silero": Packaged("silero_vad", "data/silero_vad.onnx", _WINDOW, _RATE),
    "silero_op15": Packaged("silero_vad", "data/silero_vad_16k_op15.onnx", _WINDOW, _RATE),
    "silero_op18": Packaged("silero_vad", "data/silero_vad_op18_ifless.onnx", _WINDOW, _RATE),
    "silero_half": Packaged("silero_vad", "data/silero_vad_half.onnx", _WINDOW),
    "silero_sequence": Packaged("silero_vad", "data/silero_vad_16k_sequence.onnx", {"input": (40, 576)}),
    "smart_turn": Packaged(
        "pipecat",
        "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
        {"input_features": (1, 80, 800)},
        quantized=True,
    ),
}


def is_installed(name: str) -> bool:
    """Whether the package of a model of PACKAGED is installed."""
    return find_spec(PACKAGED[name].package) is not None


def link(name: str, path: Path) -> None:
    """Make `path` a link to a model of PACKAGED, whose package is installed."""
    model = PACKAGED[name]
    spec = find_spec(model.package)
    assert spec is not None
    assert spec.submodule_search_locations
    path.unlink(missing_ok=True)
    path.symlink_to(Path(spec.submodule_search_locations[0]) / model.path)
