"""The cost model's view of a machine: what arithmetic, memory and threads cost on it, in ns and bytes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from treadle.errors import MachineFileError
from treadle.records import dataclass

FOLDER = Path(__file__).parent.parent / "machines"
"""The files of the package: one for each kind of CPU, and a generic one for each instruction set."""

GENERIC = {"avx512": "generic-avx512", "avx2": "generic-avx2", "generic": "generic"}
"""Instruction set -> the model of CPUs that have no file of their own."""

_CHUNK_MULTIPLY_ADDS = 60_000
"""What a chunk of a long op is worth, in vector multiply-adds: a worker begins a chunk with arithmetic and memory
traffic of its own, which a faster machine does faster. So an op has as many chunks on a machine that is faster in
everything."""

_ADVICE = "correct the file, or write one with `python -m benches.calibrate`"


@dataclass(frozen=True, slots=True)
class MachineModel:
    """What passes assume of a kind of CPU. Times are in ns, sizes in bytes, bandwidths in bytes a ns of one core.

    A figure is what kernels can expect, not a peak: `machines/README.md` says how each is measured. Sizes of caches and
    vector registers are those of `Target`. No pass reads `load_ns`, `store_ns`, `l2_latency_ns`, `chunk_ns`,
    `line_ns` and `unpark_ns`; the scheduler of the native core gets `wake_ns`, `unpark_ns` and `line_ns`.

    Attributes:
        name: The name of the file without its suffix.
        isa: The instruction set that the figures hold for.
        fma_ns: From one vector multiply-add to the next, where all units are busy.
        fma_latency_ns: From the operands of a multiply-add to its result.
        load_ns: From one vector load to the next, from L1.
        store_ns: From one vector store to the next, to L1.
        l2_latency_ns: Of a load from L2.
        l3_latency_ns: Of a load from L3.
        memory_latency_ns: Of a load from memory.
        l3_share: The part of L3 that one process can count on, 0 to 1: other programs, and other guests, use it too.
        l2_bytes_per_ns: Reading L2.
        l3_bytes_per_ns: Reading and writing L3, bytes of both counted, while other cores do not.
        l3_shared_bytes_per_ns: The same while all cores do.
        memory_bytes_per_ns: Reading and writing memory, while other cores do not.
        memory_shared_bytes_per_ns: The same while all cores do.
        stream_share: The part of `memory_bytes_per_ns` at which a core reads memory in order, 0 to 1. Several streams
            read the rest where CPUs prefetch each of them too late.
        call_ns: Calling a kernel.
        chunk_ns: Drawing a chunk that no other worker draws at the time.
        line_ns: Reading a cache line that another core has written.
        wake_ns: From the end of a task to the beginning of the next one on a worker that waits for it without sleeping.
        unpark_ns: The same for a worker that sleeps.
    """

    name: str
    isa: str
    fma_ns: float
    fma_latency_ns: float
    load_ns: float
    store_ns: float
    l2_latency_ns: float
    l3_latency_ns: float
    memory_latency_ns: float
    l3_share: float
    l2_bytes_per_ns: float
    l3_bytes_per_ns: float
    l3_shared_bytes_per_ns: float
    memory_bytes_per_ns: float
    memory_shared_bytes_per_ns: float
    stream_share: float
    call_ns: float
    chunk_ns: float
    line_ns: float
    wake_ns: float
    unpark_ns: float

    @property
    def flops_per_lane_ns(self) -> float:
        """Floating-point operations of one lane in a ns."""
        return 2.0 / self.fma_ns

    @property
    def usual_chunk_ns(self) -> float:
        """What a chunk of a long op is worth: far above the cost of drawing it, far below the op's."""
        return _CHUNK_MULTIPLY_ADDS * self.fma_ns

    @property
    def sums_in_flight(self) -> int:
        """Independent sums that hide the latency of a multiply-add."""
        return round(self.fma_latency_ns / self.fma_ns)

    @property
    def bytes_in_flight(self) -> int:
        """How many bytes a stream asks memory for before the first of them arrive, so that memory is always busy.

        That is latency times bandwidth (Little's law).
        """
        return math.ceil(self.memory_latency_ns * self.memory_bytes_per_ns)


FIGURES = tuple(field.name for field in fields(MachineModel) if field.type == "float")
"""The figures of a file, in order."""


def path_of(name: str) -> Path:
    """Returns the file of a model: one of the package, or `name` itself if that is a path (it ends in .toml)."""
    return Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"


def digest_of(name: str) -> str:
    """Returns a hash of the file of the model `name`, as `path_of` takes it. Raises MachineFileError."""
    return _digest(_content(name))


@lru_cache(maxsize=16)
def machine_model(name: str, digest: str = "") -> MachineModel:
    """Returns the model `name`, as `path_of` takes it.

    Raises MachineFileError if its file cannot be used, or has another digest than `digest`, if one is given.
    """
    content = _content(name)
    if digest and _digest(content) != digest:
        raise MachineFileError(f"machine {name!r}: its file has changed since this process read it; start it again")
    return parse(content, str(path_of(name)))


def _content(name: str) -> bytes:
    try:
        return path_of(name).read_bytes()
    except OSError as error:
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.toml")))
        raise MachineFileError(
            f"machine {name!r}: wanted a .toml file or one of {known}, got {error.strerror}; "
            "correct TREADLE_MACHINE or unset it"
        ) from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def parse(content: bytes, file: str) -> MachineModel:
    """Returns the model that `content` describes. Raises MachineFileError, which names `file` and what is wrong."""
    import tomllib  # takes longer than loading a small compiled model, which needs no figures

    def fault(where: str, wanted: str, came: Any) -> MachineFileError:
        return MachineFileError(f"machine file {file!r}, {where}: wanted {wanted}, got {came!r}; {_ADVICE}")

    try:
        data = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MachineFileError(f"machine file {file!r}: wanted TOML, got {error}; {_ADVICE}") from None
    return _model(data, fault, Path(file).stem)


def _model(data: dict[str, Any], fault: Callable[[str, str, Any], MachineFileError], name: str) -> MachineModel:
    isa, sources, figures = data.get("isa"), data.get("sources"), data.get("figures")
    if not isinstance(isa, str) or isa not in GENERIC:
        raise fault("isa", f"one of {', '.join(GENERIC)}", isa)
    if not isinstance(sources, dict) or not all(isinstance(text, str) for text in sources.values()):
        raise fault("[sources]", "texts that say where figures are from", sources)
    if not isinstance(figures, dict):
        raise fault("[figures]", "figures", figures)
    unknown = sorted(data.keys() - {"isa", "sources", "figures"})
    wrong = unknown or sorted(figures.keys() ^ set(FIGURES))
    if wrong:
        raise fault("names", f"isa, [sources], and [figures] with {', '.join(FIGURES)}", ", ".join(wrong))
    for which, figure in figures.items():
        if not isinstance(figure, list) or len(figure) != 2 or str(figure[1]) not in sources:
            raise fault(which, f"[number, one of {', '.join(sources)}]", figure)
        most = 1.0 if which.endswith("_share") else 1e9
        if type(figure[0]) not in (int, float) or not 0 < figure[0] <= most:
            raise fault(which, f"a number above 0 and at most {most:g}", figure[0])
    return MachineModel(name, isa, **{figure: float(number) for figure, (number, _) in figures.items()})
