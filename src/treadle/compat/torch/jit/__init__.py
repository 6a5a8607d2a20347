"""torch.jit: scripts, traces, fork and wait."""

import typing

from treadle.compat.torch.future import Future as Future
from treadle.compat.torch.jit.compilation_unit import CompilationUnit as CompilationUnit
from treadle.compat.torch.jit.container_types import isinstance_
from treadle.compat.torch.jit.loading import load as load
from treadle.compat.torch.jit.rewrite import Error as Error
from treadle.compat.torch.jit.script import ScriptFunction as ScriptFunction
from treadle.compat.torch.jit.script import ScriptModule as ScriptModule
from treadle.compat.torch.jit.script import annotate as annotate
from treadle.compat.torch.jit.script import export as export
from treadle.compat.torch.jit.script import fork as fork
from treadle.compat.torch.jit.script import freeze as freeze
from treadle.compat.torch.jit.script import ignore as ignore
from treadle.compat.torch.jit.script import is_scripting as is_scripting
from treadle.compat.torch.jit.script import optimized_execution as optimized_execution
from treadle.compat.torch.jit.script import script as script
from treadle.compat.torch.jit.script import wait as wait
from treadle.compat.torch.jit.trace import trace as trace
from treadle.compat.torch.missing_names import missing_name_error

_fork, _wait = fork, wait
Final = typing.Final
isinstance = isinstance_  # noqa: A001 - PyTorch's name
script_method = export
unused = ignore
optimize_for_inference = freeze

__all__ = [
    "CompilationUnit", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "_fork", "_wait", "annotate",
    "export", "fork", "freeze", "ignore", "is_scripting", "isinstance", "load", "optimize_for_inference",
    "optimized_execution", "script", "script_method", "trace", "unused", "wait",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    raise missing_name_error("torch.jit", name, __all__)
