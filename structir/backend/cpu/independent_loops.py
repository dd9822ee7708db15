"""Loops whose iterations are independent, as far as their text shows: LLVM compares no addresses.

It compares the addresses of what a loop reads and writes before each run of the loop, and refuses
to do so for few iterations: all of those are then computed one element at a time. The pointers of a
schedule never overlap, except those of the same name.
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

FEWEST, MOST = 4, 64  # iterations: longer loops have enough of them to pay for the comparisons
POINTER = re.compile(r"p\d+(_\d+)?$")  # in a text of a schedule, or in one of a loop over rows


class _DistinctNode(ir.values.MDValue):  # type: ignore[misc]
    """A metadata node that equals itself only, without operands."""

    def descr(self, buf: list[str]) -> None:
        buf += ("distinct !{}", "\n")

    def __eq__(self, other: object) -> bool:  # else a module takes all of them for one
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


def is_independent(loop: ast.For, changing: Collection[str]) -> bool:
    """Whether each iteration of an innermost loop writes elements of its own, and reads none that
    another one writes. `changing` are the names that are assigned several times."""
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
    """Whether an index is the variable of a loop, or the sum of something else and the variable."""
    match index:
        case ast.Name(name):
            return name == variable
        case ast.BinOp(left, ast.Add(), ast.Name(name)):
            names = {node.id for node in ast.walk(left) if isinstance(node, ast.Name)}
            return name == variable and variable not in names
    return False


def vector_parts(iterations: int) -> list[tuple[int, int]]:
    """Returns the parts in which a short loop is computed: whole vectors, and the rest if it is not
    done with masks. With AVX2, which has no masks for all instructions, a half of a vector, too."""
    features = cpu_features()
    if iterations >= 2 * LANES or gains_from_masks(iterations) or "avx2" not in features:
        return [(0, iterations)]
    widths = (LANES,) if "avx512vl" in features else (LANES // 2, LANES // 4)
    ends = [iterations // lanes * lanes for lanes in widths]
    bounds = sorted({0, *ends, iterations})
    return list(pairwise(bounds))


def independent_accesses(module: ir.Module, blocks: Sequence[Any]) -> Any:
    """Marks the accesses to elements in the blocks of a loop; returns the property of the loop that
    its iterations access different memory."""
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
    """Returns whether LLVM would write a short loop out before it makes vectors of it."""
    return LANES // 4 <= iterations <= LANES
