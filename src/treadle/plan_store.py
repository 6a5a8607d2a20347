"""The plans of one model in the cache folder, by what they compute and the sizes that they serve."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import _native
from treadle.codegen.artifact import load_artifact
from treadle.codegen.artifact_record import NO_NOTES, Artifact
from treadle.frontends.model_source import ModelForm, ModelSource
from treadle.graph.shape import StaticShape
from treadle.records import dataclass
from treadle.runtime.caps import NodeCaps
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.executable import Executable
from treadle.runtime.plans import Runnable
from treadle.runtime.program_template import ProgramTemplate
from treadle.runtime.signature import Interface

if TYPE_CHECKING:
    from treadle.codegen.artifact_writer import ArtifactWriter
    from treadle.compiled_plans import Open
    from treadle.plan.target import Target

Array = np.ndarray[Any, Any]


def open_name(outputs: Sequence[str], empty: frozenset[str] = frozenset(), number: int = 0) -> str:
    """Return the name of a plan for open sizes: the outputs, the dimensions that are 0, and which such plan it is."""
    return f"open {list(outputs)} {sorted(empty)} {number}"


def behind_name(name: str) -> str:
    """Return the name of the part of a store that has the plans of the stage of the plan `name`."""
    return f"behind {name}"


def fixed_name(outputs: Sequence[str], shapes: Sequence[StaticShape]) -> str:
    """Return the name of the plan that computes `outputs` for inputs of these `shapes`."""
    return f"fixed {list(outputs)} {list(map(tuple, shapes))}"


def main_name(interface: Interface) -> str:
    """Return the name of the plan that is compiled when a session of a model with this `interface` is made."""
    outputs, shapes = interface.select(None), interface.fixed_shapes
    return open_name(outputs) if shapes is None else fixed_name(outputs, shapes)


def tokens_name(outputs: Sequence[str]) -> str:
    """Return the name of the plan that computes `outputs` of the tokens of padded texts."""
    return f"tokens {list(outputs)}"


Apart = Callable[[Mapping[str, Any]], bool]
"""Has a child process compile and store what `compile_more` takes; returns whether it has."""


class PlanStore:
    """Reads and writes the artifacts of one model. Threads may share it."""

    def __init__(
        self,
        key: str | None,
        source: ModelSource | ModelForm,
        target: Target,
        interface: Interface,
        caps: NodeCaps,
        main: str,
        *,
        is_template: bool = False,
        apart: Apart | None = None,
    ) -> None:
        """Make the store of a model whose artifact has the name `key`; None: nothing is stored.

        That artifact is the plan called `main`. What is loaded gets `caps`. `apart` is None where no child compiles.
        """
        self._key = key
        self._source = source
        self._target = target
        self._interface = interface
        self._caps = caps
        self._main = main
        self._is_template = is_template
        self._apart = apart
        self._is_part = False

    def part(self, name: str, wanted: Mapping[str, Any] | None = None) -> PlanStore:
        """Return a store for plans of the same model that other plans of the same names differ from.

        `wanted` says, as `compile_more` takes it, of which plan of this store they are stages; None: of none.
        """
        key = self._key_of(name)
        made = PlanStore(
            key, self._source, self._target, self._interface, self._caps, "", is_template=self._is_template
        )
        made._is_part = True
        if wanted is not None and self._apart is not None and not self._is_part:
            made._apart = partial(_compile_stage, self._apart, wanted)
        return made

    def compile_apart(self, wanted: Mapping[str, Any], name: str = "") -> bool:
        """Have a child process compile `wanted` and store it; return whether it has.

        Of a store of stages, `wanted` says which stage, and the sizes that were found for it. A child was asked for the
        plan called `main` before.
        """
        return self._apart is not None and (not name or name != self._main) and self._apart(wanted)

    def load(self, name: str) -> Artifact | None:
        """Return the artifact of the plan `name`; None if there is none."""
        key = self._key_of(name)
        artifact = None if key is None else load_artifact(key, self._target)
        if artifact is not None and artifact.program is not None:
            self._caps.apply_to(artifact.program)
        return artifact

    def writer(self, name: str) -> AbstractContextManager[ArtifactWriter | None]:
        """Return the writer of the plan `name`, which is about to be compiled."""
        key, content = self._key_of(name), self._source.content_digest
        if key is None or content is None:
            return nullcontext()
        from treadle.codegen.artifact_writer import ArtifactWriter

        return closing(ArtifactWriter(key, content))

    def save(
        self,
        writer: ArtifactWriter | None,
        program: Executable | ProgramTemplate | None,
        nodes: tuple[str, ...] | None,
        symbols: Sequence[str] = (),
        appended: frozenset[str] = frozenset(),
        hints: Mapping[str, int] | None = None,
        notes: Mapping[str, Any] = NO_NOTES,
    ) -> None:
        """Store a compiled plan by its `writer`, unless the model's files have changed meanwhile.

        The other arguments are as in Artifact.
        """
        if writer is not None and self._source.is_unchanged():
            artifact = Artifact(
                self._interface, program, nodes, tuple(symbols), appended, hints, self._is_template, notes
            )
            writer.store(artifact)

    def _key_of(self, name: str) -> str | None:
        if self._key is None or name == self._main:
            return self._key
        return hashlib.sha256(f"plan\n{self._key}\n{name}".encode()).hexdigest()


def _compile_stage(apart: Apart, plan: Mapping[str, Any], stage: Mapping[str, Any]) -> bool:
    return apart({**plan, **stage})


@dataclass(slots=True)
class StoredPlan:
    """A plan for all sizes from disk.

    Attributes:
        template: Its template.
        symbols: The names of its open dimensions, in the order in which the template takes their sizes.
        hints: The sizes that it was compiled for, by name; None: sample sizes.
        name: Its name in the store.
        compiled: The same, compiled in this process; None until it is shown.
    """

    template: ProgramTemplate
    symbols: tuple[str, ...]
    hints: Mapping[str, int] | None
    name: str = ""
    compiled: Open | None = None

    @classmethod
    def of(cls, artifact: Artifact, name: str = "") -> StoredPlan | None:
        """Return the plan of the artifact called `name`; None if it has none for open sizes."""
        if not isinstance(artifact.program, ProgramTemplate):
            return None
        return cls(artifact.program, artifact.symbols, artifact.hints, name)

    def bind(self, sizes: Mapping[str, int]) -> Executable | None:
        """Return the executable for these `sizes` of symbols; None if the plan does not serve them."""
        return self.template.try_bind([sizes[name] for name in self.symbols])


@dataclass(slots=True)
class Restored:
    """An executable from disk. `compile_` compiles the model in this process, to show its plan."""

    executable: Executable
    compile_: Callable[[], Runnable]
    source: StoredPlan | None = None
    """What it was bound of."""
    _compiled: Runnable | None = None

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Run the executable."""
        return self.executable.run(inputs, team, request)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self.executable.trim()

    def compiled(self) -> Runnable:
        """Return the same, compiled in this process."""
        if self._compiled is None:
            self._compiled = self.compile_()
        return self._compiled
