"""Prints the lines of a drawn image, with their scores, by RapidOCR: a detector, a classifier and a recogniser."""

from __future__ import annotations

import json

import cv2
import numpy as np
from rapidocr_onnxruntime import RapidOCR

LINES = ("one team of threads", "make sense 12345", "Hello World again")

image = np.full((220, 640, 3), 255, np.uint8)
for number, line in enumerate(LINES):
    cv2.putText(image, line, (20, 60 + number * 60), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2, cv2.LINE_AA)
found, _ = RapidOCR()(image)
print(json.dumps([[text, float(score)] for _, text, score in found]))
