"""Importer of ONNX models: `from_onnx(model)`, `shapes_of(model)` and `annotate(model)`."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(("direct", "onnx_op"), "structir.frontend.onnx.registry")
    | {
        "OnnxNode": "structir.frontend.onnx.node",
        "annotate": "structir.frontend.onnx.annotation.annotate",
        "from_onnx": "structir.frontend.onnx.model",
        "shapes_of": "structir.frontend.onnx.shapes",
    },
)
