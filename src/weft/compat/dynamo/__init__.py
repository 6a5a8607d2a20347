"""`torch.compile(model, backend="weft")`: PyTorch's compiler captures the graphs, weft runs them.

    with torch.no_grad():
        fast = torch.compile(model.eval(), backend="weft")
        y = fast(x)
    print(weft.compat.dynamo.report())

What weft cannot take runs eagerly, by PyTorch, as if it had not been compiled; each reason is warned of once and listed
by `report()`. PyTorch finds `backend` through the entry point group `torch_dynamo_backends`.
"""

from weft.compat.dynamo.backend import backend as backend
from weft.compat.dynamo.fallbacks import Fallback as Fallback
from weft.compat.dynamo.fallbacks import FallbackWarning as FallbackWarning
from weft.compat.dynamo.fallbacks import Report as Report
from weft.compat.dynamo.fallbacks import report as report
from weft.compat.dynamo.fallbacks import reset as reset

__all__ = ["Fallback", "FallbackWarning", "Report", "backend", "report", "reset"]
