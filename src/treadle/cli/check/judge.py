"""The process that reads, compiles and runs a model that is not trusted, and reports each stage on stdout."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

import treadle
from treadle import dtypes
from treadle.cli.commands.run import summary
from treadle.cli.model import first_run
from treadle.errors import TreadleError
from treadle.frontends import load
from treadle.graph.formed_model import FormedModel, ObjectInput
from treadle.graph.graph import Graph, all_nodes
from treadle.graph.value import Value

READY = "ready"
"""What it reports before it opens the model: its time begins."""

STAGES = ("read", "compile", "run")
"""In this order; a report names the stage that is complete."""

_NO_WRITES = 0
"""The largest number of bytes that the process may write to a file; pipes have no limit."""

_FILES = 256
"""How many files it may have open: the model, the parts of its weights, and the libraries that are being loaded."""


def judge(path: str, dims: Mapping[str, int], seconds: int, memory: int) -> None:
    """Run all stages for the model at `path` and print a line of JSON after each; then end the process.

    Args:
        path: The model.
        dims: Sizes of open dimensions by name; 1 for others, or large ones if the model does not fit that.
        seconds: CPU time, beyond what loading libraries took, after which the system ends the process.
        memory: Bytes of address space beyond what the process has now.
    """
    _load_libraries()
    _limit(seconds, memory)
    _report(READY)
    try:
        graph = load(path)
        if isinstance(graph, FormedModel):
            _report_objects(graph)
            return
        assert isinstance(graph, Graph), "templates come from files that are programs, which are not judged"
        _report(
            "read",
            inputs=list(map(_row, graph.inputs)),
            outputs=list(map(_row, graph.outputs)),
            ops=dict(Counter(node.op for node in all_nodes(graph)).most_common()),
            constant_bytes=sum(value.data.nbytes for value in graph.constants() if value.data is not None),
            files=sorted(graph.files),
        )
        session = treadle.Session(graph)
        _report("compile", compiles=session.compiles, per_size=str(session.why_per_size() or ""))
        _, results, sizes = first_run(session, {}, dims)
        _report("run", outputs={name: summary(value) for name, value in results.items()}, large_sizes=sizes)
    except TreadleError as error:
        _report("refused", error=type(error).__name__, message=str(error))
    except MemoryError as error:
        _report("refused", error="MemoryError", message=str(error) or "there is no more memory within the limit")
    except Exception as error:  # noqa: BLE001 - whatever it is, the verdict names it
        _report("fault", error=type(error).__name__, message=str(error))
    finally:
        sys.stdout.flush()
        os._exit(0)


def _report_objects(model: FormedModel) -> None:
    """Report a model some of whose inputs are no tensors: no values are known that it would fit."""
    inputs, outputs = list(map(_row, model.inputs)), list(map(_row, model.outputs))
    _report("read", inputs=inputs, outputs=outputs, ops={}, constant_bytes=0, files=[])
    objects = ", ".join(f"{each.name!r} ({each.type})" for each in model.inputs if isinstance(each, ObjectInput))
    _report("inputs", message=f"no values can be made up for its inputs that are no tensors of core values: {objects}")


def _load_libraries() -> None:
    """Load the code generator and its libraries, whose memory is not the model's, by running a model of one node."""
    graph = Graph()
    graph.outputs = graph.add("neg", [graph.input("x", dtypes.f32, (1,))]).outputs
    treadle.Session(graph).run({"x": np.zeros(1, np.float32)})


def _limit(seconds: int, memory: int) -> None:
    """Let the system bound this process; no limit can be raised again.

    The hard limit of CPU time is a second later: at the first the process ends by SIGXCPU, which nothing else sends.
    """
    used = ceil(time.process_time())
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the system
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    for limit, most in (
        (resource.RLIMIT_AS, mapped + memory),
        (resource.RLIMIT_CPU, used + seconds),
        (resource.RLIMIT_FSIZE, _NO_WRITES),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        later = bound + 1 if limit == resource.RLIMIT_CPU and bound != hard else bound
        resource.setrlimit(limit, (bound, later))


def _report(stage: str, **facts: Any) -> None:
    sys.stdout.write(json.dumps({"stage": stage, **facts}) + "\n")
    sys.stdout.flush()


def _row(declared: Value | ObjectInput | tuple[str, str]) -> list[Any]:
    """Name, type and shape of an input or output."""
    if isinstance(declared, Value):
        return [declared.name, str(declared.dtype), _dims(declared.shape)]
    return [declared.name, declared.type, None] if isinstance(declared, ObjectInput) else [*declared, None]


def _dims(shape: Any) -> list[int | str] | None:
    return None if shape is None else [dim if isinstance(dim, int) else str(dim) for dim in shape]
