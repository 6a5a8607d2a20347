"""What a child process compiles for the first runs of a session in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from treadle.codegen.resident_memory import release_heap
from treadle.compile import Session, compiler_of, runner_of
from treadle.compiled_plans import Bound, Compiled
from treadle.driver import compiler_of_stage
from treadle.plan_store import Restored
from treadle.runtime.turns import Turn

if TYPE_CHECKING:
    from treadle.runtime.plans import Runnable

__all__ = ["Session", "compile_more", "release_heap"]


def compile_more(session: Session, wanted: Mapping[str, Any]) -> None:
    """Compile a plan of `session` and store it.

    Args:
        session: A session of the model.
        wanted: With `outputs` and a `signature`, the plan for inputs of this signature; with `sizes` of open dimensions
            by name instead, the plan for them, which is stored. With `stage` and `found`, what this plan runs behind
            sizes that depend on data: the stage of these outputs, for the sizes found.
    """
    outputs = wanted["outputs"]
    if "signature" in wanted:
        plan: Runnable | None = runner_of(session).plans.get(wanted["signature"], outputs)
    else:
        plan = compiler_of(session).find_sizes(wanted["sizes"], outputs)
    if "stage" in wanted:
        _compile_stage(plan, wanted)


def _compile_stage(plan: Runnable | None, wanted: Mapping[str, Any]) -> None:
    while isinstance(plan, Restored | Turn):
        plan = plan.kept() if isinstance(plan, Turn) else plan.compiled()
    assert isinstance(plan, Bound | Compiled), "it runs a stage"
    compiler = compiler_of_stage(plan.open_plan if isinstance(plan, Bound) else plan.plan, wanted["stage"])
    assert compiler is not None, "the plan has the stage that asked"
    compiler.make(wanted["found"])
