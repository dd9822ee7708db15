"""The table of mappings: for each op of torch, what builds it, and how a view of it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Build = Callable[[Any], Any]  # from the node as a mapping sees it to its outputs
Write = Callable[[Any, Any], Any]  # from a view's node and new elements to the whole's new elements

_builds: dict[str, Build] = {}
_views: dict[str, Write | None] = {}
_copies: dict[str, Callable[[Any], bool]] = {}


def torch_op(*names: str) -> Callable[[Build], Build]:
    """Register what builds these ops: `add` stands for every overload, `add.Scalar` for one.

    A name without a namespace is one of `aten`.
    """

    def register(build: Build) -> Build:
        for name in names:
            _builds[name if ":" in name else f"aten.{name}"] = build
        return build

    return register


def direct(ops: Mapping[str, Any]) -> None:
    """Register ops of one operand, which is taken in the dtype of the result."""
    for name, op in ops.items():
        torch_op(name)(_applied(op))


def _applied(op: Any) -> Build:
    return lambda node: op(node.operand("self", node.out_dtype()))


def view_of(*names: str, copies: Callable[[Any], bool] | None = None) -> Callable[[Write], Write]:
    """Register how new elements of a view are written into what it is a view of; `copies` tells of
    a node whether it may give elements of its own instead."""

    def register(write: Write) -> Write:
        for name in names:
            _views[f"aten.{name}"] = write
            if copies is not None:
                _copies[f"aten.{name}"] = copies
        return write

    return register


def find_build(target: str) -> Build | None:
    """What builds an op; None where nothing does."""
    found = _builds.get(target) or _builds.get(f":{target}")
    if found is not None:
        return found
    base, _, overload = target.rpartition(".")
    if overload == "out" or overload.endswith("_out"):
        return None
    return _builds.get(base)


def find_view(target: str) -> Write | None:
    """How a view is written; None where the op makes no view."""
    return _views.get(target) or _views.get(target.rpartition(".")[0])


def may_copy(target: str) -> Callable[[Any], bool] | None:
    """What tells whether an op makes a copy in place of a view."""
    return _copies.get(target) or _copies.get(target.rpartition(".")[0])


def in_place(target: str) -> str | None:
    """For an op that writes its first operand, the op that gives the same as a new tensor."""
    space, _, rest = target.partition(".")
    base, _, overload = rest.partition(".")
    if not base.endswith("_") or base.endswith("__"):
        return None
    return f"{space}.{base[:-1]}.{overload}"
