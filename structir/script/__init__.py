"""The namespaces of the DSL: R (functions and ops), I (modules and kernels), T (sizes)."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "I": "structir.script.modules",
        "R": "structir.script.language",
        "T": "structir.script.sizes",
    },
)
