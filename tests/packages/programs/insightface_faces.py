"""Faces by a detector, two networks of attributes and one that embeds, all made here: four sessions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from drawn import person
from graphs import classifier, detector
from insightface.app import FaceAnalysis

_NETWORKS = {
    "det": detector,
    "genderage": lambda: classifier(96, 3, 5),
    "landmarks": lambda: classifier(192, 212, 6),
    "recognition": lambda: classifier(112, 512, 7),
}


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Write and load the models; what is returned finds faces."""
    folder = Path(tempfile.mkdtemp())
    for name, network in _NETWORKS.items():
        (folder / f"{name}.onnx").write_bytes(network().SerializeToString())
    faces = FaceAnalysis(name=str(folder), providers=["CPUExecutionProvider"])
    faces.prepare(ctx_id=-1, det_thresh=0.5, det_size=(320, 320))
    image = person()

    def answers() -> list[tuple[str, float]]:
        found = faces.get(image, max_num=3)
        rows = [("faces", float(len(found)))]
        for face in found:
            rows.append((f"{np.round(face.bbox).tolist()} {face.sex} {face.age}", float(face.det_score)))
            rows += [("embedding", float(number)) for number in face.normed_embedding[:8]]
        return rows

    return answers
