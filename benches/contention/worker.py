"""What the processes of this benchmark load: an engine with a model."""

from __future__ import annotations

from typing import Any

from benches.harness.inputs import read_inputs
from benches.harness.timing import latencies
from benches.harness.worker import Answer
from benches.rivals.engines import BY_PRECISION


def engine(name: str, model: str, threads: int, inputs: str) -> tuple[dict[str, Any], Answer]:
    """Loads the model and runs it once; a question is the seconds of a turn, its answer latencies in ns."""
    run, version = BY_PRECISION["f32"][name](model, read_inputs(inputs), threads)
    run()
    return {"version": version}, lambda seconds: latencies(run, seconds)
