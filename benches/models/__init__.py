"""The models that benches run: well-known architectures with seeded random weights, built as ONNX files."""
