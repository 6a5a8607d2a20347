"""Calls of scripts from outside: recorded at first, replayed once it is known what they depend on.

The first call with a signature is recorded, with the functions that it enters. The second is recorded between two
checks of everything those functions may read. If nothing changed, and a replay would omit no side effect, later calls
with that signature are replayed while the guards hold.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from treadle import forking
from treadle.compat.torch.jit.guards import Guards
from treadle.compat.torch.jit.run_counts import RunCounts
from treadle.compat.torch.lazy_ints import plain
from treadle.compat.torch.recording import Recording
from treadle.compat.torch.replay import NotReplayableError, Replay
from treadle.compat.torch.signatures import aliases, append_call_signature, container_ids
from treadle.compat.torch.tasks import Body, Call, run
from treadle.compat.torch.tensor import Tensor
from treadle.lru import LRU

MOST_SIGNATURES = 64
"""The number of signatures that one script keeps."""

MOST_VARIANTS = 8
"""The number of replays kept per signature, for attributes that change back and forth."""

MOST_TRIES = 16
"""After this many recordings of a signature without a lasting replay, only every 16th call tries again."""


@dataclass(slots=True)
class _Signature:
    """The replays of calls with one signature."""

    objects: list[Any]  # kept alive: the key holds their ids
    variants: list[tuple[Guards, Replay]] = field(default_factory=list)
    last: tuple[frozenset[types.FunctionType], frozenset[str]] | None = (
        None  # of the last recording, if it can be replayed
    )
    calls: int = 0

    def should_replay(self) -> bool:
        """Returns True if this recording should be made into a replay."""
        return self.last is not None and (self.calls <= MOST_TRIES or self.calls % MOST_TRIES == 0)


class Replays:
    """The replays of one script. Safe to use from several threads."""

    def __init__(self) -> None:
        self._signatures: LRU[tuple[Any, ...], _Signature] = LRU(MOST_SIGNATURES)
        self.counts = RunCounts()
        self._lock = forking.lock()

    def __reduce__(self) -> tuple[type[Replays], tuple[()]]:
        """Copies a script without its replays."""
        return Replays, ()

    def call(
        self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any], body: Callable[[], Body], scope: str
    ) -> Any:
        """Returns the result of `body()`, which calls the script `what` with `args` and `kwargs`."""
        key: list[Any] = []
        tensors: list[Tensor] = []
        objects: list[Any] = []
        arguments = ((what, *args), kwargs)
        if not append_call_signature(*arguments, key, tensors, objects):
            result, call = run(body(), scope)
            self.counts.add(*call.recording.sessions)
            return plain(result)
        signature = self._signature((*key, aliases(tensors)), objects)
        for guards, replay in signature.variants:
            if guards.hold() and guards.tensors.keys().isdisjoint(map(id, tensors)):
                result = replay.run(tensors)
                if result is not NotImplemented:
                    self.counts.add_replay(replay)
                    if signature.variants[0][1] is not replay:
                        self._add(signature, guards, replay)
                    return result
        return self._record(signature, arguments, key, tensors, body, scope)

    def _signature(self, key: tuple[Any, ...], objects: list[Any]) -> _Signature:
        with self._lock:
            found = self._signatures.get(key)
            if found is None:
                found = _Signature(objects)
                self._signatures.put(key, found)
            return found

    def _add(self, signature: _Signature, guards: Guards, replay: Replay) -> None:
        """Puts a replay before the others of its signature."""
        with self._lock:
            others = [
                each for each in signature.variants if each[1] is not replay and not each[0].has_replaced_tensor()
            ]
            signature.variants = [(guards, replay), *others[: MOST_VARIANTS - 1]]

    def _record(
        self,
        signature: _Signature,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        key: list[Any],
        tensors: list[Tensor],
        body: Callable[[], Body],
        scope: str,
    ) -> Any:
        signature.calls += 1
        guards = (
            Guards(*signature.last, signature.objects)
            if signature.last is not None and signature.should_replay()
            else None
        )
        recording = Recording(watch=guards is not None)
        result, call = run(body(), scope, recording)
        self.counts.add(*recording.sessions)
        if guards is not None and _may_replay(guards, call, tensors) and _unchanged(key, tensors, arguments):
            try:
                flush = recording.flushes[0] if recording.flushes else None
                replay = Replay(flush, tensors, guards.tensors, result, guards.containers | container_ids(arguments))
            except NotReplayableError:
                return plain(result)
            self.counts.note(replay)
            self._add(signature, guards, replay)
        signature.last = None if recording.not_replayable else (frozenset(call.functions), frozenset(call.named))
        return plain(result)


def _may_replay(guards: Guards, call: Call, tensors: list[Tensor]) -> bool:
    """Returns True if a replay with `guards` does the same as `call`.

    The guards must cover all that the call depended on; it must have changed none of it, and no argument may be among
    it.
    """
    return (
        guards.complete
        and not call.recording.not_replayable
        and len(call.recording.flushes) < 2
        and call.functions <= guards.functions
        and call.named <= guards.named
        and guards.tensors.keys().isdisjoint(map(id, tensors))
        and guards.hold()
    )


def _unchanged(key: list[Any], tensors: list[Tensor], arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    """Returns True if `key` and `tensors` still describe the arguments: a script may change lists that it is given."""
    now: list[Any] = []
    found: list[Tensor] = []
    append_call_signature(*arguments, now, found, [])
    return now == key and len(found) == len(tensors) and all(map(is_, found, tensors))
