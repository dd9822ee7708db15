"""Masked vectorization of short loops, and loop metadata for LLVM.

Without masks LLVM computes the remainder of a loop, or all of a loop shorter than a vector, one
element at a time. Masks are cheap with AVX-512, which has them for every instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from structir.backend.cpu.features import cpu_features

LANES = 16  # of a vector of 32-bit elements; LLVM vectorizes remainders with half of them first


def gains_from_masks(iterations: int) -> bool:
    """Whether masks speed up a loop of some iterations: it is shorter than a vector, or a second
    vector is more than a quarter full.

    Longer loops lose more by masking every vector than they gain in the last one.
    """
    remainder = iterations % LANES
    is_short = 4 < iterations < LANES or (LANES < iterations < 2 * LANES and remainder > LANES // 4)
    return is_short and remainder != LANES // 2 and "avx512vl" in cpu_features()


def with_masks(module: ir.Module) -> Any:
    """Returns loop metadata: vectorize with masks instead of a remainder loop."""
    return module.add_metadata(["llvm.loop.vectorize.predicate.enable", ir.IntType(1)(1)])


def rolled(module: ir.Module) -> Any:
    """Returns loop metadata: do not unroll."""
    return module.add_metadata(["llvm.loop.unroll.disable"])


def set_properties(module: ir.Module, latch: Any, properties: Sequence[Any]) -> None:
    """Attaches loop metadata to the latch branch of a loop.

    LLVM identifies a loop by a metadata node whose first operand is the node itself.
    """
    if properties:
        unique = ir.IntType(64)(len(module.metadata))
        node = module.add_metadata([unique, *properties])
        node.operands = (node, *properties)
        latch.set_metadata("llvm.loop", node)
