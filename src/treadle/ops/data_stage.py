"""data_stage: a graph behind sizes that depend on data, which runs once they are known."""

from collections.abc import Sequence

from treadle import dtypes
from treadle.ops.op import Attrs, Info


def infer_data_stage(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """The sizes (i64 [1] each), then the operands -> where each result and its shape are once the graph has run.

    attrs: stage (what runs the graph, a `runtime.data_stage.DataStage`), sizes (how many there are), dtypes (of the
    results).
    """
    return [Info(dtypes.i64, (1,)) for _ in range(n_outputs)]
