"""Images and sounds that the programs make themselves."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

LINES = ("one team of threads", "make sense 12345", "Hello World again")


def lines_of_text() -> np.ndarray[Any, Any]:
    """Return a white image, 220 x 640 x 3 bytes, with LINES in black."""
    image = np.full((220, 640, 3), 255, np.uint8)
    for number, line in enumerate(LINES):
        cv2.putText(image, line, (20, 60 + number * 60), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2, cv2.LINE_AA)
    return image


def word(text: str) -> bytes:
    """Return a PNG of 64 x 200 pixels with `text`."""
    image = np.full((64, 200, 3), 255, np.uint8)
    cv2.putText(image, text, (20, 45), cv2.FONT_HERSHEY_SIMPLEX, 1.4, (40, 20, 120), 3, cv2.LINE_AA)
    return cv2.imencode(".png", image)[1].tobytes()


def person() -> np.ndarray[Any, Any]:
    """Return an image of 320 x 320 x 3 bytes with something like a face and shoulders on a grey ground."""
    image = np.full((320, 320, 3), 120, np.uint8)
    skin, dark = (150, 180, 225), (40, 40, 60)
    cv2.ellipse(image, (160, 310), (130, 90), 0, 0, 360, skin, -1)
    cv2.ellipse(image, (160, 140), (70, 95), 0, 0, 360, skin, -1)
    cv2.ellipse(image, (160, 75), (75, 50), 0, 180, 360, dark, -1)
    for x in (132, 188):
        cv2.ellipse(image, (x, 125), (12, 6), 0, 0, 360, (250, 250, 250), -1)
        cv2.circle(image, (x, 125), 5, dark, -1)
    cv2.ellipse(image, (160, 185), (25, 10), 0, 0, 180, (90, 90, 190), -1)
    return cv2.GaussianBlur(image, (5, 5), 0)


def tones(seconds: float, rate: int) -> np.ndarray[Any, Any]:
    """Return float32 samples of a melody of decaying tones with overtones, between -1 and 1."""
    at = np.arange(int(seconds * rate)) / rate
    pitch = 220 * 2 ** (np.floor(at * 2) % 8 / 12)
    wave = sum(np.sin(2 * np.pi * pitch * at * overtone) / overtone for overtone in (1, 2, 3))
    return (0.3 * wave * np.exp(-3 * (at * 2 % 1))).astype(np.float32)
