"""The limits of a session's runs."""

from __future__ import annotations

from collections.abc import Mapping

from treadle import _native, forking
from treadle.runtime.limits import Setting, checked, chosen
from treadle.runtime.threads import Threads, ThreadSettings
from treadle.runtime.topology import Topology


class SessionLimits:
    """The limits that a session sets for its runs, and where each came from.

    `common` holds them for the native core: a run in progress that has no limit of its own reads them at its next op.
    """

    def __init__(
        self,
        threads: Threads,
        tuned: Mapping[str, Setting],
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
    ) -> None:
        self._threads = threads
        self._settings: dict[str, Setting] = {}
        self._lock = forking.lock()
        self.common = _native.RunLimits()
        threads.add_follower(self)
        self._apply(tuned)
        self.set("Session", intra_op=intra_op, inter_op=inter_op)

    def set(self, function: str, *, intra_op: int | None = None, inter_op: int | None = None) -> None:
        """Change the limits that are not None, for the caller of `function`.

        Raises ThreadSettingError, and then changes nothing, for a number that cannot be.
        """
        settings = {}
        for name, value in (("intra_op", intra_op), ("inter_op", inter_op)):
            if value is not None:
                checked(name, value, f"{function}({name}=)")
                settings[name] = chosen(value, f"{function}({name}={value})", self._threads.topology())
        self._apply(settings)

    def follow(self, topology: Topology) -> None:
        """Replace automatic limits by those of `topology`."""
        self._apply({name: setting.on(topology) for name, setting in self._settings.items()})

    def get(self) -> ThreadSettings:
        """Return the limits of a run that has none of its own, and what decided each."""
        intra, inter = (self._settings.get(name) or self._threads.setting(name) for name in ("intra_op", "inter_op"))
        return ThreadSettings(intra.value, inter.value, intra.source, inter.source)

    def _apply(self, settings: Mapping[str, Setting]) -> None:
        """Put `settings` in force; limits that it does not name stay."""
        if not settings:
            return
        with self._lock:
            self._settings = {**self._settings, **settings}
            intra, inter = (
                self._settings[name].value if name in self._settings else 0 for name in ("intra_op", "inter_op")
            )
            self.common.set(intra, inter)
