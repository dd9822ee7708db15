"""Vectorization of loops of a few iterations: in masked vectors, or in whole ones and a remainder;
unrolling of longer ones.

Without masks LLVM computes the remainder of a loop, or all of a loop shorter than a vector, one
element at a time. Masks are cheap with AVX-512, which has them for every instruction.
"""

from __future__ import annotations

from itertools import pairwise

from structir.ir.kernel import Apply, Assign, Element, For, Literal, accumulated, nodes_of
from structir.targets.cpu.assembly import ROLLED, UNROLLED
from structir.targets.cpu.features import cpu_features

LANES = 16  # of a vector of 32-bit elements; LLVM vectorizes remainders with half of them first
UNROLLED_WORK = 100  # of all vectors of a loop, in operations, that LLVM unrolls
# lets LLVM unroll a loop after it is vectorized, though not before
UNROLLED_VECTORS = '!"llvm.loop.vectorize.followup_vectorized", !{!"llvm.loop.isvectorized", i32 1}'


def gains_from_masks(iterations: int) -> bool:
    """Whether masks speed up a loop of some iterations: it is shorter than a vector, or a second
    vector is more than a quarter full.

    Longer loops lose more by masking every vector than they gain in the last one.
    """
    remainder = iterations % LANES
    is_short = 4 < iterations < LANES or (LANES < iterations < 2 * LANES and remainder > LANES // 4)
    return is_short and remainder != LANES // 2 and "avx512vl" in cpu_features()


def vector_parts(iterations: int) -> list[tuple[int, int]]:
    """Returns the ranges into which a short loop is split: whole vectors and the remainder.

    A loop that is worth masks stays whole. With AVX2, which does not mask every instruction, the
    remainder is split at half a vector, too.
    """
    features = cpu_features()
    if iterations >= 2 * LANES or gains_from_masks(iterations) or "avx2" not in features:
        return [(0, iterations)]
    widths = (LANES,) if "avx512vl" in features else (LANES // 2, LANES // 4)
    ends = [iterations // lanes * lanes for lanes in widths]
    bounds = sorted({0, *ends, iterations})
    return list(pairwise(bounds))


def stays_rolled(iterations: int) -> bool:
    """Whether LLVM would fully unroll a short loop before it vectorizes it."""
    return LANES // 4 <= iterations <= LANES


def accumulates(loop: For) -> bool:
    """Whether a loop computes a total."""
    return any(accumulated(s) or (isinstance(s, Assign) and s.symbol) for s in loop.body)


def unrolling_of_vectors(loop: For, length: int, is_table: bool = False) -> str:
    """Returns the property of a loop of constant length, longer than a vector, by which LLVM
    unrolls it wholly or not at all once it is vectorized. If LLVM must not unroll it before, an
    iteration has one vector."""
    properties = ROLLED if is_table or _stays_rolled(loop, length) else UNROLLED
    return f"{UNROLLED_VECTORS}, !{{{properties}}}"


def _stays_rolled(loop: For, length: int) -> bool:
    """Whether all vectors of a loop are so much work that LLVM would unroll it only in part, or the
    loop only writes constants and elements of arrays."""
    assigns = [s for s in loop.body if isinstance(s, Assign)]
    if len(assigns) < len(loop.body):
        return False
    if all(isinstance(a.value, Element | Literal) and not a.symbol for a in assigns):
        return all(isinstance(a.target, Element) for a in assigns)
    work = sum(isinstance(node, Apply | Element) for a in assigns for node in nodes_of(a))
    return work * length > LANES * UNROLLED_WORK
