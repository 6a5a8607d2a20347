"""The limits of a session that is made with a file of settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from treadle.frontends.model_source import ModelSource, file_digest
from treadle.runtime.limits import Setting
from treadle.runtime.topology import Topology

if TYPE_CHECKING:
    from treadle.plan.target import Target


def tuned_limits(
    settings: str | os.PathLike[str], model: Any, source: ModelSource, target: Target, topology: Topology
) -> dict[str, Setting]:
    """Return the limits in the file `settings` for `model` on this machine.

    Raises SettingsFileError if the file is damaged, or of another model or machine; ModelError if the model cannot be
    read.
    """
    from treadle.runtime.tuned import machine, read_tuned

    tuned, file = read_tuned(settings), os.fsdecode(settings)
    digest = source.digest or file_digest(model)
    if digest is None:
        source.load()  # raises if the model cannot be read
    tuned.must_fit(file, digest, machine(target.isa, topology))
    return tuned.limits(f"Session(settings={file!r})", topology)
