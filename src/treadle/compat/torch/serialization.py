"""torch.serialization: checkpoints, and what a program allows them to name."""

from __future__ import annotations

from typing import Any

from treadle.compat.torch.checkpoints.loading import load
from treadle.compat.torch.checkpoints.names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from treadle.compat.torch.checkpoints.saving import save
from treadle.compat.torch.missing_names import missing_name_error

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]


def __getattr__(name: str) -> Any:
    raise missing_name_error("torch.serialization", name, __all__)
