"""data_stage: a graph behind sizes that depend on data, which runs once they are known."""

from collections.abc import Sequence

from treadle import dtypes
from treadle.ops.op import Attrs, Info


def infer_data_stage(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """The numbers that are sizes (i64), then the operands -> where each result and its shape are after the run.

    attrs: stage (what runs the graph, a `runtime.data_stage.DataStage`), args (sizes that are known before), counts
    (how many numbers each of the first operands holds), dtypes (of the results).
    """
    return [Info(dtypes.i64, (1,)) for _ in range(n_outputs)]
