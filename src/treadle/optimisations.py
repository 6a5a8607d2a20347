"""The optimisations that TREADLE_DISABLE can switch off, to measure their effect or to narrow down a fault.

A name is either that of a pass, which the pass manager then skips, or one that lowering asks `knobs.is_enabled` for.
"""

OPTIMISATIONS: dict[str, str] = {
    "open_sizes": "one plan for all sizes of open dimensions; without it each combination of sizes is compiled",
    "winograd": "Winograd's algorithm for convolutions",
    "depthwise": "kernels for convolutions whose groups are narrower than a vector",
    "few_outputs": "kernels for convolutions of few output channels, whose vectors hold input channels",
    "conv_pool": "a convolution and the max pooling of its result in one kernel",
    "write_over": "results of elementwise loops written over an operand that nothing else reads",
    "concat_in_place": "results of several images written into the concatenation that reads them",
    "vnni": "VNNI dot products of 8-bit numbers; without it they are widened",
    "byte_table": "elementwise programs of one byte read from a table",
    "flush_subnormals": "subnormal weights of products counted as 0, which CPUs multiply slowly",
    "prefetch": "weights prefetched by the kernels before the one that reads them",
    "recurrent": "one kernel for a whole recurrent layer; without it the layer runs by its NumPy reference",
    "choose_layouts": "blocked layouts",
    "choose_precision": 'bf16 dot products, where precision="bf16" allows them',
    "fold_batch_norm": "batch normalisation folded into weights",
    "fold_scales": "factors between transposes and products folded into the products",
    "fuse_layer_norm": "layer normalisation recognised in its parts",
    "fuse_softmax": "softmax recognised in its parts",
    "fuse_epilogue": "elementwise ops as epilogues of products, convolutions, pooling and reductions",
    "fuse_attention": "attention as one kernel",
    "share_heads": "keys and values that several heads of queries share read by attention where they are",
    "fuse_bags": "gathers and the reductions of what they gather in one kernel",
    "fuse_head": "an elementwise op computed by the reduction that reads its result",
    "group_elementwise": "chains of elementwise ops as one loop",
    "pick_channels": "slices, concatenations and shuffles of blocked channels as one copy",
    "sink_transposes": "transposes moved past ops until they cancel",
    "absorb_transposes": "transposes read by matrix products as strides",
}
