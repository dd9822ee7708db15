"""ONNX models as modules: `from_onnx(model_or_path)`."""

from structir.frontend.onnx.model import from_onnx

__all__ = ["from_onnx"]
