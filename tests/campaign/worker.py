"""Makes trials one after another, in a process that may die: `python -m tests.campaign.worker KIND FIRST COUNT LOG`.

Each has two lines in the log, of JSON: its number and label before it is tried, its outcome and its seconds after.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from tests.campaign.attacks import ATTACKS, IN_CHILDREN
from tests.campaign.trial import outcome
from tests.limited_memory import limit_memory

MEMORY = 4 << 30
"""Bytes that a worker may take."""


def main(kind: str, first: int, count: int, log: Path) -> None:
    """Tries `count` trials from number `first` on."""
    os.environ["TREADLE_CACHE"] = "off"
    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    attack = ATTACKS[kind]
    attack(first)
    if kind not in IN_CHILDREN:
        limit_memory(MEMORY)
    with log.open("a", encoding="utf-8") as file:
        for number in range(first, first + count):
            trial = attack(number)
            print(json.dumps({"number": number, "label": trial.label}), file=file, flush=True)
            begin = time.monotonic()
            found = outcome(trial.run)
            seconds = round(time.monotonic() - begin, 2)
            print(json.dumps({"number": number, "outcome": found, "seconds": seconds}), file=file, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
