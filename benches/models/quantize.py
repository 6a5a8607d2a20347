"""Quantizes models with ONNX Runtime, with random data for calibration.

    python -m benches.models.quantize FOLDER MODEL.onnx ...

Writes to FOLDER, under each model's name: `.f32` (prepared, not quantized), `.qdq-s8` (quantize_static's default format
and types, a scale for each output channel), `.qdq-u8` (unsigned activations), `.qop-u8` (QOperator format), `.dynamic`
(quantize_dynamic) and `.f16` (float16, by ONNX Runtime's tools for transformers). Models of an opset before 13 are
converted. Forms that ONNX Runtime itself cannot load are reported and left out. `python -m benches.rivals.compare
--group quantized` makes and times three forms of four models.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from benches.harness.inputs import random_inputs

_OLDEST = 13
"""Before this opset weights cannot have a scale for each output channel."""


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: Path) -> None:
        self._samples: Iterator[dict[str, Any]] = iter([random_inputs(str(model))])

    def get_next(self) -> dict[str, Any] | None:
        return next(self._samples, None)


def _static(format_: Any, activation: Any, *, per_channel: bool) -> Callable[[Path, Path], None]:
    def quantize(source: Path, target: Path) -> None:
        quantize_static(
            source,
            target,
            _Samples(source),
            quant_format=format_,
            activation_type=activation,
            weight_type=QuantType.QInt8,
            per_channel=per_channel,
        )

    return quantize


def _halve(source: Path, target: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


FORMS: dict[str, Callable[[Path, Path], None]] = {
    "qdq-s8": _static(QuantFormat.QDQ, QuantType.QInt8, per_channel=True),
    "qdq-u8": _static(QuantFormat.QDQ, QuantType.QUInt8, per_channel=False),
    "qop-u8": _static(QuantFormat.QOperator, QuantType.QUInt8, per_channel=False),
    "dynamic": quantize_dynamic,
    "f16": _halve,
}


def prepare(source: Path, target: Path) -> None:
    """Infers shapes and applies ONNX Runtime's optimisations, as its documentation advises before quantizing."""
    model = onnx.load(source)
    version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if version < _OLDEST:
        model = onnx.version_converter.convert_version(model, _OLDEST)
    onnx.save(model, target)
    quant_pre_process(target, target, skip_symbolic_shape=True)


def quantize(source: Path, form: str, target: Path) -> None:
    """Writes one of FORMS of the fp32 model `source`."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.onnx"
        prepare(source, plain)
        FORMS[form](plain, target)


def main(folder: Path, models: list[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        plain = folder / f"{model.stem}.f32.onnx"
        prepare(model, plain)
        for name, write in FORMS.items():
            target = folder / f"{model.stem}.{name}.onnx"
            try:
                write(plain, target)
                onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
            except Exception as error:  # noqa: BLE001 - whatever the quantizer raises, the other forms are made
                target.unlink(missing_ok=True)
                print(f"{target.name}: {str(error).splitlines()[0]}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
