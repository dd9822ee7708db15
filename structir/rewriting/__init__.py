"""Rewrite rules: patterns written as ordinary calls, matched in dataflow graphs."""

from structir.lazy import lazy_names

_GUARDS = (
    "acts_element_wise dims_of divisible dtype_of made_by rank_of same_sizes used_once value_of"
)

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(_GUARDS.split(), "structir.rewriting.guards")
    | dict.fromkeys(("Parallel", "Rule", "rewrite"), "structir.rewriting.rule")
    | {
        "extract_matches": "structir.rewriting.extract",
        "nearest_candidate": "structir.rewriting.mismatch",
    },
)
