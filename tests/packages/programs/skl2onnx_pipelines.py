"""Pipelines of scikit-learn, trained here: scalers, trees, support vectors, neighbours, networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
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
        (HistGradientBoostingClassifier(max_iter=20, random_state=0), labels),
        (make_pipeline(PCA(4, random_state=0), GaussianNB()), labels),
        (MLPClassifier((24,), max_iter=50, random_state=0), labels),
        (KMeans(4, n_init=1, random_state=0), labels),
    ]
    sessions = []
    for model, wanted in models:
        with warnings.catch_warnings(action="ignore"):  # fifty iterations need not be enough
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
