"""The registry of mappings: the function that builds each torch op, and the write-back of views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Build = Callable[[Any], Any]  # node -> results
Write = Callable[[Any, Any], Any]  # node of a view, new elements of the view -> new base
Condition = Callable[[Any, Mapping[str, Any]], bool]  # node spec, metadata -> is the result a view

_builds: dict[str, Build] = {}
_complex_builds: dict[str, Build] = {}
_views: dict[str, Write | None] = {}
_updates: dict[str, tuple[tuple[str, ...], str]] = {}
_copies: dict[str, Callable[[Any], bool]] = {}
_conditions: dict[str, Condition] = {}


def torch_op(*names: str) -> Callable[[Build], Build]:
    """Registers the decorated function as the mapping of these ops.

    `add` is every overload, `add.Scalar` one of them. A name without a namespace is in `aten`; a
    name that starts with a colon is complete, such as `:higher_order.cond`.
    """

    def register(build: Build) -> Build:
        for name in names:
            _builds[name if ":" in name else f"aten.{name}"] = build
        return build

    return register


def complex_op(*names: str) -> Callable[[Build], Build]:
    """Registers the decorated function as the mapping of these ops for complex operands or
    results; the names are those of `torch_op`."""

    def register(build: Build) -> Build:
        _complex_builds.update({name if ":" in name else f"aten.{name}": build for name in names})
        return build

    return register


def direct(ops: Mapping[str, Any]) -> None:
    """Registers unary ops, whose operand is cast to the dtype of the result."""
    for name, op in ops.items():
        torch_op(name)(_build_direct(op))


def _build_direct(op: Any) -> Build:
    return lambda node: op(node.operand("self", node.out_dtype()))


def view_of(
    *names: str,
    copies: Callable[[Any], bool] | None = None,
    condition: Condition | None = None,
) -> Callable[[Write], Write]:
    """Registers the decorated function as the write-back of these view ops.

    `copies(node)` returns whether the op may return a copy instead of a view, and
    `condition(spec, tensors)` whether it returns a view, by the metadata of the graph's tensors.
    """

    def register(write: Write) -> Write:
        for name in names:
            _views[f"aten.{name}"] = write
            if copies is not None:
                _copies[f"aten.{name}"] = copies
            if condition is not None:
                _conditions[f"aten.{name}"] = condition
        return write

    return register


def find_build(target: str, is_complex: bool = False) -> Build | None:
    """Returns the mapping of an op, for complex operands or else for real ones, or None.

    An op `<view>_copy` without a mapping of its own has that of the view.
    """
    builds = _complex_builds if is_complex else _builds
    build = _find(builds, target)
    if build is None and (view := _view_of_copy(target)) is not None:
        build = _find(builds, view)
    return build


def _find(builds: Mapping[str, Build], target: str) -> Build | None:
    value = builds.get(target) or builds.get(f":{target}")
    if value is not None:
        return value
    base, _, overload = target.rpartition(".")
    if overload == "out" or overload.endswith("_out"):
        return None
    return builds.get(base)


def _view_of_copy(target: str) -> str | None:
    """Returns the view op of an op that copies a view (`diagonal_copy` -> `diagonal`), or None."""
    space, _, rest = target.partition(".")
    base, _, overload = rest.partition(".")
    return f"{space}.{base[:-5]}.{overload}" if base.endswith("_copy") else None


def find_view(target: str) -> Write | None:
    """Returns the write-back of a view op, or None if the op returns no view."""
    return _views.get(target) or _views.get(target.rpartition(".")[0])


def is_view(spec: Any, tensors: Mapping[str, Any]) -> bool:
    """Returns whether the result of a node may alias its first operand."""
    if find_view(spec.target) is None:
        return False
    base = spec.target.rpartition(".")[0]
    condition = _conditions.get(spec.target) or _conditions.get(base)
    return condition is None or condition(spec, tensors)


def changes_metadata(target: str) -> bool:
    """Returns whether an in-place op of this functional form changes the shape of its operand.

    Views under a condition, such as inactive dropout, keep the shape: they return their operand.
    """
    is_conditional = target in _conditions or target.rpartition(".")[0] in _conditions
    return find_view(target) is not None and not is_conditional


def may_copy(target: str) -> Callable[[Any], bool] | None:
    """Returns the predicate whether a view op may return a copy, or None."""
    return _copies.get(target) or _copies.get(target.rpartition(".")[0])


def updates(name: str, args: tuple[str, ...], flag: str) -> None:
    """Registers that an op writes these arguments if its argument `flag` is true, or absent."""
    _updates[f"aten.{name}"] = args, flag


def updated_args(target: str, args: Mapping[str, Any]) -> list[Any]:
    """Returns the arguments that an op writes although its name has no trailing underscore."""
    updated = _updates.get(target) or _updates.get(target.rpartition(".")[0])
    names, flag = updated or ((), "")
    return [args.get(name) for name in names if args.get(flag, True)]


def in_place(target: str) -> str | None:
    """Returns the functional form of an in-place op (`add_` -> `add`, `__iand__` -> `__and__`), or
    None."""
    space, _, rest = target.partition(".")
    base, _, overload = rest.partition(".")
    if base.startswith("__i") and base.endswith("__") and space == "aten":
        return f"{space}.__{base[3:]}.{overload}"
    if not base.endswith("_") or base.endswith("__") or space == "_operator":
        return None  # `_operator.and_` is Python's `&`
    return f"{space}.{base[:-1]}.{overload}"
