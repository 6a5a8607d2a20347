"""Operators of ONNX Runtime 1.32 (com.microsoft) that treadle does not compute, each with the reason."""

_REASONS = {
    "it generates texts by a loop over subgraphs of its own": "WhisperBeamSearch",
    "it is for GPUs and NPUs: ONNX Runtime has no CPU kernel of it either": (
        "BitmaskBiasDropout BitmaskDropout ConvStateReplay DecoderAttention DecoderMaskedSelfAttention DequantizeBFP "
        "DequantizeWithOrder DynamicSparseAttention EPContext GatedDeltaNetStateReplay GemmFloat8 "
        "HyperConnectionLowRankMix Irfft LongformerAttention Mamba2Verify MatMulBlockQuantizedFp4Weight "
        "MatMulBlockQuantizedFp8Weight MatMulNBitsMlp MatMulNBitsQLoRA MatMulNBitsQkv MatMulPacked MoEPacked "
        "PackedSparseAttentionIndexer PackedSparseAttentionIndexerMerge PagedAttention QOrderedAttention QOrderedGelu "
        "QOrderedLayerNormalization QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeWithOrder "
        "RMSNormRotary RelativePositionBias Rfft RouterGateUpProj Snpe SparseAttentionIndexer SparsePagedAttention "
        "SpeculativePrefixCommit"
    ),
    "it chooses experts for each token, whose weights it holds": "MoE MoEGroupRouter QMoE",
    "it keeps the state of a linear attention or a state space": (
        "GatedDeltaNet HyperConnectionPostMix HyperConnectionPreMix VarlenCausalConvWithState"
    ),
    "it hashes tokens": "EngramGate MurmurHash3 NGramHashMapping VarlenNGramHashMapping",
    "it attends within blocks that a table names": "SparseAttention",
    "it finds the cheapest path through a matrix": "DynamicTimeWarping",
    "exporters do not write it": (
        "AttnLSTM BifurcationDetector ConvTransposeWithDynamicPads CropAndResize GatherPacked MatMulFpQ4 "
        "MaxpoolWithMask WordConvEmbedding"
    ),
}

REFUSED = {name: reason for reason, names in _REASONS.items() for name in names.split()}
"""Operator -> why it is refused."""
