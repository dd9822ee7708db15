"""Equality saturation: e-graphs over values of the program, e-matching of rules, extraction, and
explanations."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EGraph": "structir.rewriting.egraph.graph",
        "Saturation": "structir.rewriting.egraph.saturation",
        "Budget": "structir.rewriting.egraph.saturation",
    },
)
