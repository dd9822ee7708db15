"""What every node is: frozen fields, from which traversal and rebuilding follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, dataclass_transform

import attrs

from structir.lazy import lazy_module

printer = lazy_module("structir.printer.text")
notebook = lazy_module("structir.tools.explorer.notebook")
T = TypeVar("T")


class Node:
    """A piece of a program. Subclasses only add fields."""

    __slots__ = ()

    def __str__(self) -> str:
        text: str = printer.text_of(self)
        return text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        text: str = notebook.html_of(self)
        return text


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def node(cls: type[T]) -> type[T]:
    """Make a node class: frozen, slotted, compared by identity."""
    return attrs.frozen(slots=True, eq=False, repr=False)(cls)


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}
_INIT_NAMES: dict[type, tuple[tuple[str, str], ...]] = {}


def field_names(cls: Any) -> tuple[str, ...]:
    """The fields of a node class that can hold parts of a program, in order."""
    names = _FIELD_NAMES.get(cls)
    if names is None:
        names = tuple(f.name for f in attrs.fields(cls) if f.name != "span")
        _FIELD_NAMES[cls] = names
    return names


def _init_names(cls: Any) -> tuple[tuple[str, str], ...]:
    names = _INIT_NAMES.get(cls)
    if names is None:
        names = tuple((f.name, f.alias or f.name) for f in attrs.fields(cls) if f.init)
        _INIT_NAMES[cls] = names
    return names


def parts(node: Any) -> Iterator[Any]:
    """Yields the direct children of a node: the values of its fields, and items of tuples."""
    for name in field_names(type(node)):
        value = getattr(node, name)
        if type(value) is tuple:
            yield from value
        elif value is not None:
            yield value


def rebuild(old: T, visit: Callable[[Any], Any]) -> T:
    """The same node over visited fields (tuples element by element); the very same object if none
    changed."""
    changed = False
    fields: dict[str, Any] = {}
    for name, alias in _init_names(type(old)):
        value = getattr(old, name)
        if name == "span":
            new = value
        elif type(value) is tuple:
            new = tuple([visit(item) for item in value])
            if all(a is b for a, b in zip(new, value, strict=True)):
                new = value
        else:
            new = visit(value)
        changed = changed or new is not value
        fields[alias] = new
    return type(old)(**fields) if changed else old


def replace(old: T, **fields: Any) -> T:
    """The same node with some fields exchanged."""
    given = {
        alias: fields.pop(name) if name in fields else getattr(old, name)
        for name, alias in _init_names(type(old))
    }
    return type(old)(**given, **fields)
