"""Tries mutants one after another, in a process that may die: `python -m tests.campaign.worker KIND FIRST COUNT LOG`.

Each has two lines in the log, of JSON: its number and label before it is tried, its outcome and its seconds after.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import treadle
from tests.campaign.mutants import Array, Mutant, mutant
from tests.limited_memory import limit_memory

MEMORY = 4 << 30
"""Bytes that a worker may take."""

TIMEOUT = 2.0
"""Of each run, in seconds."""


def outcome(tried: Mutant) -> str:
    """Returns `ok`, the class of treadle's error, or what is wrong, which begins with `FAULT`."""
    try:
        session = treadle.Session(tried.content)
        first = session.run(tried.feeds, timeout=TIMEOUT)
        second = session.run(tried.feeds, timeout=TIMEOUT)
    except treadle.errors.TreadleError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - any other class is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"FAULT {type(error).__name__}: {error!s:.200} ({Path(place.filename).name}:{place.lineno})"
    return "ok" if tried.is_random or same(first, second) else "FAULT two runs differ"


def same(first: Mapping[str, object], second: Mapping[str, object]) -> bool:
    """Returns whether all results have the same bits; those that are no arrays are not compared."""
    return all(_bits(first[name]) == _bits(second[name]) for name in first)


def _bits(value: object) -> bytes:
    array: Array | None = value if isinstance(value, np.ndarray) and value.dtype != object else None
    return b"" if array is None else array.tobytes()


def main(kind: str, first: int, count: int, log: Path) -> None:
    """Tries `count` mutants from number `first` on."""
    os.environ["TREADLE_CACHE"] = "off"
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    mutant(kind, first)
    limit_memory(MEMORY)
    with log.open("a", encoding="utf-8") as file:
        for number in range(first, first + count):
            tried = mutant(kind, number)
            print(json.dumps({"number": number, "label": tried.label}), file=file, flush=True)
            begin = time.monotonic()
            found = outcome(tried)
            seconds = round(time.monotonic() - begin, 2)
            print(json.dumps({"number": number, "outcome": found, "seconds": seconds}), file=file, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
