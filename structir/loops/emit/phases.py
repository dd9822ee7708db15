"""Emits kernels with a synchronized loop in phases: the statements before it, then each iteration.

A call runs the phases from one word of the table to the next, so that the thread pool can wait
between two phases until all parts have completed the first one.
"""

from __future__ import annotations

from collections.abc import Sequence

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import Element, For, Kernel, Literal, Part, Scratch, nodes_of
from structir.loops.emit.emitter import Emitter
from structir.loops.emit.index_proofs import IndexRanges
from structir.loops.emit.loops import round_of
from structir.loops.program.buffer import element_bytes
from structir.loops.program.kernel_table import dtype_of
from structir.targets.cpu.assembly import STORED

FIRST, LAST, CLAIMED = "%phase_first", "%phase_last", "%phase_claimed"


def phases_of(kernel: Kernel, cleared: Sequence[Var], ranges: IndexRanges) -> Dim | None:
    """Returns the number of phases of a kernel with a synchronized loop. None for other kernels,
    and for one that must run as a whole since results that must be cleared are used before the
    loop, or since its range may be empty."""
    loop, part = kernel.synchronized, kernel.part
    if loop is None or part is None:
        return None
    before = [n for s in kernel.body[:-1] for n in nodes_of(s)]
    is_used = not {n.array for n in before if isinstance(n, Element)}.isdisjoint(cleared)
    if is_used or (cleared and dims.at_least(part.extent, 1) is not True):
        return None
    count = _iterations(loop, ranges)
    return None if count is None or dims.at_least(count, 0) is not True else count + 1


def _iterations(loop: For, ranges: IndexRanges) -> Dim | None:
    if loop.step == 1 and isinstance(loop.start, Literal):
        return ranges.value(loop.stop)
    last = ranges.value(loop.start)
    return None if last is None else last + 1


def phase_words(phases: Dim) -> list[tuple[Dim, str]]:
    """Returns the last words of the table, where a call runs all phases, with their names."""
    return [(0, FIRST), (phases, LAST), (0, CLAIMED)]


def emit_phases(emitter: Emitter, cleared: Sequence[Var]) -> None:
    """Emits a kernel with a synchronized loop. Each part clears some elements of results in the
    first phase."""
    asm = emitter.asm
    *before, loop = emitter.kernel.body
    assert isinstance(loop, For)
    emitter.block([s for s in before if isinstance(s, Scratch | Part)])
    with asm.when(asm.compare("eq", FIRST, "0")):
        for result in cleared:
            _clear(emitter, result)
        emitter.block([s for s in before if not isinstance(s, Scratch | Part)])
    with emitter.sharing_all(loop in emitter.around_calls):
        start = emitter.index(loop.start)
    known = emitter.ranges.enter(loop)

    def iteration(phase: str) -> None:
        turn = asm.integer("sub nsw", phase, "1")
        operation = "add nsw" if loop.step > 0 else "sub nsw"
        round_of(emitter, loop, asm.integer(operation, start, turn))

    is_first = asm.compare("eq", FIRST, "0")
    asm.count(asm.select(is_first, "i64", "1", FIRST), LAST, 1, iteration)
    emitter.values.pop(loop.variable, None)
    emitter.ranges.leave(loop, known)


def _clear(emitter: Emitter, result: Var) -> None:
    """Emits zeros in the elements of a result that correspond to a part."""
    asm, part, dtype = emitter.asm, emitter.kernel.part, dtype_of(result)
    assert part is not None
    count, extent = emitter.elements(result), emitter.size(part.extent)
    first, stop = [
        asm.integer("sdiv", asm.integer("mul nsw", end, count), extent) for end in ("%lo", "%hi")
    ]
    size = asm.integer("mul nsw", asm.integer("sub nsw", stop, first), str(element_bytes(dtype)))
    place = asm.value(f"getelementptr {STORED[dtype]}, ptr {emitter.array(result)}, i64 {first}")
    args = [("ptr", place), ("i8", "0"), ("i64", size), ("i1", "false")]
    asm.call("llvm.memset.p0.i64", "void", args)
