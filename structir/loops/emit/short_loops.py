"""Vectorization of loops of a few iterations: in masked vectors, or in whole ones and a remainder.

Without masks LLVM computes the remainder of a loop, or all of a loop shorter than a vector, one
element at a time. Masks are cheap with AVX-512, which has them for every instruction.
"""

from __future__ import annotations

from itertools import pairwise

from structir.targets.cpu.features import cpu_features

LANES = 16  # of a vector of 32-bit elements; LLVM vectorizes remainders with half of them first
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
