"""Runs a campaign, and goes on where the last one in the same folder ended.

    scripts/campaign [--hours H | --trials N] [--kinds absurd,cuts] [--folder build/campaign]

Workers make trials in batches, each in a process of its own. One that dies, or takes longer than --limit for a trial,
is a fault of that trial; the next worker begins behind it. The folder keeps what was tried and every fault; the table
counts outcomes since the folder was made. Fails if there is a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign.attacks import ATTACKS, IN_CHILDREN

BATCH = 500
"""How many trials a worker makes before the next worker begins, so that leaked memory stays small."""

BATCH_IN_CHILDREN = 25
"""How many it makes of an attack whose trials are processes."""

STRESS_BUILD = ("scripts/native_test", "chaos", "nothing_is_recorded", "treadle_native_stress")
"""Builds the program of the attack by random graphs."""

BEGINS_WITHIN = 300
"""Seconds that a worker may take until its first trial: it collects the node cases of the onnx package."""

_LOOKS = 0.2
"""Seconds from one look at a worker to the next."""


@dataclass
class Progress:
    """What a folder keeps of a kind: the next number, how often each outcome came, and the faults."""

    next: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def fault(self, number: int, label: str, what: str) -> None:
        """Adds a fault of trial `number`."""
        self.outcomes["FAULT"] += 1
        self.faults.append({"number": number, "label": label, "what": what})


def lines(log: Path) -> list[dict[str, Any]]:
    """Returns the whole lines of a worker's log."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def run_worker(kind: str, first: int, count: int, log: Path, limit: float) -> str:
    """Runs a worker to its end, and removes its temporary files. Returns what ended it before, or nothing."""
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.campaign.worker", kind, str(first), str(count), str(log)]
    with (
        tempfile.TemporaryDirectory(prefix="treadle-campaign-", ignore_cleanup_errors=True) as temporary,
        subprocess.Popen(
            command,
            env=os.environ | {"TMPDIR": temporary},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as worker,
    ):
        size, since = -1, time.monotonic()
        while worker.poll() is None:
            time.sleep(_LOOKS)
            now = log.stat().st_size if log.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > (limit if log.exists() else limit + BEGINS_WITHIN):
                worker.kill()
                worker.communicate()
                return f"it took longer than {limit:g} s"
        _, said = worker.communicate()
    return "" if worker.returncode == 0 else f"it ended with {worker.returncode}: {said[-400:]}"


def batch(kind: str, count: int, progress: Progress, log: Path, limit: float) -> None:
    """Makes the next trials, up to `count`, and adds them to `progress`."""
    ended = run_worker(kind, progress.next, count, log, limit)
    label, open_number = "", None
    for line in lines(log):
        if "label" in line:
            label, open_number = line["label"], line["number"]
            continue
        found, open_number = line["outcome"], None
        if found.startswith("FAULT"):
            progress.fault(line["number"], label, found)
        else:
            progress.outcomes[found] += 1
        progress.next = line["number"] + 1
    if ended and open_number is None:
        raise SystemExit(f"a worker for {kind} could not begin: {ended}")
    if ended:
        progress.fault(open_number or 0, label, ended)
        progress.next = (open_number or 0) + 1


def stored(folder: Path, kind: str) -> Progress:
    """Returns the progress that the folder has."""
    path = folder / f"{kind}.json"
    if not path.exists():
        return Progress()
    data = json.loads(path.read_text(encoding="utf-8"))
    return Progress(data["next"], Counter(data["outcomes"]), data["faults"])


def store(folder: Path, kind: str, progress: Progress) -> None:
    """Writes the progress to the folder."""
    data = {"next": progress.next, "outcomes": progress.outcomes, "faults": progress.faults}
    (folder / f"{kind}.json").write_text(json.dumps(data, indent=1), encoding="utf-8")


def table(found: dict[str, Progress]) -> Iterator[str]:
    """Yields the lines of the report."""
    yield "| kind | trials | results | errors of treadle's | faults |"
    yield "| --- | --- | --- | --- | --- |"
    for kind, progress in found.items():
        total, ok, faults = progress.outcomes.total(), progress.outcomes["ok"], progress.outcomes["FAULT"]
        yield f"| {kind} | {total} | {ok} | {total - ok - faults} | {faults} |"
    for kind, progress in found.items():
        yield from (f"{kind} {each['number']} ({each['label']}): {each['what']}" for each in progress.faults)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the campaign. Returns 1 if the folder has a fault, else 0."""
    options = argparse.ArgumentParser(prog="scripts/campaign", description=(__doc__ or "").splitlines()[0])
    options.add_argument("--hours", type=float, default=None, help="in all; default: one batch of each kind")
    options.add_argument("--trials", type=int, default=BATCH, help="of each kind, without --hours")
    options.add_argument("--kinds", default=",".join(ATTACKS), help="by comma; default: all")
    options.add_argument("--folder", type=Path, default=Path("build/campaign"))
    options.add_argument("--limit", type=float, default=60.0, help="seconds of one trial")
    chosen = options.parse_args(arguments)
    kinds = chosen.kinds.split(",")
    if not set(kinds) <= set(ATTACKS):
        options.error(f"--kinds: wanted any of {', '.join(ATTACKS)}, got {chosen.kinds}")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    found = {kind: stored(chosen.folder, kind) for kind in kinds}
    if "graphs" in kinds:
        subprocess.run(STRESS_BUILD, check=True, stdout=subprocess.DEVNULL)
    end = None if chosen.hours is None else time.monotonic() + 3600 * chosen.hours
    last = {kind: progress.next + chosen.trials for kind, progress in found.items()}
    while True:
        left = [kind for kind in kinds if end is not None or found[kind].next < last[kind]]
        if not left or (end is not None and time.monotonic() >= end):
            break
        for kind in left:
            most = BATCH_IN_CHILDREN if kind in IN_CHILDREN else BATCH
            count = most if end is not None else min(most, last[kind] - found[kind].next)
            batch(kind, count, found[kind], chosen.folder / "log", chosen.limit)
            store(chosen.folder, kind, found[kind])
    sys.stdout.writelines(f"{line}\n" for line in table(found))
    return int(any(progress.faults for progress in found.values()))


if __name__ == "__main__":
    sys.exit(main())
