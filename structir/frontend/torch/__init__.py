"""Importer of exported torch programs: `from_exported_program(ep)` and `from_pt2(path)`."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(("complex_op", "direct", "torch_op"), "structir.frontend.torch.registry")
    | dict.fromkeys(("from_exported_program", "from_pt2"), "structir.frontend.torch.model")
    | {
        "ComplexTensor": "structir.frontend.torch.complex",
        "structir_backend": "structir.frontend.torch.dynamo",
        "FxNode": "structir.frontend.torch.node",
    },
)
