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
from llvmlite.ir.values import MDValue

from structir.backend.cpu.features import cpu_features

LANES = 16  # of a vector of 32-bit elements; LLVM computes remainders with half of them first


def gains_from_masks(iterations: int) -> bool:
    """Returns whether LLVM would compute much of a loop of so many iterations one by one: it is
    shorter than a vector, or a second vector is more than a quarter full.

    Longer loops lose more by the masks of all vectors than they gain in the last.
    """
    remainder = iterations % LANES
    is_short = 4 < iterations < LANES or (LANES < iterations < 2 * LANES and remainder > LANES // 4)
    return is_short and remainder != LANES // 2 and "avx512vl" in cpu_features()


WHOLE_VECTORS = "whole_vectors"  # of loops `for i in whole_vectors(n)`, as `range` up to a vector


class AccessGroup(MDValue):  # type: ignore[misc]
    """A metadata node that stands for the accesses of one loop: it is equal to no other node."""

    __hash__ = object.__hash__

    def descr(self, buf: list[str]) -> None:
        """Writes the node."""
        buf += ("distinct !{}", "\n")

    def __eq__(self, other: object) -> bool:
        return self is other


def declare_independent(module: ir.Module, latch: Any, blocks: Sequence[Any]) -> None:
    """Declares that the iterations of a loop in these blocks access different memory."""
    group = AccessGroup(module, (), str(len(module.metadata)))
    for block in blocks:
        for instruction in block.instructions:
            is_access = isinstance(instruction, ir.LoadInstr | ir.StoreInstr)
            if is_access and isinstance(instruction.operands[-1], ir.GEPInstr):
                instruction.set_metadata("llvm.access.group", group)
    accesses = module.add_metadata(["llvm.loop.parallel_accesses", group])
    unique = ir.IntType(64)(len(module.metadata))
    node = module.add_metadata([unique, accesses])
    node.operands = (node, accesses)
    latch.set_metadata("llvm.loop", node)


def vectorize_with_masks(module: ir.Module, latch: Any) -> None:
    """Asks LLVM to vectorize the loop of a branch with masks instead of a remainder.

    LLVM identifies a loop by a metadata node whose first operand is the node itself.
    """
    masks = module.add_metadata(["llvm.loop.vectorize.predicate.enable", ir.IntType(1)(1)])
    unique = ir.IntType(64)(len(module.metadata))
    node = module.add_metadata([unique, masks])
    node.operands = (node, masks)
    latch.set_metadata("llvm.loop", node)
