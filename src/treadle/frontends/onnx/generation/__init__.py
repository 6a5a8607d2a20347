"""Operators of com.microsoft that generate texts, as loops of ai.onnx around their decoders."""
