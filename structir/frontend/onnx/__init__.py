"""Importer of ONNX models: `from_onnx(model_or_path)` and `shapes_of(model_or_path)`."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(("direct", "onnx_op"), "structir.frontend.onnx.registry")
    | {
        "OnnxNode": "structir.frontend.onnx.node",
        "from_onnx": "structir.frontend.onnx.model",
        "shapes_of": "structir.frontend.onnx.shapes",
    },
)
