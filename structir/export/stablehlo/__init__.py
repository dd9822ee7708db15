"""Exporter of StableHLO: `to_stablehlo(module)` and `save_stablehlo(module, path)`."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "HloCall": "structir.export.stablehlo.call",
        "HloTensor": "structir.export.stablehlo.tensors",
        "exports": "structir.export.stablehlo.registry",
        "save_stablehlo": "structir.export.stablehlo.module",
        "to_stablehlo": "structir.export.stablehlo.module",
    },
)
