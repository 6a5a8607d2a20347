"""Calls of scripts from outside: recorded and run at first, replayed once it is known what a call depends upon.

The first call with arguments of a form is recorded as it runs, with the functions it enters. The second is recorded
too, between two looks at all that those functions may read: if nothing of it changed, and nothing was done that a
replay would leave out, later calls with arguments of that form are replayed for as long as it stays so.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from treadle import forking
from treadle.compat.torch.jit.guards import Facts
from treadle.compat.torch.recording import Recording
from treadle.compat.torch.replay import Replay, UnfitError
from treadle.compat.torch.signatures import aliases, containers, described
from treadle.compat.torch.tasks import Body, Call, run
from treadle.compat.torch.tensor import Tensor
from treadle.lru import LRU

MOST_FORMS = 64
"""How many forms of arguments one script keeps."""

MOST_VARIANTS = 8
"""How many replays one form keeps, for attributes that change to and fro; those not used for longest go first."""

MOST_TRIES = 16
"""After so many recordings of one form that became no replay, or one that did not last, only every so many calls one is
tried again."""


@dataclass(slots=True)
class _Form:
    """What is known of calls with arguments of one form."""

    objects: list[Any]  # which the key tells by their ids
    variants: list[tuple[Facts, Replay]] = field(default_factory=list)
    last: tuple[frozenset[types.FunctionType], frozenset[str]] | None = None  # of the last recording, if one may do
    calls: int = 0

    def due(self) -> bool:
        """Whether this recording should be tried as a replay."""
        return self.last is not None and (self.calls <= MOST_TRIES or self.calls % MOST_TRIES == 0)


class Replays:
    """The replays of one script. Safe to use from many threads at once."""

    def __init__(self) -> None:
        self._forms: LRU[tuple[Any, ...], _Form] = LRU(MOST_FORMS)
        self._lock = forking.lock()

    def __reduce__(self) -> tuple[type[Replays], tuple[()]]:
        """A copy of a script has replays of its own, and none yet."""
        return Replays, ()

    def call(
        self, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any], body: Callable[[], Body], scope: str
    ) -> Any:
        """The result of `body()`, which calls the script `what` with `args` and `kwargs`."""
        key: list[Any] = []
        tensors: list[Tensor] = []
        objects: list[Any] = []
        arguments = ((what, *args), kwargs)
        if not described(*arguments, key, tensors, objects):
            return run(body(), scope)[0]
        form = self._form((*key, aliases(tensors)), objects)
        for facts, replay in form.variants:
            if facts.hold() and facts.tensors.keys().isdisjoint(map(id, tensors)):
                result = replay.run(tensors)
                if result is not NotImplemented:
                    if form.variants[0][1] is not replay:
                        self._add(form, facts, replay)
                    return result
        return self._recorded(form, arguments, key, tensors, body, scope)

    def _form(self, key: tuple[Any, ...], objects: list[Any]) -> _Form:
        with self._lock:
            found = self._forms.get(key)
            if found is None:
                found = _Form(objects)
                self._forms.put(key, found)
            return found

    def _add(self, form: _Form, facts: Facts, replay: Replay) -> None:
        """Put a replay before the others of its form."""
        with self._lock:
            others = [each for each in form.variants if each[1] is not replay and not each[0].gone()]
            form.variants = [(facts, replay), *others[: MOST_VARIANTS - 1]]

    def _recorded(
        self,
        form: _Form,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        key: list[Any],
        tensors: list[Tensor],
        body: Callable[[], Body],
        scope: str,
    ) -> Any:
        form.calls += 1
        facts = Facts(*form.last, form.objects) if form.last is not None and form.due() else None
        recording = Recording(watch=facts is not None)
        result, call = run(body(), scope, recording)
        if facts is not None and _fit(facts, call, tensors) and _describes(key, tensors, arguments):
            try:
                ran = recording.ran[0] if recording.ran else None
                replay = Replay(ran, tensors, facts.tensors, result, facts.containers | containers(arguments))
            except UnfitError:
                return result
            self._add(form, facts, replay)
        form.last = None if recording.spoilt else (frozenset(call.functions), frozenset(call.named))
        return result


def _fit(facts: Facts, call: Call, tensors: list[Tensor]) -> bool:
    """Whether `facts` are all that `call` depended upon, and neither changed by it nor among its arguments."""
    return (
        facts.complete
        and not call.recording.spoilt
        and len(call.recording.ran) < 2
        and call.functions <= facts.functions
        and call.named <= facts.named
        and facts.tensors.keys().isdisjoint(map(id, tensors))
        and facts.hold()
    )


def _describes(key: list[Any], tensors: list[Tensor], arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    """Whether `key` and `tensors` tell the arguments still: a script may change the lists it is given."""
    now: list[Any] = []
    found: list[Tensor] = []
    described(*arguments, now, found, [])
    return now == key and len(found) == len(tensors) and all(map(is_, found, tensors))
