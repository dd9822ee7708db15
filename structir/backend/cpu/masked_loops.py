"""Loops of few iterations in whole vectors: the lanes of the last vector that are past the end are
masked.

Without masks LLVM computes the remainder of a division by the vector length one element at a time,
and so all of a loop that is shorter than a vector. Masks cost little with AVX-512, which has them
for every instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from structir.backend.cpu.features import cpu_features

LANES = 16  # of a vector of 32-bit elements; LLVM computes remainders with half of them first
WHOLE_VECTORS = "whole_vectors"  # of loops `for i in whole_vectors(n)`, as `range` up to a vector


def gains_from_masks(iterations: int) -> bool:
    """Returns whether LLVM would compute much of a loop of so many iterations one by one: it is
    shorter than a vector, or a second vector is more than a quarter full.

    Longer loops lose more by the masks of all vectors than they gain in the last.
    """
    remainder = iterations % LANES
    is_short = 4 < iterations < LANES or (LANES < iterations < 2 * LANES and remainder > LANES // 4)
    return is_short and remainder != LANES // 2 and "avx512vl" in cpu_features()


def with_masks(module: ir.Module) -> Any:
    """Returns the property of a loop to be vectorized with masks instead of a remainder."""
    return module.add_metadata(["llvm.loop.vectorize.predicate.enable", ir.IntType(1)(1)])


def rolled(module: ir.Module) -> Any:
    """Returns the property of a loop not to be unrolled before it is vectorized."""
    return module.add_metadata(["llvm.loop.unroll.disable"])


def not_interleaved(module: ir.Module) -> Any:
    """Returns the property of a loop to compute one vector in each iteration, not several: a loop
    of few vectors would have most of them in the remainder."""
    return module.add_metadata(["llvm.loop.interleave.count", ir.IntType(32)(1)])


def set_properties(module: ir.Module, latch: Any, properties: Sequence[Any]) -> None:
    """Gives a loop its properties, on the branch that repeats it.

    LLVM identifies a loop by a metadata node whose first operand is the node itself.
    """
    if properties:
        unique = ir.IntType(64)(len(module.metadata))
        node = module.add_metadata([unique, *properties])
        node.operands = (node, *properties)
        latch.set_metadata("llvm.loop", node)
