"""Exporter of ONNX models: `to_onnx(module)` and `save_onnx(module, path)`."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "OpCall": "structir.export.onnx.call",
        "exports": "structir.export.onnx.registry",
        "save_onnx": "structir.export.onnx.model",
        "to_onnx": "structir.export.onnx.model",
    },
)
