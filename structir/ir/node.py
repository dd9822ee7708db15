"""Node classes: frozen attrs classes with traversal and rebuilding derived from their fields."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import attrs

from structir.counterparts import WithCounterparts
from structir.lazy import provided_module

printer = provided_module("printer")
notebook = provided_module("notebook")
T = TypeVar("T")
NOT_COMPILED = (
    "a program cannot be called before it is compiled: `structir.compile(program)(x)`, "
    "or `structir.interpret(program, x)`"
)


class Node(WithCounterparts):
    """The base class of IR nodes. Subclasses only add fields."""

    __slots__ = ()

    def __str__(self) -> str:
        text: str = printer.text_of(self)
        return text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook displays."""
        text: str = notebook.html_of(self)
        return text


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def node(cls: type[T]) -> type[T]:
    """Decorates a node class: frozen, slotted, compared by identity."""
    return attrs.frozen(slots=True, eq=False, repr=False)(cls)


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}
_FIELDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}  # read all fields of a class
_INIT: dict[type, Init] = {}


class Init(NamedTuple):
    """How a node class is constructed: the positions of its fields as arguments, and a function
    that reads all."""

    positions: dict[str, int]
    values_of: Callable[[Any], tuple[Any, ...]]


def field_names(cls: Any) -> tuple[str, ...]:
    """Returns the field names of a node class in order, without `span`."""
    names = _FIELD_NAMES.get(cls)
    if names is None:
        names = tuple(f.name for f in attrs.fields(cls) if f.name != "span")
        _FIELD_NAMES[cls] = names
    return names


def _init_of(cls: Any) -> Init:
    init = _INIT.get(cls)
    if init is None:
        fields = [f for f in attrs.fields(cls) if f.init]
        names = tuple([f.name for f in fields])
        positions = {name: position for position, name in enumerate(names)}
        init = _INIT[cls] = Init(positions, _fields_getter(names))
    return init


def parts(node: Any) -> list[Any]:
    """Returns the direct children of a node: the values of its fields, and items of tuples."""
    cls = type(node)
    fields = _FIELDS.get(cls)
    if fields is None:
        fields = _FIELDS[cls] = _fields_getter(field_names(cls))
    children: list[Any] = []
    for value in fields(node):
        if type(value) is tuple:
            children += value
        elif value is not None:
            children.append(value)
    return children


def _fields_getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple([getattr(node, name) for name in names])


def rebuild(old: T, visit: Callable[[Any], Any]) -> T:
    """Returns the node over visited fields, or the same object if none changed.

    Tuples are visited element by element.
    """
    changed = False
    names, values_of = _init_of(type(old))
    values: list[Any] = []
    for name, value in zip(names, values_of(old), strict=True):
        new = value
        if type(value) is tuple:
            items = [visit(item) for item in value]
            if not all(map(is_, items, value)):
                new, changed = tuple(items), True
        elif value is not None and name != "span":
            new = visit(value)
            changed = changed or new is not value
        values.append(new)
    return type(old)(*values) if changed else old


def replace(old: T, **fields: Any) -> T:
    """Returns the node with some fields replaced.

    Raises TypeError for a name that is not a field of the node.
    """
    cls = type(old)
    positions, values_of = _INIT.get(cls) or _init_of(cls)
    values = list(values_of(old))
    for name, value in fields.items():
        if name not in positions:
            raise TypeError(f"{cls.__name__} has no field `{name}`: it has {', '.join(positions)}")
        values[positions[name]] = value
    return cls(*values)


class ShownAsText:
    """A base of results that a notebook or a prompt displays as they print."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"
