"""Trees of Python values: tuples, lists, dicts, named tuples, None and dataclasses with leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError

Children = tuple[Sequence[Any], Any]
Rebuild = Callable[[Any, Sequence[Any]], Any]


@attrs.frozen
class NodeType:
    """A container: `flatten` returns its children and the rest, `unflatten` builds it from these.

    `names` returns the names of the children, if they have names.
    """

    flatten: Callable[[Any], Children]
    unflatten: Rebuild
    names: Callable[[Any], tuple[str, ...] | None] = lambda rest: None


NODES: dict[type, NodeType] = {}


def register_node(
    kind: type,
    flatten: Callable[[Any], Children],
    unflatten: Rebuild,
    names: Callable[[Any], tuple[str, ...] | None] = lambda rest: None,
) -> type:
    """Registers a class as a container of trees.

    `flatten(value)` returns its children and hashable data, `unflatten(data, children)` builds a
    value from these. Returns the class.
    """
    NODES[kind] = NodeType(flatten, unflatten, names)
    return kind


def register_dataclass(
    kind: type, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] = ()
) -> type:
    """Registers a dataclass: `data_fields` are children, `meta_fields` are static. A decorator.

    By default every field that is not in `meta_fields` is a child.
    """
    fields = tuple(data_fields or [f.name for f in dataclasses.fields(kind)])
    fields = tuple([name for name in fields if name not in meta_fields])

    def flatten(value: Any) -> Children:
        data = tuple([getattr(value, name) for name in meta_fields])
        return [getattr(value, name) for name in fields], data

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        values = dict(zip(meta_fields, data, strict=True))
        return kind(**values, **dict(zip(fields, children, strict=True)))

    return register_node(kind, flatten, unflatten, lambda data: fields)


def _sorted_keys(value: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(value))
    except TypeError:
        return tuple(value)


def _key_names(keys: tuple[Any, ...]) -> tuple[str, ...] | None:
    usable = all([isinstance(key, str) and key.isidentifier() for key in keys])
    return keys if keys and usable else None


register_node(tuple, lambda v: (v, None), lambda _, children: tuple(children))
register_node(list, lambda v: (v, None), lambda _, children: list(children))
register_node(type(None), lambda v: ((), None), lambda _, children: None)
register_node(
    dict,
    lambda v: ([v[key] for key in _sorted_keys(v)], _sorted_keys(v)),
    lambda keys, children: dict(zip(keys, children, strict=True)),
    _key_names,
)


def _node_type(value: Any) -> NodeType | None:
    kind = type(value)
    node = NODES.get(kind)
    if node is None and isinstance(value, tuple) and hasattr(kind, "_fields"):
        rebuild: Rebuild = lambda _, children: kind(*children)  # noqa: E731
        names = tuple(kind._fields)
        node = NODES[kind] = NodeType(lambda v: (v, None), rebuild, lambda _: names or None)
    elif node is None and isinstance(value, dict):
        node = NODES[dict]
    return node


@attrs.frozen(cache_hash=True)
class TreeStructure:
    """The structure of a tree without its leaves; `kind` is None for a leaf."""

    kind: type | None = None
    data: Any = None
    children: tuple[TreeStructure, ...] = ()

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the children, if they have names."""
        return None if self.kind is None else NODES[self.kind].names(self.data)

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.kind is None else sum([child.leaves for child in self.children])

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return self.leaves

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Builds a tree of this structure from its leaves."""
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        children = [child._build(leaves) for child in self.children]
        return NODES[self.kind].unflatten(self.data, children)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Returns the subtrees of another tree at the leaves of this structure.

        Raises DiagnosticError if the tree has another structure above them.
        """
        if self.kind is None:
            return [tree]
        node = _node_type(tree)
        children, data = node.flatten(tree) if node else ((), None)
        if node is not NODES[self.kind] or (data, len(children)) != (self.data, len(self.children)):
            message = f"trees of different structure: expected {self}, found {structure(tree)}"
            hint = "give both trees the same containers, lengths and keys"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1103"))
        pairs = zip(self.children, children, strict=True)
        return [part for child, value in pairs for part in child.flatten_up_to(value)]

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        names = self.names or (self.data if self.kind is dict else None)
        parts = [str(child) for child in self.children]
        if names:
            parts = [f"{name}: {part}" for name, part in zip(names, parts, strict=True)]
        brackets: dict[type, Any] = {list: "[]", tuple: "()", dict: "{}"}
        opening, closing = brackets.get(self.kind, (f"{self.kind.__name__}(", ")"))
        return f"{opening}{', '.join(parts)}{closing}"


LEAF = TreeStructure()
IsLeaf = Callable[[Any], bool]


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeStructure]:
    """Returns the leaves of a tree, and its structure. The keys of a dict are sorted.

    `is_leaf(value)` returns True for a container that is a leaf.
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, into: list[Any], is_leaf: IsLeaf | None) -> TreeStructure:
    node = _node_type(tree) if is_leaf is None or not is_leaf(tree) else None
    if node is None:
        into.append(tree)
        return LEAF
    children, data = node.flatten(tree)
    kind: Any = type(tree) if type(tree) in NODES else dict
    parts = tuple([_flatten(child, into, is_leaf) for child in children])
    try:
        return _interned(kind, data, parts)
    except TypeError:  # data that cannot be hashed
        return TreeStructure(kind, data, parts)


@lru_cache(4096)
def _interned(kind: Any, data: Any, children: tuple[TreeStructure, ...]) -> TreeStructure:
    """Returns one object for equal structures, which are then compared by identity."""
    return TreeStructure(kind, data, children)


def unflatten(tree_structure: TreeStructure, leaves: Iterable[Any]) -> Any:
    """Builds a tree of a structure from its leaves."""
    return tree_structure.unflatten(leaves)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Returns the leaves of a tree."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeStructure:
    """Returns the structure of a tree."""
    return flatten(tree, is_leaf)[1]


def map(  # the name that users of JAX know
    function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None
) -> Any:
    """Returns a tree with the function applied to each leaf, and to the same parts of `rest`.

    Raises DiagnosticError if a tree of `rest` has another structure.
    """
    values, tree_structure = flatten(tree, is_leaf)
    others = [tree_structure.flatten_up_to(other) for other in rest]
    return tree_structure.unflatten([function(*v) for v in zip(values, *others, strict=True)])


def all_true(tree: Any) -> bool:
    """Whether all leaves of a tree are true."""
    return False not in [bool(leaf) for leaf in leaves(tree)]


def reduce(function: Callable[[Any, Any], Any], tree: Any, *initial: Any) -> Any:
    """Combines the leaves of a tree from the first to the last, after `initial` if it is passed."""
    values = iter([*initial, *leaves(tree)])
    result = next(values)
    for value in values:
        result = function(result, value)
    return result
