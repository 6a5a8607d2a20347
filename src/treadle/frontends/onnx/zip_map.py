"""ZipMap of ai.onnx.ml, which skl2onnx puts behind classifiers: maps from class labels to scores."""

from collections.abc import Sequence

from treadle.errors import RunError
from treadle.ops.op import Array


class ZipMap:
    """Makes a list of dicts from scores [rows, classes], or [classes] of one row.

    Calls raise RunError unless there is a score for each of the `labels`.
    """

    def __init__(self, labels: Sequence[int] | Sequence[str]) -> None:
        self._labels: tuple[int | str, ...] = tuple(labels)

    def __call__(self, arrays: Sequence[Array]) -> list[dict[int | str, float]]:
        """The maps, one for each row."""
        (scores,) = arrays
        rows = scores.reshape(1, -1) if scores.ndim == 1 else scores
        if rows.ndim != 2 or rows.shape[1] != len(self._labels):
            raise RunError(f"ZipMap: wanted scores of {len(self._labels)} classes, got shape {list(scores.shape)}")
        return [dict(zip(self._labels, row, strict=True)) for row in rows.tolist()]
