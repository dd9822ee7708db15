"""The registry of mappings: the function that builds each ONNX op, by its first opset version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.ir.code_hash import is_of_package
from structir.ir.op import Op
from structir.script import R

Build = Callable[[Any], Any]  # node -> outputs
Fold = Callable[..., Any]  # elements of the operands -> elements of the result
DEFAULT = ""
MICROSOFT = "com.microsoft"
CLASSIC = "ai.onnx.ml"


@attrs.frozen
class OpMapping:
    """A function that builds an op, and the first opset version it is valid for."""

    since: int
    build: Build


def _precedence(mapping: OpMapping) -> tuple[bool, int]:
    return is_of_package(mapping.build), -mapping.since


_entries: dict[tuple[str, str], list[OpMapping]] = {}
_folds: dict[tuple[str, str], Fold] = {}
_quantized: dict[str, Build] = {}


def onnx_op(*names: str, since: int = 1, domain: str = DEFAULT) -> Callable[[Build], Build]:
    """Registers the decorated function as the mapping of these ops from opset `since` on.

    It replaces an earlier mapping of the same opset. Mappings of other packages take precedence
    over those of this one, in any order of import.
    """

    def register(build: Build) -> Build:
        mapping = OpMapping(since, build)
        for name in names:
            entries = _entries.setdefault((domain, name), [])
            others = [entry for entry in entries if _precedence(entry) != _precedence(mapping)]
            entries[:] = sorted([*others, mapping], key=_precedence)
        return build

    return register


def direct(ops: Mapping[str, Op | Any], domain: str = DEFAULT) -> None:
    """Registers ops that map to one StructIR op on the same operands, without attributes."""
    for name, op in ops.items():
        onnx_op(name, domain=domain)(_build_direct(op))


def _build_direct(op: Any) -> Build:
    return lambda node: op(*node.operands)


def carries(*names: str, domain: str = DEFAULT) -> Callable[[Fold], Fold]:
    """Registers the decorated function as the folding rule of these ops.

    A folding rule computes the elements of the result from operands whose elements are all known,
    as numbers or symbolic sizes.
    """

    def register(fold: Fold) -> Fold:
        for name in names:
            _folds[domain, name] = fold
        return fold

    return register


def quantized_op(*names: str) -> Callable[[Build], Build]:
    """Registers the decorated function as the mapping of these ops on dequantized operands.

    It reads the quantized operands. Where it returns None, the mapping of the op is applied.
    """

    def register(build: Build) -> Build:
        _quantized.update(dict.fromkeys(names, build))
        return build

    return register


def find_quantized_build(domain: str, name: str) -> Build | None:
    """Returns the mapping of an op on dequantized operands, or None."""
    return _quantized.get(name) if domain == DEFAULT else None


def find_build(domain: str, name: str, version: int) -> Build | None:
    """Returns the mapping of an op at an opset version, or None."""
    for entry in _entries.get((domain, name), ()):
        if entry.since <= version:
            return entry.build
    return None


def find_fold(domain: str, name: str) -> Fold | None:
    """Returns the folding rule of an op, or None."""
    return _folds.get((domain, name))


__all__ = [
    "CLASSIC",
    "MICROSOFT",
    "R",
    "carries",
    "direct",
    "find_build",
    "find_fold",
    "find_quantized_build",
    "onnx_op",
    "quantized_op",
]
