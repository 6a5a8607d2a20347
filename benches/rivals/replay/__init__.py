"""Replays ONNX graphs with the functions of array libraries, so that each can run the same models compiled its own way."""
