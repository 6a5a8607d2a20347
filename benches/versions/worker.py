"""A model in a session of one version of the package, whose import name is an argument."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

from benches.harness.inputs import read_inputs
from benches.harness.outputs import arrays, digest
from benches.harness.timing import latencies
from benches.harness.worker import Answer


def session(
    package: str, source: str, model: str, inputs: str, threads: int, precision: str
) -> tuple[dict[str, Any], Answer]:
    """Loads `model` with the version of `package` that lies in the folder `source`, with `threads` for both limits.

    Reports the load time and a hash of the outputs.
    """
    library = importlib.import_module(package)
    assert library.__file__ is not None
    if Path(source) not in Path(library.__file__).parents:
        raise RuntimeError(f"{package} was imported from {library.__file__}, which is not in {source}")
    library.threads.set(intra_op=threads, inter_op=threads)
    feed = read_inputs(inputs)
    start = time.perf_counter()
    run = library.Session(model, precision=precision).run
    loaded = time.perf_counter() - start
    ready = {"load_seconds": loaded, "digest": digest(arrays(run(feed)))}
    return ready, lambda seconds: latencies(lambda: run(feed), seconds)
