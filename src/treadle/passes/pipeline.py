"""The passes in order, each with its reason: from a specialised graph to one that is ready for lowering."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.passes.absorb_transposes import AbsorbTransposes
from treadle.passes.base import PassContext
from treadle.passes.bodies import optimize_bodies
from treadle.passes.choose_layouts import ChooseLayouts
from treadle.passes.choose_precision import ChoosePrecision
from treadle.passes.count_loops import CountLoops
from treadle.passes.expand_conv_transpose import ExpandConvTranspose
from treadle.passes.expand_einsum import ExpandEinsum
from treadle.passes.expand_lrn import ExpandLrn
from treadle.passes.flatten_volumes import FlattenVolumes
from treadle.passes.fold_batch_norm import FoldBatchNorm
from treadle.passes.fold_constants import FoldConstants
from treadle.passes.fold_pads import FoldPads
from treadle.passes.fold_scales import FoldScales
from treadle.passes.fuse_attention import FuseAttention
from treadle.passes.fuse_bags import FuseBags
from treadle.passes.fuse_epilogue import FuseEpilogue
from treadle.passes.fuse_head import FuseHead
from treadle.passes.fuse_layer_norm import FuseLayerNorm
from treadle.passes.fuse_softmax import FuseSoftmax
from treadle.passes.group_elementwise import GroupElementwise
from treadle.passes.manager import Manager, Steps
from treadle.passes.merge_common import MergeCommon
from treadle.passes.pick_channels import PickChannels
from treadle.passes.remove_dead import RemoveDead
from treadle.passes.resolve_pads import ResolvePads
from treadle.passes.share_heads import ShareHeads
from treadle.passes.simplify_arithmetic import SimplifyArithmetic
from treadle.passes.simplify_broadcasts import SimplifyBroadcasts
from treadle.passes.simplify_identities import SimplifyIdentities
from treadle.passes.simplify_reshapes import SimplifyReshapes
from treadle.passes.simplify_transposes import SimplifyTransposes
from treadle.passes.sink_transposes import SinkTransposes
from treadle.passes.trim_loops import TrimLoops
from treadle.passes.widen_bytes import WidenBytes
from treadle.passes.widen_halves import WidenHalves

INFER: Steps = [
    (TrimLoops(), "what nobody reads may have a size that depends on data"),
    (FoldConstants(), "every later pass asks for static shapes, and shape arithmetic must be gone to have them"),
    (CountLoops(), "once it is known what their conditions compare: what they stack then has a known size"),
]

SIMPLIFY: Steps = [
    (WidenHalves(), "other passes and kernels know numbers of 32 and 64 bits"),
    (RemoveDead(), "a dead reader would hide that a value has only one live reader"),
    (FoldConstants(), "simplified operands make more nodes constant"),
    (ExpandEinsum(), "passes know its transposes and matrix products"),
    (ResolvePads(), "passes on pads and convolutions know numbers"),
    (SimplifyIdentities(), "nodes that do nothing stand between those that belong together"),
    (SimplifyBroadcasts(), "an expanded operand is memory traffic for nothing"),
    (SimplifyReshapes(), "one form of reshape, so that later rules know one form"),
    (SimplifyTransposes(), "a pair may cancel, or leave one for a matmul to absorb"),
    (SinkTransposes(), "what stands between a pair keeps it from cancelling"),
    (FoldPads(), "once no transpose stands between a pad and its convolution"),
    (SimplifyArithmetic(), "cheaper steps in the fused loops"),
    (FoldBatchNorm(), "it becomes weights, or arithmetic that an epilogue takes"),
    (ExpandConvTranspose(), "once batch normalisation is in its weights; before layouts and epilogues of convolutions"),
    (ExpandLrn(), "before its steps are fused into other loops"),
    (FlattenVolumes(), "before layouts and epilogues of convolutions; transposed ones have become such"),
    (FuseLayerNorm(), "one pass over memory instead of seven; before its steps are fused into other loops"),
    (FuseSoftmax(), "likewise"),
    (FoldScales(), "a factor between transpose and matmul would keep them apart"),
    (AbsorbTransposes(), "before epilogues: an epilogue works on the final shape"),
    (MergeCommon(), "what was written twice was rewritten to the same form by now"),
]

_FOR_KERNELS = (
    WidenHalves,
    ExpandEinsum,
    ExpandConvTranspose,
    ExpandLrn,
    FlattenVolumes,
    FoldScales,
    AbsorbTransposes,
)

PORTABLE: Steps = [step for step in SIMPLIFY if not isinstance(step[0], _FOR_KERNELS)]
"""The passes of SIMPLIFY without those that give what only kernels here take, or take better."""

FUSE: Steps = [
    (WidenBytes(), "before epilogues: what it adds becomes part of them"),
    (FuseEpilogue(), "the producers with kernels of their own choose first"),
    (FuseAttention(), "once scale and mask are in the epilogue of the scores"),
    (ShareHeads(), "once attention reads keys and values"),
    (FuseBags(), "while the product with weights is not part of a loop"),
    (GroupElementwise(), "what is left becomes loops of its own"),
]

LAYOUT: Steps = [
    (ChoosePrecision(), "once it is known what reads every value; before layouts, which ask for dtypes"),
    (ChooseLayouts(), "the loops it carries blocked values through must stand"),
    (PickChannels(), "between the reorders that layouts made necessary"),
    (FuseHead(), "last: those that reductions take over are none any more"),
]


def infer(graph: Graph, context: PassContext, manager: Manager | None = None) -> Graph:
    """Infer shapes of a specialised graph, in place, as far as they do not depend on data; fold what is constant.

    Raises ShapeError, naming the node, if operands do not fit an op.
    """
    manager = manager or Manager(context)
    manager.check(graph, "before optimisation")
    manager.run(graph, INFER)
    return graph


def simplify(graph: Graph, context: PassContext) -> Graph:
    """Rewrite an inferred graph, in place, into fewer and more uniform nodes, none of which is fused yet."""
    Manager(context).run_until_stable(graph, SIMPLIFY)
    return graph


def make_portable(graph: Graph, context: PassContext) -> Graph:
    """Rewrite an inferred graph, in place, into fewer nodes that another engine can run as well."""
    Manager(context).run_until_stable(graph, PORTABLE)
    return graph


def optimize(graph: Graph, context: PassContext, manager: Manager | None = None) -> Graph:
    """Rewrite a specialised graph, in place, into one that is ready for lowering, and return it.

    All shapes must be inferable (see `regions`). Inputs and outputs keep their number and order; an
    output may become an input or a constant. The records of `manager`, if given, tell what each pass
    cost. Raises ShapeError if operands do not fit an op, InternalError if a pass breaks the graph.
    """
    manager = manager or Manager(context)
    infer(graph, context, manager)
    manager.run_until_stable(graph, SIMPLIFY)
    manager.run(graph, FUSE)
    manager.run(graph, LAYOUT)
    manager.check(graph, "after optimisation", typed=True)
    optimize_bodies(graph, lambda body: infer(body, context), lambda body: optimize(body, context))
    return graph
