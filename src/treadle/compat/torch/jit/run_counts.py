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
        """The plans compiled for what it has run, also if other scripts run the same."""
        with self._lock:
            return sum(session.compiles for session in self._sessions)

    def add(self, *sessions: Session) -> None:
        """Count a run of each session."""
        with self._lock:
            self._sessions.update(sessions)
            self.native_runs += len(sessions)

    def add_replay(self, replay: Replay) -> None:
        """Count the run of a replay, if it has one."""
        if replay.session is not None:
            with self._lock:
                self.native_runs += 1
                if not replay.is_counted:
                    replay.is_counted = True
                    self._sessions.add(replay.session)
