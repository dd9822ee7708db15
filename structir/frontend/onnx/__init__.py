"""Importer of ONNX models: `from_onnx(model_or_path)` and `shapes_of(model_or_path)`."""

from structir.frontend.onnx.model import from_onnx
from structir.frontend.onnx.shapes import shapes_of

__all__ = ["from_onnx", "shapes_of"]
