"""The private half of a session: from a run's arguments to its plan, and from there to a team."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treadle import _native, knobs
from treadle.graph.shape import StaticShape
from treadle.runtime.control import NESTED, CancelToken, Request
from treadle.runtime.plans import Compile, Plans, Rebinds, Runnable, Sizes
from treadle.runtime.pool import threads_of
from treadle.runtime.program_template import MovingPlan
from treadle.runtime.run_options import RunOptions, check_names, request_of
from treadle.runtime.signature import CallSignature, Interface, Tensor
from treadle.runtime.threads import Threads

if TYPE_CHECKING:
    from treadle.runtime.executable import Executable
    from treadle.runtime.futures import RunFuture

Array = np.ndarray[Any, Any]


class RecentRun(NamedTuple):
    """The last run of a session: its `outputs` argument, the outputs' names, its arrays, and its plan.

    A run with the same `outputs` and arrays like `known` uses the plan at once; None: all arrays need a closer look.
    """

    outputs: list[str] | None
    names: tuple[str, ...]
    known: _native.KnownArrays | None
    plan: Runnable


class Checked(NamedTuple):
    """The arrays of a run in the order of the inputs, their signature, and the sizes of open dimensions by name.

    The sizes are None where more is declared of dimensions than their names, or arrays are not just as declared.
    """

    arrays: list[Array]
    signature: CallSignature
    sizes: Sizes | None


class OwnPlan:
    """The plan of one caller whose runs have other sizes each time: for the outputs of its last run, of one runner."""

    def __init__(self) -> None:
        self._owner: object = None
        self._names: tuple[str, ...] = ()
        self._plan: MovingPlan | None = None

    def bind(
        self, rebinds: Rebinds, signature: CallSignature, sizes: Sizes, names: tuple[str, ...]
    ) -> Executable | None:
        """Return the executable of `rebinds` of these `sizes` for the outputs `names`; None if there is none for one
        user, or no memory."""
        try:
            if self._plan is None or self._owner is not rebinds or names != self._names:
                self._owner, self._names, self._plan = rebinds, names, rebinds.moving(names)
            executable = None if self._plan is None else self._plan.bind(sizes)
        except MemoryError:  # what is bound in part is dropped
            self._plan = None
            return None
        if executable is not None:
            rebinds.note(signature)
        return executable


class Runner:
    """Runs a model: checks the arrays, finds the plan for their signature, and runs it on a team.

    Sessions, facades and the command line use it; threads may share it. It does not refer to the session, so plans that
    call Python functions keep no cycle alive.
    """

    def __init__(
        self,
        interface: Interface,
        compile_: Compile,
        threads: Threads,
        common: _native.RunLimits,
        rebinds: Rebinds | None = None,
    ) -> None:
        self.interface = interface
        self.threads = threads
        self.plans = Plans(compile_, knobs.get("TREADLE_PLAN_CACHE"), rebinds)
        self._declared = interface.declared_arrays()
        self._inputs = tuple(tensor.name for tensor in interface.inputs)
        self._may_have_text = interface.may_have_text
        self._common = common
        self.request = Request(common=common)
        self.recent: RecentRun | None = None

    def run(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, threads: Threads, request: Request
    ) -> dict[str, Array]:
        """Return the named `outputs` (all for None) for `inputs`, computed on the team of `threads`."""
        recent = self.recent
        try:
            same = recent is not None and (outputs is None or type(outputs) is list) and outputs == recent.outputs
        except Exception:  # noqa: BLE001 - a value without a truth when compared is no name: select() raises
            same = False
        if same and recent is not None and recent.known is not None:
            arrays = recent.known.arrays(inputs)
            if arrays is not None:
                return dict(zip(recent.names, recent.plan.run(arrays, threads.team(), request), strict=True))
        names = recent.names if same and recent is not None else self.interface.select(outputs)
        arrays, signature, sizes = self.checked(inputs)
        plan = self.plans.get(signature, names, sizes, request)
        self.plans.hot = (signature, names)
        argument = None if outputs is None else list(outputs)
        self.recent = RecentRun(argument, names, self._known(arrays), plan)
        return dict(zip(names, plan.run(arrays, threads.team(), request), strict=True))

    def _known(self, arrays: Sequence[Array]) -> _native.KnownArrays | None:
        if self._may_have_text and any(array.dtype.hasobject for array in arrays):
            return None
        return _native.KnownArrays(np.ndarray, self._inputs, arrays)

    def checked(self, inputs: Mapping[str, Any]) -> Checked:
        """Return the arrays of a run.

        Raises InputError that lists every input that is missing, unknown or does not fit.
        """
        fitting = None if self._declared is None else self._declared.fit(inputs)
        if fitting is not None:
            return Checked(*fitting)
        arrays = self.interface.arrays(inputs)
        return Checked(arrays, self.interface.signature(arrays), None)

    @property
    def results(self) -> tuple[Tensor, ...]:
        """What a run returns, in the model's order."""
        return self.interface.outputs

    def select(self, wanted: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the results to return, all for None. Raises InputError for unknown names."""
        return self.interface.select(wanted)

    def like(self, interface: Interface, compile_: Compile, rebinds: Rebinds) -> Runner:
        """Return a runner of another form of the model, on the same threads within the same limits."""
        return Runner(interface, compile_, self.threads, self._common, rebinds)

    def run_with(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, options: RunOptions
    ) -> dict[str, Array]:
        """Return what run() does, with the options of `Session.run`."""
        check_names(options, "Session.run")
        request = request_of(options, self.request)
        return self.run(inputs, outputs, self.threads_for(options, "run"), request)

    def run_async(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None, options: RunOptions) -> RunFuture:
        """Start a run in the background and return its future."""
        from treadle.runtime.futures import RunFuture

        check_names(options, "Session.run_async")
        token = options.get("cancel")
        if token is None:
            token = options["cancel"] = CancelToken()
        own = _native.RunLimits()
        request = request_of(options, self.request, own)
        threads = self.threads_for(options, "run_async")
        checked, names = self.checked(inputs), self.select(outputs)
        background = threads.background()
        future = RunFuture(token, background, own, threads)
        slots = max(threads.team().limits)
        background.submit(future, request, lambda: self._run_checked(checked, names, threads, request), slots)
        return future

    def threads_for(self, options: RunOptions, function: str) -> Threads:
        """Return the threads that `options` of `function` name; the session's if they name none."""
        pool = options.get("pool")
        return self.threads if pool is None else threads_of(pool, f"{function}(pool=)")

    def _run_checked(
        self, checked: Checked, names: tuple[str, ...], threads: Threads, request: Request
    ) -> dict[str, Array]:
        arrays, signature, sizes = checked
        plan = self.plans.get(signature, names, sizes, request)
        return dict(zip(names, plan.run(arrays, threads.team(), request), strict=True))

    def run_giving(
        self,
        checked: Checked,
        names: tuple[str, ...],
        give: Callable[[str, StaticShape], Array],
        threads: Threads,
        request: Request,
        own: OwnPlan,
    ) -> list[Array]:
        """Return the outputs `names` for the arrays of `checked`.

        `give` returns the array for an output of this name and shape that the plan writes to the caller's memory. `own`
        is the caller's, which uses it for one run at a time.
        """
        arrays, signature, sizes = checked
        rebinds = self.plans.rebinds
        executable = None if rebinds is None or sizes is None else own.bind(rebinds, signature, sizes, names)
        if executable is None:
            plan = self.plans.get(signature, names, sizes, request)
            found: Executable | None = getattr(plan, "executable", None)
            if found is None or not found.given:
                return plan.run(arrays, threads.team(), request)
            executable = found
        given = [give(names[index], shape) for index, shape in executable.given.items()]
        return executable.run(arrays, threads.team(), request, given)

    def run_nested(self, arrays: Sequence[Array]) -> list[Array]:
        """Return all outputs, in their order, for `arrays` in the order of the inputs.

        It is a part of the run around the calling step: on that run's team, within its limits.
        """
        recent = self.recent
        if recent is not None and recent.outputs is None and recent.known is not None and recent.known.matches(arrays):
            return recent.plan.run(arrays, self.threads.team(), NESTED)
        names = (tensor.name for tensor in self.interface.inputs)
        return list(self.run(dict(zip(names, arrays, strict=True)), None, self.threads, NESTED).values())

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[Sequence[Array]], list[Array]]:
        """Return a function from arrays in the order of the inputs to all outputs in their order.

        Its arrays must have the shapes of `inputs`, be C-contiguous and of the declared dtypes; it does not check them.
        Raises InputError if `inputs` do not fit.
        """
        plan = self.plan_for(inputs)
        return lambda arrays: plan.run(arrays, self.threads.team(), self.request)

    def prepare_at(self, inputs: Mapping[str, Any]) -> Callable[[list[int], object], None] | None:
        """Return as prepare() does a function of addresses: of the inputs, then of the outputs to write.

        Its second argument is an object to keep alive meanwhile. None for a plan of several stages, and for one whose
        outputs lie in shared blocks.
        """
        executable = self.executable_for(inputs)
        if executable is None or not executable.takes_addresses:
            return None
        run_at, team, request, code = executable.run_at, self.threads.team, self.request, executable.code
        return lambda addresses, keep: run_at(addresses, team(), request, (keep, code))

    def plan_for(self, inputs: Mapping[str, Any]) -> Runnable:
        """Return the plan that computes all outputs from `inputs`; compile it if there is none."""
        _, signature, sizes = self.checked(inputs)
        return self.plans.get(signature, self.interface.select(None), sizes)

    def executable_for(self, inputs: Mapping[str, Any]) -> Executable | None:
        """Return the executable of the plan for `inputs`; None for a plan of several stages."""
        executable: Executable | None = getattr(self.plan_for(inputs), "executable", None)
        return executable

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self.plans.trim()
        recent = self.recent
        if recent is not None and recent.plan not in self.plans.all():  # dropped, but the next run may use it
            recent.plan.trim()
