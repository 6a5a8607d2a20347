"""Sessions: a model held ready to run, with a plan for each combination of input shapes it has met."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numpy as np

from treadle import _native, forking, knobs
from treadle.lru import LRU
from treadle.runtime import threads
from treadle.runtime.control import PART, PLAIN, CancelToken, Request, checked_priority, checked_timeout, checked_token
from treadle.runtime.limits import Setting, checked, chosen
from treadle.runtime.pool import Pool, threads_of
from treadle.runtime.signature import Familiar, Form, Signature, Tensor
from treadle.runtime.threads import Threads, ThreadSettings

if TYPE_CHECKING:
    from treadle.runtime.executable import Executable, Layout
    from treadle.runtime.futures import RunFuture

Array = np.ndarray[Any, Any]


class Runnable(Protocol):
    """What compiling a model for concrete shapes gives."""

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = PLAIN) -> list[Array]:
        """Results for `inputs`, in the order the outputs were asked for."""
        ...

    def trim(self) -> None:
        """Free memory that no run uses at the moment."""
        ...


Compile = Callable[[tuple[Form, ...], tuple[str, ...]], Runnable]
"""(form of each input, names of the outputs) -> what computes them."""


def _weak(compile_: Compile) -> Compile:
    """`compile_`, which does not keep the object alive that it may be a method of.

    A session holds its plans: were they to hold the session, it would live on, with its pool's threads, until Python
    looks for cycles.
    """
    if not isinstance(compile_, MethodType):
        return compile_
    method = weakref.WeakMethod(compile_)

    def compile_if_there(forms: tuple[Form, ...], outputs: tuple[str, ...]) -> Runnable:
        bound = method()
        assert bound is not None, "a session is held by whoever runs it"
        runnable: Runnable = bound(forms, outputs)
        return runnable

    return compile_if_there


class Plans:
    """The plans of a session, by form of the inputs and names of the outputs. Threads that need the same new plan compile it once.

    `hot` is the key of the plan that runs take without asking here: it counts as the one used last.
    """

    def __init__(self, compile_: Compile, capacity: int) -> None:
        self._compile = compile_
        self._plans: LRU[tuple[Any, ...], Runnable] = LRU(capacity)
        self._pending: dict[tuple[Any, ...], threading.RLock] = {}
        self._lock = forking.lock()
        self.hot: tuple[Any, ...] | None = None

    def get(self, forms: tuple[Form, ...], outputs: tuple[str, ...]) -> Runnable:
        """The plan for inputs of these `forms` and `outputs`, compiled now if it is not there."""
        key = (forms, outputs)
        found = self._plans.get(key)
        if found is not None:
            return found
        with self._lock:
            pending = self._pending.setdefault(key, forking.lock())
        try:
            with pending:
                found = self._plans.get(key)
                if found is None:
                    found = self._compile(forms, outputs)
                    if self.hot is not None:
                        self._plans.get(self.hot)
                    self._plans.put(key, found)
        finally:
            with self._lock:
                self._pending.pop(key, None)
        return found

    def all(self) -> list[Runnable]:
        """The plans held at the moment."""
        return self._plans.values()


class Last(NamedTuple):
    """What the last run was asked for: the outputs as they were written, as they are named, and the plan that gives
    them for arrays of a familiar form."""

    outputs: list[str] | None
    wanted: tuple[str, ...]
    familiar: Familiar
    plan: Runnable


class SessionBase:
    """The running half of a session: checks arguments, finds the plan, runs it on the team.

    Safe to use from many threads at once.
    """

    def __init__(
        self,
        signature: Signature,
        compile_: Compile,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        tuned: Mapping[str, Setting] | None = None,
        pool: Pool | None = None,
    ) -> None:
        self._signature = signature
        self._threads = threads_of(pool, "Session(pool=)")
        self._limits: dict[str, Setting] = {}
        self._limiting = forking.lock()
        self._common = _native.RunLimits()
        self._request = Request(common=self._common)
        self._put(tuned or {})
        self._limit("Session", intra_op=intra_op, inter_op=inter_op)
        self._threads.team()  # what the environment says wrongly is said now, not at the first run
        self._plans = Plans(_weak(compile_), knobs.get("TREADLE_PLAN_CACHE"))
        self._last: Last | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Name, dtype and shape of each input."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Name, dtype and shape of each output."""
        return self._signature.outputs

    def set(self, *, intra_op: int | None = None, inter_op: int | None = None) -> None:
        """Change the limits of this session's runs; None leaves a limit, 0 is automatic.

        Any thread, any time; runs in progress that do not ask for limits of their own have it from their next op on.
        Raises ThreadSettingError, and then changes nothing, for what is impossible.
        """
        self._limit("Session.set", intra_op=intra_op, inter_op=inter_op)

    def get(self) -> ThreadSettings:
        """The limits of a run that asks for none itself, and what decided each."""
        intra, inter = (self._limits.get(name) or self._threads.setting(name) for name in ("intra_op", "inter_op"))
        return ThreadSettings(intra.value, inter.value, intra.source, inter.source)

    def _limit(self, function: str, **asked: int | None) -> None:
        made = {}
        for name, value in asked.items():
            if value is not None:
                checked(name, value, f"{function}({name}=)")
                made[name] = chosen(value, f"{function}({name}={value})", self._threads.topology())
        self._put(made)

    def _put(self, made: Mapping[str, Setting]) -> None:
        """Have the limits `made` in force, leaving those that it does not name."""
        if not made:
            return
        with self._limiting:
            self._limits = limits = {**self._limits, **made}
            intra, inter = (limits[name].value if name in limits else 0 for name in ("intra_op", "inter_op"))
            self._common.set(intra, inter)

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        pool: Pool | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
        priority: int = 0,
    ) -> dict[str, Array]:
        """Compute the named `outputs` (all for None) from `inputs`.

        Inputs are arrays of exactly the declared dtype and a fitting shape; strings are str, or bytes in UTF-8. Returns
        a fresh array for each output, by name. A combination of shapes met for the first time is compiled first.

        `intra_op` and `inter_op` limit this run (0: automatic; None: as the session has it), `pool` runs it on
        that pool. `timeout` in seconds counts from the call, waiting for a turn and compiling included; it,
        `cancel` and Ctrl-C end the run at the next chunk, and do not wait for Python tasks in other threads: these go
        on to their ends, and what comes of them is dropped. Of runs that wait the one with the highest
        `priority` goes first; of equal ones the oldest, but a long one gives way to shorter ones, at its next op.

        Raises InputError for arguments that do not fit, ThreadSettingError for impossible limits, RunError if a
        node fails, MemoryLimitError, ThreadLimitError if a blocking function gets no thread, RunTimeoutError,
        RunCancelledError, KeyboardInterrupt; the session stays usable.
        """
        request = self._asked(intra_op, inter_op, timeout, cancel, priority)
        return self._now(inputs, outputs, self._threads if pool is None else threads_of(pool, "run(pool=)"), request)

    def run_part(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """All outputs, computed as a part of the run around the calling step: on its team, within its limits."""
        return self._now(inputs, None, self._threads, PART)

    def run_listed_part(self, arrays: Sequence[Array]) -> list[Array]:
        """As run_part, from arrays in the order of the inputs to arrays in that of the outputs."""
        last = self._last
        if last is not None and last.outputs is None and last.familiar.fits(arrays):
            return last.plan.run(arrays, self._threads.team(), PART)
        names = (tensor.name for tensor in self.inputs)
        return list(self.run_part(dict(zip(names, arrays, strict=True))).values())

    def _now(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, its_threads: Threads, request: Request
    ) -> dict[str, Array]:
        last = self._last
        try:
            alike = last is not None and (outputs is None or type(outputs) is list) and outputs == last.outputs
        except Exception:  # noqa: BLE001 - what has no truth when compared is no name: select() says so
            alike = False
        if alike and last is not None:
            arrays = last.familiar.arrays(inputs)
            if arrays is not None:
                return dict(zip(last.wanted, last.plan.run(arrays, its_threads.team(), request), strict=True))
        wanted = self._signature.select(outputs)
        arrays = self._signature.arrays(inputs)
        forms = self._signature.forms(arrays)
        plan = self._plans.get(forms, wanted)
        self._plans.hot = (forms, wanted)
        asked = None if outputs is None else list(outputs)
        self._last = Last(asked, wanted, self._signature.familiar(arrays), plan)
        return dict(zip(wanted, plan.run(arrays, its_threads.team(), request), strict=True))

    def prepared(self, inputs: Mapping[str, Any]) -> Callable[[Sequence[Array]], list[Array]]:
        """What computes all outputs, in their order, from arrays in the order of `self.inputs`.

        They must be like those of `inputs`, C-contiguous and of the declared dtypes, and are not looked at again.
        Raises InputError for arguments that do not fit.
        """
        plan = self._plan_of(inputs)
        return lambda arrays: plan.run(arrays, self._threads.team(), self._request)

    def prepared_at(self, inputs: Mapping[str, Any]) -> Callable[[list[int], object], None] | None:
        """As prepared(), but from the addresses of inputs and behind them those of all outputs, as Executable.run_at has
        it, and what to keep meanwhile; None for a plan of several parts, or one whose outputs lie in lent memory."""
        executable = getattr(self._plan_of(inputs), "executable", None)
        if executable is None or not executable.takes_addresses:
            return None
        run_at, team, request, layout = executable.run_at, self._threads.team, self._request, executable.layout
        return lambda addresses, keep: run_at(addresses, team(), request, (keep, layout))

    def _plan_of(self, inputs: Mapping[str, Any]) -> Runnable:
        return self._plans.get(self._signature.forms(self._signature.arrays(inputs)), self._signature.select(None))

    def run_async(
        self,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        pool: Pool | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
        priority: int = 0,
    ) -> RunFuture:
        """Start run() with these arguments in the background and return its future, which can be awaited.

        Arguments are checked now; the arrays must not change until the future is done, as they are not copied.
        Cancelling the future cancels the run, and so the token if one is given; its set_limits() changes the limits
        while the run is in progress. A process ends when its runs have. Raises what run() does for wrong arguments, and
        ThreadLimitError if there is no thread to run on.
        """
        from treadle.runtime.futures import RunFuture

        token = CancelToken() if cancel is None else cancel
        own = _native.RunLimits()
        request = self._asked(intra_op, inter_op, timeout, token, priority, own)
        its_threads = self._threads if pool is None else threads_of(pool, "run_async(pool=)")
        arrays, wanted = self._signature.arrays(inputs), self._signature.select(outputs)
        background = its_threads.background()
        future = RunFuture(token, background, own, its_threads)
        places = max(its_threads.team().limits)
        background.submit(future, request, lambda: self._run(arrays, wanted, its_threads, request), places)
        return future

    def _run(
        self, arrays: list[Array], wanted: tuple[str, ...], its_threads: Threads, request: Request
    ) -> dict[str, Array]:
        plan = self._plans.get(self._signature.forms(arrays), wanted)
        return dict(zip(wanted, plan.run(arrays, its_threads.team(), request), strict=True))

    def _asked(
        self,
        intra_op: Any,
        inter_op: Any,
        timeout: Any,
        cancel: Any,
        priority: Any,
        own: _native.RunLimits | None = None,
    ) -> Request:
        """What a run with these arguments asks for."""
        if (
            intra_op is None
            and inter_op is None
            and timeout is None
            and cancel is None
            and type(priority) is int
            and not priority
        ):
            return self._request
        seconds = checked_timeout(timeout)
        return Request(
            threads.validated("intra_op", intra_op, "run(intra_op=)") or 0,
            threads.validated("inter_op", inter_op, "run(inter_op=)") or 0,
            checked_priority(priority),
            seconds,
            None if seconds is None else time.monotonic() + seconds,
            checked_token(cancel),
            own,
            self._common,
        )

    def layout_for(self, inputs: Mapping[str, Any]) -> Layout | None:
        """What the plan for `inputs` is made of, compiled now if need be; None for a plan of several parts."""
        executable: Executable | None = getattr(self._plan_of(inputs), "executable", None)
        return None if executable is None else executable.layout

    def trim(self) -> None:
        """Free the memory that no run uses at the moment; it comes back with the next run."""
        plans, last = self._plans.all(), self._last
        if last is not None and last.plan not in plans:  # dropped, but the next run may take it
            plans.append(last.plan)
        for plan in plans:
            plan.trim()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a treadle.Session cannot be pickled or copied: give another process the model, and let it make a session of its own"
        )

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        return f"<treadle.Session ({inputs}) -> ({', '.join(map(str, self.outputs))})>"
