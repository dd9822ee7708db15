"""Removes bindings that only rename a value, proved casts and unused outputs of blocks."""

from __future__ import annotations

from structir.ir.expr import Function
from structir.passes.base import function_pass
from structir.rewriting.alias_removal import without_aliases


@function_pass(aliases=("canonicalise", "canonicalize_bindings"))
def canonicalise_bindings(function: Function) -> Function:
    """Replaces aliases of variables, and fields of known tuples, by the original value.

    A binding remains if its annotation differs from the StructInfo of the value, if it exports a
    local value of a dataflow block, or if StructInfos mention its variable. A match_cast is removed
    if the value provably has its StructInfo, and outputs of dataflow blocks if nothing uses them.
    """
    return without_aliases(function)
