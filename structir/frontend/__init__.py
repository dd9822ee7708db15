"""Importers of ONNX models and exported torch programs as StructIR modules."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "from_onnx": "structir.frontend.onnx.model",
        "from_exported_program": "structir.frontend.torch.model",
        "from_pt2": "structir.frontend.torch.model",
        "onnx": "structir.frontend.onnx:",
        "torch": "structir.frontend.torch:",
    },
)
