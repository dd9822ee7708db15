"""The table of mappings: for each ONNX op, from which opset on, what builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.ir.op import Op
from structir.script import R

Build = Callable[[Any], Any]  # from the node as a mapping sees it to its outputs
Carry = Callable[..., Any]  # from known elements of the operands to known elements of the result
DEFAULT = ""
MICROSOFT = "com.microsoft"
CLASSIC = "ai.onnx.ml"


@attrs.frozen
class OpMapping:
    """One way to build an op, which holds from an opset on."""

    since: int
    build: Build


_entries: dict[tuple[str, str], list[OpMapping]] = {}
_carries: dict[tuple[str, str], Carry] = {}


def onnx_op(*names: str, since: int = 1, domain: str = DEFAULT) -> Callable[[Build], Build]:
    """Register a function as what builds these ops, from an opset on."""

    def register(build: Build) -> Build:
        for name in names:
            entries = _entries.setdefault((domain, name), [])
            entries.append(OpMapping(since, build))
            entries.sort(key=lambda entry: -entry.since)
        return build

    return register


def direct(ops: Mapping[str, Op | Any], domain: str = DEFAULT) -> None:
    """Register ops that take the operands as they stand and whose attributes all hold by
    default."""
    for name, op in ops.items():
        onnx_op(name, domain=domain)(_applied(op))


def _applied(op: Any) -> Build:
    return lambda node: op(*node.operands)


def carries(*names: str, domain: str = DEFAULT) -> Callable[[Carry], Carry]:
    """Register how an op acts on operands whose elements are all known, as numbers or sizes."""

    def register(carry: Carry) -> Carry:
        for name in names:
            _carries[domain, name] = carry
        return carry

    return register


def find_build(domain: str, name: str, version: int) -> Build | None:
    """What builds an op at an opset version; None where nothing does."""
    for entry in _entries.get((domain, name), ()):
        if entry.since <= version:
            return entry.build
    return None


def find_carry(domain: str, name: str) -> Carry | None:
    """How an op acts on known elements; None where it does not."""
    return _carries.get((domain, name))


__all__ = ["CLASSIC", "MICROSOFT", "R", "carries", "direct", "find_build", "find_carry", "onnx_op"]
