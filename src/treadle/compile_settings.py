"""How a session compiles its model, and where it looks for the compiled form first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle import forking, knobs
from treadle.codegen.artifact import artifact_key, load_artifact
from treadle.codegen.artifact_record import Artifact
from treadle.codegen.compile_process import is_waiting
from treadle.codegen.out_of_process import compile_more, load_or_compile
from treadle.frontends import LIBRARIES, ONNX
from treadle.frontends.model_source import ModelForm, ModelSource
from treadle.immutable import immutable
from treadle.open_plans import RestPlans
from treadle.plan_store import Apart, PlanStore
from treadle.runtime.caps import NodeCaps
from treadle.runtime.runner import Runner
from treadle.runtime.signature import Interface

if TYPE_CHECKING:
    from treadle.driver import Options
    from treadle.passes.base import Math, Precision
    from treadle.plan.target import Target
    from treadle.provider import Provider

Progress = Callable[[int, int], None]
"""(kernels done, kernels in all), called while kernels are compiled."""

COMPILED_APART = (".pb", ".pbtxt", ".pt2")
"""The suffixes of files of other front ends than ONNX's that are compiled in a child process: they declare shapes."""


MOST_STARTS = 2
"""Children that runs of one session start. A session whose sizes need plan after plan then compiles them itself: LLVM
and the model are loaded once for all of them."""


class CompileCounter:
    """Counts the plans that a session compiles, those of the bodies of branches and loops included.

    Threads may share it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._outer: CompileCounter | None = None
        self._lock = forking.lock()

    def add(self, plans: int = 1) -> None:
        """Count `plans` more."""
        with self._lock:
            self.count += plans
            outer = self._outer
        if outer is not None:
            outer.add(plans)

    def report_to(self, outer: CompileCounter) -> None:
        """Let `outer` count all plans counted so far and from now on too."""
        with self._lock:
            self._outer = outer
            counted = self.count
        outer.add(counted)


class _Apart:
    """Has a child compile what runs of a session need; starts few children for that."""

    def __init__(self, compile_: Apart, counter: CompileCounter) -> None:
        self._compile = compile_
        self._counter = counter
        self._starts = 0

    def __call__(self, wanted: Mapping[str, Any]) -> bool:
        """Return whether a child has compiled `wanted`."""
        if not is_waiting():
            if self._starts == MOST_STARTS:
                return False
            self._starts += 1
        compiled = self._compile(wanted)
        if compiled:
            self._counter.add()
        return compiled


@immutable
class CompileSettings:
    """How a session compiles: the target, the arithmetic, and the provider of matrix products (None: treadle).

    `nested` returns the runner of a branch's or loop's body. `counter` counts the plans. With `skip_padding`
    only the tokens of padded texts are computed; `batch_invariant` is as in PassContext.
    """

    target: Target
    math: Math
    precision: Precision
    provider: Provider | None
    progress: Progress | None
    nested: Callable[[Any], Runner]
    counter: CompileCounter
    skip_padding: bool = False
    batch_invariant: bool = False

    def artifact_key(self, source: ModelSource | ModelForm) -> str | None:
        """Return the artifact's name in the cache folder; None if such a model has no artifact."""
        if source.content_digest is None or source.reader is None or self.provider is not None:
            return None
        if knobs.get("TREADLE_DEBUG"):
            return None
        settings = {**self._arithmetic, "form": source.form}
        return artifact_key(source.content_digest, settings, self.target, LIBRARIES.get(source.reader))

    def find_artifact(self, source: ModelSource | ModelForm, key: str) -> Artifact | None:
        """Return the artifact named `key`, compiled out of process if need be; None if this process must compile."""
        content = self._compiled_apart(source)
        if isinstance(source, ModelForm) or content is None:
            return load_artifact(key, self.target)
        return load_or_compile(content, key, self.target, self._arithmetic, source.options, self.progress)

    def compile_apart(self, source: ModelSource | ModelForm, key: str, more: Mapping[str, Any]) -> bool:
        """Have a child compile `more` of the model whose artifact is `key`, as `compile_more` of a session takes it.

        Return false if this process must compile, because there is no child, or it has failed.
        """
        content = self._compiled_apart(source)
        if isinstance(source, ModelForm) or content is None:
            return False
        return compile_more(content, key, {**self._arithmetic, **source.options}, more, self.progress)

    def store(
        self,
        source: ModelSource | ModelForm,
        key: str | None,
        interface: Interface,
        caps: NodeCaps,
        main: str,
        *,
        is_template: bool,
    ) -> PlanStore:
        """Return the store of the plans of a model whose artifact is `key`, that of the plan `main`."""
        apart = None if key is None else _Apart(partial(self.compile_apart, source, key), self.counter)
        return PlanStore(key, source, self.target, interface, caps, main, is_template=is_template, apart=apart)

    def _compiled_apart(self, source: ModelSource | ModelForm) -> Path | bytes | None:
        """Return the content of a model that a child may compile; None of others."""
        if isinstance(source, ModelForm) or (source.reader != ONNX and source.suffix not in COMPILED_APART):
            return None
        return source.content

    def options(self, caps: NodeCaps) -> Options:
        """Return the driver's options."""
        from treadle.driver import Options

        return Options(
            target=self.target,
            math=self.math,
            progress=self.progress,
            nested=self.nested,
            on_compiled=self.counter.add,
            precision=self.precision,
            provider=self.provider,
            caps=caps,
            plans_of_rest=RestPlans,
            batch_invariant=self.batch_invariant,
        )

    @property
    def _arithmetic(self) -> dict[str, str | bool]:
        return {
            "math": self.math,
            "precision": self.precision,
            "batch_invariant": self.batch_invariant,
            "skip_padding": self.skip_padding,
        }
