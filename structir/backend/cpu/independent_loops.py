"""Dependence analysis of innermost loops, so that LLVM vectorizes them without runtime alias
checks.

LLVM does not emit these checks for short loops, which then stay scalar. The pointers of a schedule
never overlap, except those of the same name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from llvmlite import ir

from structir.backend.cpu.features import cpu_features
from structir.backend.cpu.masked_loops import LANES, gains_from_masks

FEWEST, MOST = 4, 64  # iterations; longer loops amortize the runtime checks
POINTER = re.compile(r"p\d+(_\d+)?$")  # a pointer of a kernel, or a row pointer


class _DistinctNode(ir.values.MDValue):  # type: ignore[misc]
    """A distinct metadata node without operands, which equals only itself."""

    def descr(self, buf: list[str]) -> None:
        buf += ("distinct !{}", "\n")

    def __eq__(self, other: object) -> bool:  # a module merges equal nodes
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


def is_independent(loop: ast.For, changing: Collection[str]) -> bool:
    """Whether an innermost loop has no loop-carried dependences: each iteration writes its own
    elements, and reads none that another one writes.

    `changing` are the names that are assigned more than once.
    """
    assert isinstance(loop.target, ast.Name)
    reads, writes = list[ast.Subscript](), list[ast.Subscript]()
    for statement in loop.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) if name not in changing:
                pass
            case ast.Assign([ast.Subscript() as target], value):
                writes.append(target)
            case _:
                return False
        reads += [n for n in ast.walk(value) if isinstance(n, ast.Subscript)]
    written = {_pointer(w): ast.dump(w.slice) for w in writes}
    apart = len(written) == len(writes) > 0
    apart = apart and all(_steps_by_one(w.slice, loop.target.id) for w in writes)
    return apart and all(
        POINTER.match(_pointer(each)) and written.get(_pointer(each), at) == at
        for each in (*reads, *writes)
        for at in (ast.dump(each.slice),)
    )


def _pointer(element: ast.Subscript) -> str:
    return element.value.id if isinstance(element.value, ast.Name) else ""


def _steps_by_one(index: ast.expr, variable: str) -> bool:
    """Whether an index is the loop variable, or an expression without it plus the variable."""
    match index:
        case ast.Name(name):
            return name == variable
        case ast.BinOp(left, ast.Add(), ast.Name(name)):
            names = {node.id for node in ast.walk(left) if isinstance(node, ast.Name)}
            return name == variable and variable not in names
    return False


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


def independent_accesses(module: ir.Module, blocks: Sequence[Any]) -> Any:
    """Adds the element accesses in the blocks of a loop to a new access group; returns the loop
    metadata `llvm.loop.parallel_accesses` for it."""
    group = _DistinctNode(module, (), str(len(module.metadata)))
    for block in blocks:
        for instruction in block.instructions:
            if instruction.opname == "call" or _is_element(instruction):
                instruction.set_metadata("llvm.access.group", group)
    return module.add_metadata(["llvm.loop.parallel_accesses", group])


def _is_element(instruction: Any) -> bool:
    is_access = isinstance(instruction, ir.LoadInstr | ir.StoreInstr)
    return is_access and isinstance(instruction.operands[-1], ir.GEPInstr)


def stays_rolled(iterations: int) -> bool:
    """Whether LLVM would fully unroll a short loop before it vectorizes it."""
    return LANES // 4 <= iterations <= LANES
