"""Schemas of operators of ONNX Runtime (domain com.microsoft), which the onnx package does not have."""

from onnx import AttributeProto

from treadle.frontends.onnx.formal import Signature
from treadle.frontends.onnx.microsoft_signature import signature

DOMAIN = "com.microsoft"

IN_STANDARD_DOMAIN = frozenset({"SimplifiedLayerNormalization"})
"""Operators that ONNX Runtime has in ai.onnx, without a domain of its own."""

_ONE = "X:T x_scale:F x_zero_point:T? y_scale:F y_zero_point:T?"
_TWO = "A:T A_scale:F A_zero_point:T? B:T B_scale:F B_zero_point:T? C_scale:F C_zero_point:T?"
_INT, _INTS = AttributeProto.INT, AttributeProto.INTS
_FLOAT, _FLOATS = AttributeProto.FLOAT, AttributeProto.FLOATS
_STRING, _STRINGS = AttributeProto.STRING, AttributeProto.STRINGS
_PRODUCT = {"alpha": _FLOAT, "transA": _INT, "transB": _INT}
_WINDOW = {
    "auto_pad": _STRING,
    "ceil_mode": _INT,
    "channels_last": _INT,
    "count_include_pad": _INT,
    "kernel_shape": _INTS,
    "pads": _INTS,
    "strides": _INTS,
}

_CONV = {
    "auto_pad": _STRING,
    "dilations": _INTS,
    "group": _INT,
    "kernel_shape": _INTS,
    "pads": _INTS,
    "strides": _INTS,
}
_ACTIVATION = {f"activation_{name}": _FLOAT for name in ("alpha", "beta", "gamma")} | {"activation": _STRING}
_ATTENTION = {"mask_filter_value": _FLOAT, "num_heads": _INT, "scale": _FLOAT, "unidirectional": _INT}
_PROCESSED = "repetition_penalty:F? vocab_mask:I? prefix_vocab_mask:I? attention_mask:I?"
_SEARCHED = ("decoder", "eos_token_id", "pad_token_id")
_SEARCH = dict.fromkeys(("decoder", "encoder", "init_decoder"), AttributeProto.GRAPH) | dict.fromkeys(
    (*_SEARCHED[1:], "decoder_start_token_id", "model_type", "no_repeat_ngram_size", "vocab_size"), _INT
)
_STATISTICS = "output:R mean:F? inv_std_var:F? input_skip_bias_sum:R?"

SIGNATURES: dict[str, Signature] = {
    found.name: found
    for found in (
        signature(
            "Attention",
            "input:R weights:R bias:R? mask_index:I? past:R? attention_bias:R? past_sequence_length:I?",
            "output:R present:R?",
            _ATTENTION
            | {"do_rotary": _INT, "past_present_share_buffer": _INT, "qkv_hidden_sizes": _INTS}
            | {"rotary_embedding_dim": _INT},
            "num_heads",
        ),
        signature(
            "BeamSearch",
            f"input_ids:I max_length:I min_length:I? num_beams:I num_return_sequences:I length_penalty:F? {_PROCESSED} "
            "decoder_input_ids:I? logits_processor:I?",
            "sequences:I sequences_scores:F? scores:F?",
            _SEARCH | {"early_stopping": _INT},
            *_SEARCHED,
        ),
        signature("BiasAdd", "X:R bias:R skip:R", "Y:R", {}),
        signature("BiasGelu", "A:R B:R", "C:R", {}),
        signature("BiasSoftmax", "data:R bias:R", "output:R", {"axis": _INT, "is_inner_broadcast": _INT}),
        signature("BiasSplitGelu", "X:R bias:R", "Y:R", {}),
        signature("CDist", "A:R B:R", "C:R", {"metric": _STRING}),
        signature("DequantizeLinear", "x:Q x_scale:M x_zero_point:Q?", "y:M", {"axis": _INT}),
        signature(
            "DynamicQuantizeLSTM",
            "X:F W:T R:T B:F? sequence_lens:I? initial_h:F? initial_c:F? P:F? W_scale:F W_zero_point:T R_scale:F"
            " R_zero_point:T",
            "Y:F? Y_h:F? Y_c:F?",
            dict.fromkeys(("activation_alpha", "activation_beta"), _FLOATS)
            | {
                "activations": _STRINGS,
                "clip": _FLOAT,
                "direction": _STRING,
                "hidden_size": _INT,
                "input_forget": _INT,
            },
        ),
        signature("DynamicQuantizeMatMul", "A:F B:B b_scale:F b_zero_point:B? bias:F?", "Y:F", {}),
        signature(
            "EmbedLayerNormalization",
            "input_ids:I segment_ids:I? word_embedding:R position_embedding:R segment_embedding:R? gamma:R beta:R"
            " mask:I? position_ids:I?",
            "output:R mask_index:I? embedding_sum:R?",
            {"epsilon": _FLOAT, "mask_index_type": _INT},
        ),
        signature("ExpandDims", "X:W axis:S", "Y:W", {}),
        signature("FastGelu", "X:R bias:R?", "Y:R", {}),
        signature(
            "FusedConv", "X:R W:R B:R? Z:R?", "Y:R", _CONV | {"activation": _STRING, "activation_params": _FLOATS}
        ),
        signature("FusedGemm", "A:R B:R C:R?", "Y:R", _PRODUCT | _ACTIVATION | {"beta": _FLOAT}),
        signature("Inverse", "X:R", "Y:R", {}),
        signature(
            "CausalConvWithState",
            "input:Y weight:Y bias:Y? past_state:Y?",
            "output:Y present_state:Y state_update:Y?",
            dict.fromkeys(
                ("channels_last", "dilation", "input_channel_offset", "input_channels", "ndim", "state_channels_last"),
                _INT,
            )
            | dict.fromkeys(("state_length", "state_update_capacity", "state_window"), _INT)
            | {"activation": _STRING},
        ),
        signature(
            "LinearAttention",
            "query:Y key:Y value:Y past_state:E? decay:Y? beta:Y?",
            "output:Y present_state:E",
            dict.fromkeys(("chunk_size", "kv_num_heads", "q_num_heads", "state_window"), _INT)
            | {"scale": _FLOAT, "update_rule": _STRING},
            "kv_num_heads",
            "q_num_heads",
        ),
        signature("LinearAttentionGate", "a:Y dt_bias:F decay_scale:F b:Y?", "decay:Y beta:Y?", {}),
        signature("Unique", "x:F", "y:F idx:L counts:L", {}),
        signature("SparseToDenseMatMul", "A:R B:R", "Y:R", _PRODUCT),
        signature("FusedMatMul", "A:R B:R", "Y:R", _PRODUCT | {"transBatchA": _INT, "transBatchB": _INT}),
        signature(
            "FusedMatMulActivation",
            "A:R B:R",
            "Y:R",
            _PRODUCT | _ACTIVATION | {"activation_axis": _INT, "transBatchA": _INT, "transBatchB": _INT},
            "activation",
        ),
        signature(
            "GatherBlockQuantized",
            "data:U indices:N scales:R zero_points:U?",
            "output:R",
            {"bits": _INT, "block_size": _INT, "gather_axis": _INT, "quantize_axis": _INT},
        ),
        signature("Gelu", "X:R", "Y:R", {}),
        signature("GridSample", "X:R Grid:R", "Y:R", {"align_corners": _INT, "mode": _STRING, "padding_mode": _STRING}),
        signature(
            "GroupNorm",
            "X:M gamma:H beta:H",
            "Y:M",
            {"activation": _INT, "channels_last": _INT, "epsilon": _FLOAT, "groups": _INT},
            *("activation", "groups"),
        ),
        signature(
            "GroupQueryAttention",
            "query:R key:R? value:R? past_key:R? past_value:R? seqlens_k:I total_sequence_length:I cos_cache:R?"
            " sin_cache:R? position_ids:L? attention_bias:R? head_sink:R? k_scale:F? v_scale:F? q_norm_weight:R?"
            " k_norm_weight:R? query_seqlens:I?",
            "output:R present_key:R? present_value:R? output_qk:R?",
            dict.fromkeys(("k_quant_type", "v_quant_type"), _STRING)
            | dict.fromkeys(("k_norm_epsilon", "q_norm_epsilon", "qk_norm_epsilon", "scale", "softcap"), _FLOAT)
            | dict.fromkeys(
                ("causal", "do_rotary", "kv_cache_bit_width", "kv_num_heads", "local_window_size", "num_heads"), _INT
            )
            | dict.fromkeys(("qk_output", "rotary_interleaved", "sliding_window_cache", "smooth_softmax"), _INT),
            *("kv_num_heads", "num_heads"),
        ),
        signature(
            "MatMulIntegerToFloat",
            "A:A B:B a_scale:F b_scale:F a_zero_point:A? b_zero_point:B? bias:F?",
            "Y:F",
            {},
        ),
        signature(
            "MatMulNBits",
            "A:R B:U scales:R zero_points:Z? g_idx:I? bias:R?",
            "Y:R",
            {"K": _INT, "N": _INT, "accuracy_level": _INT, "bits": _INT, "block_size": _INT, "weight_prepacked": _INT},
            *("K", "N", "block_size"),
        ),
        signature("MulInteger", "A:T A_zero_point:T? B:T B_zero_point:T?", "C:I", {}),
        signature(
            "MultiHeadAttention",
            "query:R key:R? value:R? bias:R? key_padding_mask:I? attention_bias:R? past_key:R? past_value:R?"
            " past_sequence_length:I? cache_indirection:I?",
            "output:R present_key:R? present_value:R? qk:R?",
            _ATTENTION,
            "num_heads",
        ),
        signature(
            "GreedySearch",
            f"input_ids:I max_length:I min_length:I? {_PROCESSED}",
            "sequences:I",
            _SEARCH,
            *_SEARCHED,
        ),
        signature(
            "Sampling",
            f"input_ids:I max_length:I min_length:I? {_PROCESSED} presence_mask:I? seed:I?",
            "sequences:I filtered_logits:F?",
            _SEARCH
            | dict.fromkeys(("custom", "min_tokens_to_keep"), _INT)
            | dict.fromkeys(("filter_value", "presence_penalty", "temperature", "top_p"), _FLOAT),
            *_SEARCHED,
        ),
        signature("NGramRepeatBlock", "input_ids:L scores:F", "scores_out:F", {"ngram_size": _INT}, "ngram_size"),
        signature("NhwcConv", "X:R W:R B:R?", "Y:R", _CONV),
        signature(
            "NhwcFusedConv", "X:R W:R B:R? Z:R?", "Y:R", _CONV | {"activation": _STRING, "activation_params": _FLOATS}
        ),
        signature(
            "NhwcMaxPool",
            "x:T",
            "y:T",
            {"auto_pad": _STRING, "ceil_mode": _INT, "dilations": _INTS, "kernel_shape": _INTS, "pads": _INTS}
            | {"strides": _INTS},
            "kernel_shape",
        ),
        signature("Pad", "data:R pads:L value:R?", "output:R", {"mode": _STRING}),
        signature(
            "QAttention",
            "input:A weight:B bias:F input_scale:F weight_scale:F mask_index:I? input_zero_point:A?"
            " weight_zero_point:B? past:F?",
            "output:F present:F?",
            _ATTENTION | {"do_rotary": _INT, "past_present_share_buffer": _INT},
            "num_heads",
        ),
        signature(
            "QGemm",
            "A:A a_scale:F a_zero_point:A B:B b_scale:F b_zero_point:B C:I? y_scale:F? y_zero_point:T?",
            "Y:V",
            _PRODUCT,
        ),
        signature("QLinearAdd", _TWO, "Y:T", {}),
        signature("QLinearAveragePool", _ONE, "Y:T", _WINDOW, "kernel_shape"),
        signature("QLinearConcat", "Y_scale:F Y_zero_point:T inputs:V*", "Y:T", {"axis": _INT}, "axis"),
        signature(
            "QLinearConv",
            "x:A x_scale:F x_zero_point:A w:B w_scale:F w_zero_point:B y_scale:F y_zero_point:T B:I?",
            "y:T",
            _CONV | {"channels_last": _INT},
        ),
        signature("QLinearGlobalAveragePool", _ONE, "Y:T", {"channels_last": _INT}),
        signature("QLinearLeakyRelu", _ONE, "Y:T", {"alpha": _FLOAT}),
        signature("QLinearMul", _TWO, "Y:T", {}),
        signature(
            "QLinearReduceMean",
            "data:T data_scale:F data_zero_point:T? reduced_scale:F reduced_zero_point:T?",
            "reduced:T",
            {"axes": _INTS, "keepdims": _INT},
            *("axes", "keepdims"),
        ),
        signature("QLinearSigmoid", _ONE, "Y:T", {}),
        signature("QLinearSoftmax", _ONE, "Y:T", {"axis": _INT, "opset": _INT}, "opset"),
        signature(
            "QLinearWhere",
            "condition:C X:T x_scale:F x_zero_point:T Y:T y_scale:F y_zero_point:T z_scale:F z_zero_point:T",
            "Z:T",
            {},
        ),
        signature("QuantizeLinear", "x:M y_scale:M y_zero_point:G?", "y:G", {"axis": _INT}),
        signature("QuickGelu", "X:R", "Y:R", {"alpha": _FLOAT}),
        signature("Range", "start:W limit:W delta:W?", "Y:W", {}),
        signature(
            "RotaryEmbedding",
            "input:R position_ids:L cos_cache:R sin_cache:R",
            "output:R",
            {"interleaved": _INT, "is_packed_batching": _INT, "num_heads": _INT}
            | {"rotary_embedding_dim": _INT, "scale": _FLOAT},
        ),
        signature(
            "SimplifiedLayerNormalization",
            "X:R scale:R",
            "Y:R inv_std_var:F?",
            {"axis": _INT, "epsilon": _FLOAT, "stash_type": _INT},
        ),
        signature(
            "SkipLayerNormalization",
            "input:R skip:R gamma:R beta:R? bias:R?",
            _STATISTICS,
            {"epsilon": _FLOAT},
        ),
        signature(
            "SkipSimplifiedLayerNormalization", "input:R skip:R gamma:R bias:R?", _STATISTICS, {"epsilon": _FLOAT}
        ),
        signature("TransposeMatMul", "A:R B:R", "Y:R", _PRODUCT),
        signature("Trilu", "X:W k:L?", "Y:W", {"upper": _INT}),
        signature(
            "BiasDropout",
            "data:R bias:R residual:R? ratio:R? training_mode:C?",
            "output:R mask:C?",
            {"seed": _INT},
        ),
        signature(
            "BranchwiseRMSNorm",
            "X:R scale:R?",
            "Y:R",
            {"epsilon": _FLOAT, "num_branches": _INT},
        ),
        signature(
            "ComplexMul",
            "A:R B:R",
            "C:R",
            {},
        ),
        signature(
            "ComplexMulConj",
            "A:R B:R",
            "C:R",
            {},
        ),
        signature(
            "DecoderMaskedMultiHeadAttention",
            "query:R key:R? value:R? mask_index:I? attention_bias:R? past_key:R? past_value:R? past_sequence_length:I?"
            " beam_width:I? cache_indirection:I? bias:R?",
            "output:R present_key:R? present_value:R? qk:R?",
            {"mask_filter_value": _FLOAT, "num_heads": _INT, "output_qk": _INT, "past_present_share_buffer": _INT}
            | {"scale": _FLOAT},
            "num_heads",
        ),
        signature(
            "GatedAdd",
            "X:R Y:R gate:R gate_weight:R?",
            "output:R",
            {},
        ),
        signature(
            "GatedRMSNorm",
            "X:R scale:R gate:R",
            "Y:R",
            {"activation": _STRING, "epsilon": _FLOAT},
        ),
        signature(
            "GatedRelativePositionBias",
            "query_layer:R query_bias:R rel_pos:R weight:R bias:R eco_a:R token_offset:I?",
            "output:R",
            {"num_heads": _INT},
            "num_heads",
        ),
        signature(
            "GatherND",
            "data:W indices:N",
            "output:W",
            {},
        ),
        signature(
            "GemmFastGelu",
            "X:R W:R bias:R?",
            "Y:R",
            {},
        ),
        signature(
            "GemmaRotaryEmbedding",
            "emb:F q:R q_rot:R k:R k_rot:R",
            "output1:R output2:R",
            {},
        ),
        signature(
            "IsAllFinite",
            "input:R*",
            "output:C",
            {"isinf_only": _INT, "isnan_only": _INT},
        ),
        signature(
            "MRotaryEmbedding",
            "input:R position_ids:L cos_cache:R sin_cache:R",
            "output:R",
            {"interleaved": _INT, "is_packed_batching": _INT, "mrope_layout": _INT, "mrope_section": _INTS}
            | {"num_heads": _INT, "rotary_embedding_dim": _INT, "scale": _FLOAT},
            "mrope_section",
        ),
        signature(
            "MatMulBnb4",
            "A:R B:U absmax:R",
            "Y:R",
            dict.fromkeys(("K", "N", "block_size", "quant_type", "training_mode", "transB"), _INT),
            *("K", "N", "block_size", "quant_type"),
        ),
        signature(
            "MatMulInteger16",
            "A:P B:P",
            "Y:I",
            {},
        ),
        signature(
            "PackedAttention",
            "input:R weights:R bias:R token_offset:I cumulative_sequence_length:I attention_bias:R?",
            "output:R",
            {"num_heads": _INT, "qkv_hidden_sizes": _INTS, "scale": _FLOAT},
            "num_heads",
        ),
        signature(
            "PackedMultiHeadAttention",
            "query:R key:R? value:R? bias:R? token_offset:I cumulative_sequence_length:I attention_bias:R?",
            "output:R",
            {"mask_filter_value": _FLOAT, "num_heads": _INT, "scale": _FLOAT},
            "num_heads",
        ),
        signature(
            "QEmbedLayerNormalization",
            "input_ids:I segment_ids:I? word_embedding_quant:T position_embedding_quant:T segment_embedding:T?"
            " gamma_quant:T beta_quant:T mask:I? word_embedding_scale:F position_embedding_scale:F"
            " segment_embedding_scale:F? gamma_scale:F beta_scale:F word_embedding_zero_point:T"
            " position_embedding_zero_point:T segment_embedding_zero_point:T?"
            " gamma_zero_point:T beta_zero_point:T",
            "layernorm_out:F mask_index_out:I",
            {"epsilon": _FLOAT},
        ),
        signature(
            "ReduceSumInteger",
            "data:T",
            "reduced:I",
            {"axes": _INTS, "keepdims": _INT},
            *("axes", "keepdims"),
        ),
        signature(
            "RemovePadding",
            "input:R sequence_token_count:I",
            "output:R token_offset:I cumulated_seq_len:I max_seq_len:I",
            {},
        ),
        signature(
            "RestorePadding",
            "input:R token_offset:I",
            "output:R",
            {},
        ),
        signature(
            "SampleOp",
            "X:W",
            "Y:W",
            {},
        ),
        signature(
            "ScaledSiLU",
            "X:R scale:Y?",
            "Y:R",
            {"alpha": _FLOAT},
        ),
        signature(
            "SkipGroupNorm",
            "X:M gamma:H beta:H skip:M bias:M?",
            "Y:M S:M?",
            {"activation": _INT, "channels_last": _INT, "epsilon": _FLOAT, "groups": _INT},
            *("activation", "groups"),
        ),
        signature(
            "SwiGLU",
            "gate:R up:R?",
            "output:R",
            dict.fromkeys(("activation_alpha", "activation_beta", "limit"), _FLOAT) | {"round_activation": _INT},
        ),
        signature(
            "Tokenizer",
            "X:X",
            "Y:X",
            {"mark": _INT, "mincharnum": _INT, "pad_value": _STRING, "separators": _STRINGS, "tokenexp": _STRING},
            *("mark", "mincharnum", "pad_value"),
        ),
        signature(
            "TorchEmbedding",
            "weight:W indices:L padding_idx:L? scale_grad_by_freq:C?",
            "Y:W",
            {},
        ),
        signature(
            "UnfoldTensor",
            "input:W",
            "output:W",
            {"dim": _INT, "size": _INT, "step": _INT},
            "size",
        ),
    )
}
"""Operator -> its signature."""
