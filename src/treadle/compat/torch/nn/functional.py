"""torch.nn.functional."""

from typing import Any

from treadle.compat.torch.missing_names import missing_name_error
from treadle.compat.torch.table import FUNCTIONAL

__all__ = sorted(FUNCTIONAL)  # noqa: PLE0605
globals().update(FUNCTIONAL)


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    raise missing_name_error("torch.nn.functional", name, __all__)
