"""Writes the inferred type of every value back into an ONNX model: `annotate(model)`."""
