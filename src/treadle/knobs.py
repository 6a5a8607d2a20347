"""Every TREADLE_* environment variable: name, type, default and meaning, in one table.

`get` reads the environment at each call, so a test or a program may change it. `runtime.threads` reads the thread
settings (TREADLE_INTRA_OP_THREADS, TREADLE_INTER_OP_THREADS, TREADLE_SPIN_US, TREADLE_CPUS), which have a precedence
among variables of OpenMP and MKL.
"""

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from treadle.errors import KnobError
from treadle.optimisations import OPTIMISATIONS


class Knob(NamedTuple):
    """An environment variable. `parse` returns the value of its text or raises ValueError."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    wanted: str
    doc: str


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return parse


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text) or int(text) < least:
            raise ValueError(text)
        return int(text)

    return parse


def _names(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(","))
    if not names <= OPTIMISATIONS.keys():
        raise ValueError(text)
    return names


def _folder(text: str) -> str:
    return "off" if text.strip().lower() == "off" else text


def _cache_sizes(text: str) -> tuple[int, int, int]:
    sizes = [re.fullmatch(r"\s*([1-9][0-9]{0,8})([KM])\s*", part) for part in text.split(",")]
    l1, l2, l3 = (int(size[1]) << {"K": 10, "M": 20}[size[2]] if size else 0 for size in sizes)
    if not 0 < l1 <= l2 <= l3:
        raise ValueError(text)
    return l1, l2, l3


def _machine(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]+|.*\.toml", text):
        raise ValueError(text)
    return text


_ISAS = ("avx512", "avx2", "generic")

KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("TREADLE_ISA", None, _one_of(*_ISAS), "one of " + ", ".join(_ISAS),
             "Generate code for this instruction set at most, as if the CPU had no better one."),
        Knob("TREADLE_CACHES", None, _cache_sizes, "sizes of the L1, L2 and L3 data caches, such as 32K,512K,32M",
             "Choose kernels for caches of these sizes: for virtual machines that report wrong ones."),
        Knob("TREADLE_MACHINE", None, _machine, "a name such as zen3, or the path of a .toml file",
             "Choose kernels by this machine model instead of the CPU's own."),
        Knob("TREADLE_CACHE", None, _folder, "a folder, or `off`",
             "Folder of compiled kernels and models; `off` keeps none. Default: ~/.cache/treadle."),
        Knob("TREADLE_CACHE_MB", 4096, _whole(0), "MiB, 0 or more",
             "How much that folder may hold; what was not used for longest is dropped."),
        Knob("TREADLE_OUT_OF_PROCESS", "on", _one_of("on", "off"), "on or off",
             "Compile large models out of process: a child writes artifacts into that folder, and ends soon after."),
        Knob("TREADLE_DEBUG", 0, _whole(0), "0 or more",
             "1: verify the graph after every pass; 2: also print graphs that changed to stderr."),
        Knob("TREADLE_DISABLE", None, _names, "names of `treadle.optimisations` by comma",
             "Leave these optimisations out, to measure what each brings or to narrow a fault down."),
        Knob("TREADLE_PARALLEL_BACKEND", "native", _one_of("native", "openmp", "tbb"), "native, openmp or tbb",
             "What runs the loops inside ops; fixed by the first run."),
        Knob("TREADLE_MATMUL_PROVIDER", "treadle", _one_of("treadle", "openblas", "mkl", "onednn"),
             "treadle, openblas, mkl or onednn", "Who multiplies f32 and f64 matrices, in sessions that do not say."),
        Knob("TREADLE_PLAN_CACHE", 16, _whole(1), "1 or more",
             "How many plans (one for each combination of input shapes) a session keeps."),
        Knob("TREADLE_OUTPUTS_MB", 128, _whole(0), "MiB, 0 or more",
             "How much memory of earlier outputs the process keeps for later runs; 0 keeps none."),
    )
}  # fmt: skip


def get(name: str) -> Any:
    """Return the value of the knob `name`: the environment's, else its default.

    Raises KnobError if the environment's value cannot be used, KeyError for an unknown knob.
    """
    knob = KNOBS[name]
    text = os.environ.get(name)
    if text is None or text == "":
        return knob.default
    try:
        return knob.parse(text)
    except ValueError:
        raise KnobError(
            f"environment variable {name}: wanted {knob.wanted}, got {text!r}; correct it or unset it ({knob.doc})"
        ) from None


def is_enabled(optimisation: str) -> bool:
    """Returns False if TREADLE_DISABLE names the optimisation."""
    assert optimisation in OPTIMISATIONS, optimisation
    return optimisation not in (get("TREADLE_DISABLE") or ())
