"""Packages that use onnxruntime, on treadle and beside onnxruntime."""
