"""Providers of matrix products: treadle's own kernels, OpenBLAS, MKL or oneDNN.

    treadle.threads.set_matmul_provider("mkl")          for sessions made from now on
    treadle.Session(model, matmul_provider="openblas")  for this one
    TREADLE_MATMUL_PROVIDER=onednn

Precedence: Session > set_matmul_provider() > TREADLE_MATMUL_PROVIDER > "treadle". A session takes its provider when it
is made, for all its plans. A library is called for one chunk at a time, by the worker that drew the chunk, and uses no
thread of its own, so the team's limits hold.
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
    """Choose what multiplies f32 and f64 matrices in sessions made from now on; existing sessions keep theirs.

    Args:
        name: "treadle", "openblas", "mkl" or "onednn". None: the environment's choice.

    Raises:
        ProviderError: The name is another one, or the library is not installed (the message says how to install it).
            Nothing is changed then.

    Example:
        >>> treadle.threads.set_matmul_provider("mkl")
    """
    global _chosen  # noqa: PLW0603 - the choice is the process's
    choice = None
    if name is not None:
        choice = Choice(checked(name, f"set_matmul_provider({name!r})"), f"set_matmul_provider({name!r})")
        provider_of(choice)
    with _lock:
        _chosen = choice


def current() -> Choice:
    """Return the provider of a session made now. Raises KnobError for a variable that cannot be used."""
    if _chosen is not None:
        return _chosen
    return Choice(knobs.get(VARIABLE), VARIABLE) if os.environ.get(VARIABLE) else _DEFAULT


def checked(name: Any, source: str) -> str:
    """Return `name`. Raises ProviderError, which names the source, if no provider has it."""
    if name not in NAMES:
        raise ProviderError(f"matmul provider from {source}: wanted one of {', '.join(NAMES)}, got {name!r}")
    return str(name)


def provider_for(name: str | None) -> Provider | None:
    """Return the provider of Session(matmul_provider=name), loaded; None stands for treadle's kernels.

    Raises ProviderError for an unknown name or a missing library, KnobError for a variable that cannot be used.
    """
    if name is None:
        return provider_of(current())
    source = f"Session(matmul_provider={name!r})"
    return provider_of(Choice(checked(name, source), source))


def provider_of(choice: Choice) -> Provider | None:
    """Return the provider of `choice`, loaded; None for treadle's kernels. Raises ProviderError if it is missing."""
    return None if choice.name == TREADLE else libraries.load(choice.name).provider


def report() -> dict[str, Any]:
    """Return value, source, version, path and why of the provider in use, and the libraries loaded."""
    choice = current()
    entries: dict[str, Any] = {"value": choice.name, "source": choice.source}
    if choice.name == TREADLE:
        from treadle import __version__

        entries |= {"version": __version__, "path": None, "why": "kernels generated for the shapes of each model"}
    else:
        library = libraries.load(choice.name)
        entries |= {
            "version": library.provider.version,
            "path": library.path,
            "why": f"{library.origin}; one thread: {library.confinement}",
        }
    return {**entries, "loaded": libraries.loaded()}
