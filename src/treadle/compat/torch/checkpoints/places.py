"""Where the storages of a checkpoint go: what `map_location` of torch.load says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from treadle.compat.torch.checkpoints.storages import Storage
from treadle.compat.torch.devices import device

MapLocation = Callable[[Any, str], Any] | device | str | bytes | dict[str, str] | None


@dataclass(frozen=True, slots=True)
class Places:
    """Where storages go, as `map_location` says: only the CPU can be had."""

    wanted: MapLocation

    def restore(self, storage: Storage, location: str) -> Storage:
        """Returns the storage for one that was saved at `location`. Raises RuntimeError if that is no CPU."""
        wanted = self.wanted
        if wanted is None:
            found = location
        elif isinstance(wanted, dict):
            found = wanted.get(location, location)
        elif isinstance(wanted, str | device):
            found = str(wanted)
        elif isinstance(wanted, bytes):
            found = wanted.decode("ascii")
        else:
            made = wanted(storage, location)
            if made is None:
                return self._on_cpu(storage, location)
            if not isinstance(made, Storage):
                raise TypeError(f"map_location returned a {type(made).__name__}; wanted the storage it got, or None")
            return made
        return self._on_cpu(storage, found)

    @staticmethod
    def _on_cpu(storage: Storage, location: str) -> Storage:
        name = location.partition(":")[0]
        if name == "cpu":
            return storage
        if name in ("cuda", "xpu", "hpu"):
            raise RuntimeError(
                f"Attempting to deserialize object on a {name.upper()} device but torch.{name}.is_available() is "
                "False. If you are running on a CPU-only machine, please use torch.load with "
                "map_location=torch.device('cpu') to map your storages to the CPU."
            )
        raise RuntimeError(
            f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
        )
