"""Importers of ONNX models, exported torch programs and functions of JAX as modules."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "from_onnx": "structir.frontend.onnx.model",
        "from_exported_program": "structir.frontend.torch.model",
        "from_pt2": "structir.frontend.torch.model",
        "from_jax": "structir.frontend.jax.model",
        "jax": "structir.frontend.jax:",
        "onnx": "structir.frontend.onnx:",
        "torch": "structir.frontend.torch:",
    },
)
