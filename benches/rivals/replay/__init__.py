"""Replays ONNX graphs with the functions of array libraries, each of which compiles them in its own way."""
