"""The models of the benchmarks: well-known architectures with seeded random weights, as ONNX files."""
