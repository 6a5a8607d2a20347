"""Pipelines of scikit-learn, trained here: text features, scalers, forests, support vectors, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

ROWS = 400


def prepare() -> Callable[[], list[tuple[str, float]]]:
    """Train and convert the models; what is returned classifies some rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, 6)).astype(np.float32)
    labels = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(np.int64) + (x[:, 3] > 1)
    scaler = make_column_transformer((StandardScaler(), [0, 1, 2]), (MinMaxScaler(), [3, 4, 5]))
    models: list[tuple[Any, np.ndarray[Any, Any]]] = [
        (make_pipeline(scaler, LogisticRegression()), labels),
        (RandomForestClassifier(50, random_state=0), labels),
        (make_pipeline(StandardScaler(), SVC(random_state=0)), labels > 0),
        (KNeighborsClassifier(3), labels),
        (GradientBoostingRegressor(random_state=0), labels),
    ]
    sessions = []
    for model, wanted in models:
        model.fit(x, wanted.astype(np.int64))
        converted = to_onnx(model, x[:1], options={"zipmap": False} if hasattr(model, "classes_") else None)
        sessions.append((type(model).__name__, onnxruntime.InferenceSession(converted.SerializeToString())))

    def answers() -> list[tuple[str, float]]:
        found = []
        for name, session in sessions:
            results = session.run(None, {"X": x[:50]})
            labels = results[0].tolist() if results[0].dtype.kind in "iU" else ""
            found.append((f"{name} {labels}", float(np.mean(results[-1][:, 0]))))
        return found

    return answers
