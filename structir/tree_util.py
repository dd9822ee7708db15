"""Functions on trees under the names of `jax.tree_util`."""

from structir.tracing.trees import all_true as tree_all
from structir.tracing.trees import flatten as tree_flatten
from structir.tracing.trees import leaves as tree_leaves
from structir.tracing.trees import map as tree_map
from structir.tracing.trees import reduce as tree_reduce
from structir.tracing.trees import register_dataclass
from structir.tracing.trees import register_node as register_pytree_node
from structir.tracing.trees import structure as tree_structure
from structir.tracing.trees import unflatten as tree_unflatten

__all__ = [
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_reduce",
    "tree_structure",
    "tree_unflatten",
]
