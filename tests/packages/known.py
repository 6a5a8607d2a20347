"""The packages that are run on treadle, each with its licence and the version that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple


class Package(NamedTuple):
    """What one program needs.

    Attributes:
        module: The module that it imports.
        name: The distribution, with its version.
        licence: Its licence; nothing of it is copied here.
        tolerance: How far scores may be from those with onnxruntime.
        in_python: The ops that run by their reference in Python; all others run natively.
    """

    module: str
    name: str
    licence: str
    tolerance: float = 1e-4
    in_python: frozenset[str] = frozenset()


PACKAGES = {
    "basic_pitch_notes": Package("basic_pitch", "basic-pitch 0.4.0", "Apache-2.0"),
    "chromadb_texts": Package("chromadb", "chromadb 1.5.9", "Apache-2.0"),
    "ddddocr_words": Package("ddddocr", "ddddocr 1.6.1", "MIT"),
    "fastembed_texts": Package("fastembed", "fastembed 0.9.1", "Apache-2.0"),
    "insightface_faces": Package("insightface", "insightface 2.1", "MIT"),
    # onnxruntime's own scores are 1.5e-3 from those of the model in float64, treadle's 6e-6: variances by differences
    "magika_labels": Package("magika", "magika 1.0.3", "Apache-2.0", 2e-3),
    "nudenet_parts": Package("nudenet", "nudenet 3.4.2", "MIT"),
    "optimum_tokens": Package("optimum.onnxruntime", "optimum-onnx 0.1.0", "Apache-2.0"),
    # a model of 8 bits whose last layer has steps of 1e-3: onnxruntime's results with and without its optimisations are
    # 3e-3 apart on CPUs with VNNI, those with and without session.x64quantprecision 9e-3 on others
    "pipecat_turns": Package("pipecat", "pipecat-ai 1.14.0", "BSD-2-Clause", 1e-2),
    "piper_marks": Package("piper", "piper-tts 1.8.0", "GPL-3.0-or-later"),
    "piper_voice": Package("piper", "piper-tts 1.8.0", "GPL-3.0-or-later", in_python=frozenset({"RandomNormalLike"})),
    "rapidocr_lines": Package("rapidocr", "rapidocr 3.10.0", "Apache-2.0"),
    "rapidocr_onnxruntime_lines": Package("rapidocr_onnxruntime", "rapidocr-onnxruntime 1.4.4", "Apache-2.0"),
    "rembg_masks": Package("rembg", "rembg 2.0.86", "MIT"),
    "sentence_transformers_texts": Package("sentence_transformers", "sentence-transformers 5.7.0", "Apache-2.0"),
    "silero_speech": Package("silero_vad", "silero-vad 6.2.3", "MIT"),
    "skl2onnx_pipelines": Package("skl2onnx", "skl2onnx 1.20.0", "Apache-2.0"),
}
"""Program -> the package that it needs."""


def is_installed(module: str) -> bool:
    """Whether `module` can be imported, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False
