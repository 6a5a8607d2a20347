"""torch.nn: modules, containers, layers, losses, and functional."""

from typing import Any

from treadle.compat.torch.missing_names import missing_name_error
from treadle.compat.torch.nn import attention as _attention
from treadle.compat.torch.nn import container as _container
from treadle.compat.torch.nn import conv as _conv
from treadle.compat.torch.nn import functional as functional
from treadle.compat.torch.nn import init as init
from treadle.compat.torch.nn import layers as _layers
from treadle.compat.torch.nn import loss as _loss
from treadle.compat.torch.nn import recurrent as _recurrent
from treadle.compat.torch.nn.module import Module as Module
from treadle.compat.torch.nn.module import Parameter as Parameter

_MODULES = {
    name: kind
    for source in (_container, _conv, _layers, _recurrent, _attention, _loss)
    for name, kind in vars(source).items()
    if isinstance(kind, type) and issubclass(kind, Module) and not name.startswith("_")
}
globals().update(_MODULES)
__all__ = sorted({*_MODULES, "Module", "Parameter", "functional", "init"})  # noqa: PLE0605


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    raise missing_name_error("torch.nn", name, __all__)
