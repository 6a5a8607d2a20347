"""`torch.compile(model, backend="treadle")`: PyTorch's compiler captures the graphs, treadle runs them.

    with torch.no_grad():
        fast = torch.compile(model.eval(), backend="treadle")
        y = fast(x)
    print(treadle.compat.dynamo.report())

A graph that treadle does not support runs eagerly in PyTorch, as if it had not been compiled. Each reason is issued
once as a warning and listed by `report()`. PyTorch finds `backend` through the entry point group
`torch_dynamo_backends`.
"""

from treadle.compat.dynamo.backend import backend as backend
from treadle.compat.dynamo.fallbacks import Fallback as Fallback
from treadle.compat.dynamo.fallbacks import FallbackWarning as FallbackWarning
from treadle.compat.dynamo.fallbacks import Report as Report
from treadle.compat.dynamo.fallbacks import report as report
from treadle.compat.dynamo.fallbacks import reset as reset

__all__ = ["Fallback", "FallbackWarning", "Report", "backend", "report", "reset"]
