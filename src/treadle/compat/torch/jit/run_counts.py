"""How many native runs the calls of a script took, and how many plans were compiled for them."""

from __future__ import annotations

from weakref import WeakSet

from treadle import forking
from treadle.compat.torch.replay import Replay
from treadle.compile import Session


class RunCounts:
    """The counts of one script. Threads may share it."""

    def __init__(self) -> None:
        self._sessions: WeakSet[Session] = WeakSet()
        self._lock = forking.lock()
        self.native_runs = 0

    @property
    def compiles(self) -> int:
        """The plans compiled for what has run."""
        with self._lock:
            return sum(session.compiles for session in self._sessions)

    def add(self, *sessions: Session) -> None:
        """Count a run of each session."""
        with self._lock:
            self._sessions.update(sessions)
            self.native_runs += len(sessions)

    def note(self, replay: Replay) -> None:
        """Count the plans of a replay that is kept."""
        if replay.session is not None:
            with self._lock:
                self._sessions.add(replay.session)

    def add_replay(self, replay: Replay) -> None:
        """Count the run of a noted replay, if it has one."""
        if replay.session is not None:
            with self._lock:
                self.native_runs += 1


class Counted:
    """Something that is called and says what its calls took."""

    _run_counts: RunCounts

    @property
    def native_runs(self) -> int:
        """How many native runs the calls so far took: one each, unless Python stands between their parts."""
        return self._run_counts.native_runs

    @property
    def compiles(self) -> int:
        """How many plans were compiled for the calls so far, also if other scripts run the same."""
        return self._run_counts.compiles
