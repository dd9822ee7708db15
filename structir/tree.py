"""Functions on trees: containers of arrays."""

from structir.tracing.trees import (
    flatten,
    leaves,
    map,
    reduce,
    register_dataclass,
    register_node,
    structure,
    unflatten,
)

__all__ = [
    "flatten",
    "leaves",
    "map",
    "reduce",
    "register_dataclass",
    "register_node",
    "structure",
    "unflatten",
]
