"""From a Graph to an ONNX model: the way back from the importer."""
