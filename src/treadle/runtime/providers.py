"""Who multiplies matrices: treadle's own kernels, OpenBLAS, MKL or oneDNN.

    treadle.threads.set_matmul_provider("mkl")          for sessions made from now on
    treadle.Session(model, matmul_provider="openblas")  for this one
    TREADLE_MATMUL_PROVIDER=onednn

Session > set_matmul_provider() > TREADLE_MATMUL_PROVIDER > "treadle". A session takes its provider when it is made and keeps
it for all its plans. Libraries are called for one chunk at a time, in the thread that drew it, and use no thread of
their own: the team still rules.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from treadle import forking, knobs
from treadle.errors import ProviderError
from treadle.provider import Provider
from treadle.runtime import libraries

TREADLE = "treadle"
NAMES = (TREADLE, *libraries.PACKAGES)
VARIABLE = "TREADLE_MATMUL_PROVIDER"


class Choice(NamedTuple):
    """A provider and what chose it."""

    name: str
    source: str


_lock = forking.lock()
_chosen: Choice | None = None
_DEFAULT = Choice(TREADLE, "default")


def set_matmul_provider(name: str | None) -> None:
    """Choose who multiplies f32 and f64 matrices in sessions made from now on: "treadle", "openblas", "mkl" or "onednn";
    None: as the environment has it.

    Any time, from any thread; sessions that exist keep theirs. Raises ProviderError, and then changes nothing, for
    another name and for a library that is not installed, saying how to install it.
    """
    global _chosen  # noqa: PLW0603 - the choice is the process's
    choice = None
    if name is not None:
        choice = Choice(checked(name, f"set_matmul_provider({name!r})"), f"set_matmul_provider({name!r})")
        provider_of(choice)
    with _lock:
        _chosen = choice


def current() -> Choice:
    """What a session made now would use. Raises KnobError for an impossible variable."""
    if _chosen is not None:
        return _chosen
    return Choice(knobs.get(VARIABLE), VARIABLE) if os.environ.get(VARIABLE) else _DEFAULT


def checked(name: Any, source: str) -> str:
    """`name`, if it is a provider's. Raises ProviderError naming the source."""
    if name not in NAMES:
        raise ProviderError(f"matmul provider from {source}: wanted one of {', '.join(NAMES)}, got {name!r}")
    return str(name)


def provider_for(name: str | None) -> Provider | None:
    """What Session(matmul_provider=name) uses, loaded; None stands for treadle's kernels.

    Raises ProviderError for an unknown name or a missing library, KnobError for an impossible variable.
    """
    if name is None:
        return provider_of(current())
    source = f"Session(matmul_provider={name!r})"
    return provider_of(Choice(checked(name, source), source))


def provider_of(choice: Choice) -> Provider | None:
    """The provider that `choice` names, loaded; None for treadle's kernels. Raises ProviderError if it is missing."""
    return None if choice.name == TREADLE else libraries.load(choice.name).provider


def report() -> dict[str, Any]:
    """value, source, version, path and why of the provider in use, and which libraries have been loaded."""
    choice = current()
    facts: dict[str, Any] = {"value": choice.name, "source": choice.source}
    if choice.name == TREADLE:
        from treadle import __version__

        facts |= {"version": __version__, "path": None, "why": "kernels generated for the shapes of each model"}
    else:
        library = libraries.load(choice.name)
        facts |= {
            "version": library.provider.version,
            "path": library.path,
            "why": f"{library.origin}; one thread: {library.alone}",
        }
    return {**facts, "loaded": libraries.loaded()}
