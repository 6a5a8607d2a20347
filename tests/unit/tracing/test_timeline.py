"""Traces: what they hold and what they look like."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.models import small

import treadle
from treadle.errors import InputError, TreadleError
from treadle.tracing.record import Event, record


def nested(events: list[tuple[int, int]]) -> bool:
    """Whether slices (start, end) of one track nest or follow each other, and never overlap partly."""
    open_until: list[int] = []
    for start, end in sorted(events, key=lambda event: (event[0], -event[1])):
        while open_until and open_until[-1] <= start:
            open_until.pop()
        if open_until and end > open_until[-1]:
            return False
        open_until.append(end)
    return True


@pytest.fixture
def traced(tmp_path: Path) -> tuple[list[Event], dict]:
    treadle.threads.set(intra_op=2, inter_op=2)
    session = treadle.Session(small.branches(width=256))
    inputs = {"x": np.ones((16, 256), np.float32)}
    session.run(inputs)
    with treadle.trace(tmp_path / "run.json") as recording:
        for _ in range(20):
            session.run(inputs)
    treadle.threads.set(intra_op=0, inter_op=0)
    return recording.events, json.loads((tmp_path / "run.json").read_text())


def test_slices_on_a_track_nest_and_never_overlap(traced: tuple[list[Event], dict]) -> None:
    """
    Perfetto draws overlapping slices of one track wrongly, so there are none.
    """
    events, _ = traced
    for worker in {event.worker for event in events}:
        assert nested([(event.start, event.end) for event in events if event.worker == worker])


def test_slices_have_the_names_of_the_models_nodes(traced: tuple[list[Event], dict]) -> None:
    """
    A fused step names what it was made of.
    """
    events, _ = traced
    names = {part for event in events for part in event.node.split("+")}

    assert any(name.startswith("matmul") for name in names)


def test_the_file_has_one_track_a_worker(traced: tuple[list[Event], dict]) -> None:
    """
    Every slice lies on a named track, and there is one for each worker that did something.
    """
    events, data = traced
    records = data["traceEvents"]
    tracks = {r["tid"] for r in records if r["ph"] == "M" and r["name"] == "thread_name"}
    slices = [r for r in records if r["ph"] == "X"]

    assert len(slices) == len(events) > 0
    assert {r["tid"] for r in slices} == tracks
    assert len(tracks) == len({event.worker for event in events}) <= 2
    assert all(r["dur"] >= 0 and r["ts"] >= 0 for r in slices)


def test_every_chunk_of_every_run_is_accounted_for(traced: tuple[list[Event], dict]) -> None:
    """
    The workers' chunks of a node add up to the same number in each run.
    """
    events, _ = traced
    chunks: dict[tuple[str, int], int] = {}
    for event in events:
        chunks[event.node, event.run] = chunks.get((event.node, event.run), 0) + event.chunks
    for node in {event.node for event in events}:
        assert len({count for (name, _), count in chunks.items() if name == node}) == 1
    assert len({run for _, run in chunks}) == 20


def test_two_recordings_at_once_are_refused(tmp_path: Path) -> None:
    """
    The second gets an error, and its file stays as it is; the first goes on.
    """
    (tmp_path / "other.json").write_text("what was there")
    with record() as recording:
        with pytest.raises(TreadleError, match="being recorded already"), treadle.trace(tmp_path / "other.json"):
            pass
        assert (tmp_path / "other.json").read_text() == "what was there"
        treadle.Session(small.add()).run({name: np.ones((2, 3), np.float32) for name in "ab"})

    assert recording.events


def test_a_trace_serves_any_number_of_blocks(tmp_path: Path) -> None:
    """
    One after another, also after one that failed and as a decorator; each records anew, and the file has the last.
    """
    session, inputs = treadle.Session(small.add()), {name: np.ones((2, 3), np.float32) for name in "ab"}
    trace = treadle.trace(tmp_path / "run.json")
    with pytest.raises(InputError), trace:
        session.run({})
    with trace as first:
        session.run(inputs)
        with pytest.raises(TreadleError, match="being recorded already"), trace:
            pass
    with trace as second:
        session.run(inputs)
        session.run(inputs)
    assert {event.run for event in first.events}.isdisjoint(event.run for event in second.events)
    assert len({event.run for event in second.events}) == 2

    trace(session.run)(inputs)
    slices = [item for item in json.loads((tmp_path / "run.json").read_text())["traceEvents"] if item["ph"] == "X"]
    assert len({item["args"]["run"] for item in slices}) == 1


def test_an_unwritable_path_is_refused_before_the_run(tmp_path: Path) -> None:
    """
    Nothing is recorded for a file that cannot be written.
    """
    ran = []
    with pytest.raises(OSError, match="missing"), treadle.trace(tmp_path / "missing" / "run.json"):
        ran.append(True)

    assert not ran


@pytest.mark.parametrize("path", [None, 1, b"run.json", "run\0.json"])
def test_an_argument_that_is_no_path_is_refused(path: object) -> None:
    """
    By an error of treadle's, before anything is recorded.
    """
    with pytest.raises(InputError, match=r"trace\(path\): wanted the path of a file"), treadle.trace(path):  # type: ignore[arg-type]
        pass
    with record():
        pass


def test_a_block_that_raises_writes_the_events_before(tmp_path: Path) -> None:
    """
    The exception comes through, and what ran before it is in the file.
    """
    session = treadle.Session(small.add())
    good, bad = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32)

    def run_both() -> None:
        for a in (good, bad):
            session.run({"a": a, "b": good})

    with pytest.raises(InputError), treadle.trace(tmp_path / "run.json"):
        run_both()

    slices = [
        record for record in json.loads((tmp_path / "run.json").read_text())["traceEvents"] if record["ph"] == "X"
    ]
    assert slices


def test_a_child_forked_during_a_trace_records_its_own(tmp_path: Path) -> None:
    """
    Whichever thread forks. Nothing of its parent's is recorded there, and the parent's file is its own, also where the
    child leaves the parent's block.
    """
    session, inputs = treadle.Session(small.branches()), {"x": np.ones((16, 64), np.float32)}
    session.run(inputs)

    def in_child() -> None:
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            with treadle.trace(tmp_path / "child.json") as mine:
                session.run(inputs)
            with pytest.raises(TreadleError, match="already"), record(), record():
                pass
            os._exit(0 if mine.events and (tmp_path / "child.json").stat().st_size else 1)
        ended.append(os.waitpid(child, 0)[1])

    ended: list[int] = []
    with treadle.trace(tmp_path / "parent.json") as recording:
        session.run(inputs)
        parent = os.getpid()
        in_child()
        forking = threading.Thread(target=in_child)
        forking.start()
        forking.join()
        session.run(inputs)
        child = os.fork()
    if os.getpid() != parent:
        os._exit(1 if recording.events else 0)
    ended.append(os.waitpid(child, 0)[1])

    assert ended == [0, 0, 0]
    assert len({event.run for event in recording.events}) == 2
    assert json.loads((tmp_path / "parent.json").read_text())
    with record() as again:
        session.run(inputs)
    assert again.events


def test_a_child_may_use_the_trace_it_was_forked_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    In a block of its own, after which it leaves its parent's.
    """
    session, inputs = treadle.Session(small.add()), {name: np.ones((2, 3), np.float32) for name in "ab"}
    trace, parent, good = treadle.trace("run.json"), os.getpid(), False
    monkeypatch.chdir(tmp_path)
    (tmp_path / "child").mkdir()
    try:
        with trace:
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                os.chdir("child")
                with trace as mine:
                    session.run(inputs)
        good = os.getpid() == parent or bool(mine.events and Path("run.json").stat().st_size)
    finally:
        if os.getpid() != parent:
            os._exit(0 if good else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert json.loads((tmp_path / "run.json").read_text())
