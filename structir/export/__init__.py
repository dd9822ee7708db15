"""Exporters of programs as models of other formats."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "onnx": "structir.export.onnx:",
        "save_onnx": "structir.export.onnx.model",
        "save_stablehlo": "structir.export.stablehlo.module",
        "stablehlo": "structir.export.stablehlo:",
        "to_onnx": "structir.export.onnx.model",
        "to_stablehlo": "structir.export.stablehlo.module",
    },
)
