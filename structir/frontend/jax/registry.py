"""The registry of mappings: the function that builds each primitive of JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Build = Callable[[Any], Any]  # equation -> result, or list of results

_builds: dict[str, Build] = {}


def jax_primitive(*names: str) -> Callable[[Build], Build]:
    """Registers the decorated function as the mapping of these primitives."""

    def register(build: Build) -> Build:
        _builds.update(dict.fromkeys(names, build))
        return build

    return register


def direct(ops: Mapping[str, Any]) -> None:
    """Registers ops that take the operands of a primitive, in order."""
    for name, op in ops.items():
        jax_primitive(name)(_build_direct(op))


def _build_direct(op: Any) -> Build:
    return lambda equation: op(*equation.args)


def find_build(name: str) -> Build | None:
    """Returns the mapping of a primitive, or None."""
    return _builds.get(name)
