"""Emits control flow, assignments, local arrays, and counting loops, with checks before them, and
with non-temporal stores of large results.

Divisions of indices that a loop does not change are computed before it. LLVM keeps a division by a
number that is not a constant in the loop, since it is in a branch, and then computes it for each
lane of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from structir.ir import dims
from structir.ir.expr import Var
from structir.ir.kernel import (
    VECTOR,
    Apply,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    For,
    KernelStatement,
    Literal,
    Local,
    Part,
    Prefetch,
    Scratch,
    Size,
    While,
    accumulated,
    assigned_value,
    nodes_of,
)
from structir.ir.node import parts
from structir.loops.emit.checks import induction_elements, with_local
from structir.loops.emit.emitter import DIVISIONS, Emitter
from structir.loops.emit.extremes import NUMBERS, extremes_apart
from structir.loops.emit.independent import is_short_and_independent
from structir.loops.emit.scalars import is_sure, outer_offset, pointer
from structir.loops.emit.short_loops import (
    LANES,
    UNROLLED_VECTORS,
    accumulates,
    gains_from_masks,
    stays_rolled,
    unrolling_of_vectors,
    vector_parts,
)
from structir.loops.emit.streams import streaming_loop
from structir.loops.program.buffer import element_bytes
from structir.loops.program.kernel_table import dtype_of
from structir.loops.schedule.accesses import is_same
from structir.loops.schedule.loop_tree import statements_of
from structir.targets.cpu.assembly import ROLLED, STORED, store
from structir.targets.cpu.features import cpu_features
from structir.targets.cpu.unaligned_sums import WHOLE_BYTES

ONE = Literal(1, "int64")


def emit_loop(emitter: Emitter, loop: For) -> None:
    """Emits a loop over a range; its maxima and minima are computed apart."""
    has_extremes = any([accumulated(s) in NUMBERS for s in loop.body])
    apart = extremes_apart(loop) if has_extremes else None
    if apart is None:
        _emit_loop(emitter, loop)
        return
    emitter.assigned |= apart.variables
    emitter.block([*apart.before()])
    _emit_loop(emitter, apart.loop)
    emitter.block([*apart.after()])


def _emit_loop(emitter: Emitter, loop: For) -> None:
    """Emits a loop after the divisions that are the same in all of its iterations."""
    with invariant_divisions(emitter, loop):
        if emitter.varying is not None and _fills_table(emitter, loop):
            with emitter.sharing_all():
                _emit(emitter, loop)
        else:
            _emit(emitter, loop)


def _fills_table(emitter: Emitter, loop: For) -> bool:
    """Whether a loop around all others only writes a table of integers: it takes little time."""
    is_outermost = any(statement is loop for statement in emitter.kernel.body)
    return is_outermost and _writes_table(emitter, loop)


def _writes_table(emitter: Emitter, loop: For) -> bool:
    """Whether a loop, or the only loop in it, only writes a table of integers."""
    innermost: tuple[KernelStatement, ...] = (loop,)
    while isinstance(innermost[0], For) and len(innermost) == 1:
        innermost = innermost[0].body
    return all(
        isinstance(s, Assign) and isinstance(s.target, Element) and s.target.array in emitter.tables
        for s in innermost
    )


def _emit(emitter: Emitter, loop: For) -> None:
    with emitter.sharing_all(loop in emitter.around_calls):
        low, high = emitter.index(loop.start), emitter.index(loop.stop)
    length, most = emitter.ranges.length(loop), emitter.ranges.most(loop)
    known = emitter.ranges.enter(loop)
    if not any(isinstance(s, For) for s in loop.body):
        emitter.unrolls |= _gains_from_unrolling(emitter, loop, length)
    if emitter.kernel.part is not None:
        _check_ends(emitter, loop, low, high)
    stream = streaming_loop(emitter, loop)
    if stream is not None and stream.is_useful(low, high):
        stream.emit(low, high)
    elif _are_vectors(emitter, loop, low, high):
        _in_vectors(emitter, loop, int(low), int(high))
    elif length is not None and not low.isdecimal():
        _of_constant_length(emitter, loop, low, length)
    elif most is not None and most > 1 and not any(isinstance(s, For) for s in loop.body):
        _of_whole_blocks(emitter, loop, (low, high), most)
    elif _has_masked_remainder(loop, low, high):
        _vectors_and_remainder(emitter, loop, low, high, partial(round_of, emitter, loop))
    elif abs(loop.step) == 1:
        mark = emitter.asm.masked_loop() if _gains_from_masks(loop, low, high) else ""
        mark = mark or _unrolling_mark(emitter, loop)
        emitter.asm.count(low, high, loop.step, partial(round_of, emitter, loop), mark)
    else:
        _in_steps(emitter, loop, low, high)
    emitter.values.pop(loop.variable, None)
    emitter.ranges.leave(loop, known)


def round_of(emitter: Emitter, loop: For, index: str) -> None:
    """Emits the body of a loop at an index."""
    emitter.set_local(loop.variable, index)
    emitter.block(loop.body)


def _are_vectors(emitter: Emitter, loop: For, low: str, high: str) -> bool:
    if loop.step != 1 or not (low.isdecimal() and high.isdecimal()):
        return False
    is_marked = loop.kind == VECTOR
    return is_marked or is_short_and_independent(emitter, loop, int(high) - int(low))


def _in_vectors(emitter: Emitter, loop: For, low: int, high: int) -> None:
    """A vector loop of constant length, as whole vectors and a remainder, which LLVM must not
    unroll before it vectorizes them."""
    for first, last in vector_parts(max(high - low, 0)):
        mark = ""
        if gains_from_masks(last - first):
            is_rolled = stays_rolled(last - first) and not _registers(emitter, loop)
            mark = emitter.asm.masked_loop(is_rolled)
        elif stays_rolled(last - first):
            properties = _at_once(emitter, loop, last - first) or [UNROLLED_VECTORS]
            mark = emitter.asm.loop_mark(ROLLED, *properties)
        elif emitter.vector_bytes < WHOLE_BYTES:
            properties = _at_once(emitter, loop, last - first)
            mark = emitter.asm.loop_mark(*properties) if properties else ""
        ends = str(low + first), str(low + last)
        emitter.asm.count(*ends, 1, partial(round_of, emitter, loop), mark)


def _at_once(emitter: Emitter, loop: For, count: int) -> list[str]:
    """The property of a loop over registers of several vectors that are one iteration: LLVM keeps
    arrays in registers only where all indices are constants. Math functions need the registers."""
    widths = [element_bytes(e.dtype) for e in _registers(emitter, loop)]
    size = emitter.vector_bytes
    vectors = count * max(widths, default=0) // size
    if vectors < 2 or emitter.calls_functions:
        return []
    lanes = size // max(widths)
    return [
        f'!"llvm.loop.interleave.count", i32 {vectors}',
        f'!"llvm.loop.vectorize.width", i32 {lanes}',
    ]


def _registers(emitter: Emitter, loop: For) -> list[Element]:
    """Returns the elements in registers that a loop accesses."""
    elements = [n for n in nodes_of(loop) if isinstance(n, Element)]
    return [e for e in elements if e.array in emitter.registers]


def _of_constant_length(emitter: Emitter, loop: For, low: str, length: int) -> None:
    """A loop from 0 to a constant, which LLVM may unroll: it does not know that an end is greater
    than the start."""
    asm, stop = emitter.asm, str(max(length, 0))

    def body(turn: str) -> None:
        round_of(emitter, loop, asm.integer("add nsw", low, turn))

    if _has_masked_remainder(loop, "0", stop):
        _vectors_and_remainder(emitter, loop, "0", stop, body)
    else:
        mark = asm.masked_loop() if _gains_from_masks(loop, "0", stop) else ""
        asm.count("0", stop, 1, body, mark or _unrolling_mark(emitter, loop))


def _of_whole_blocks(emitter: Emitter, loop: For, ends: tuple[str, str], length: int) -> None:
    """A loop over a block that may be cut off: one of constant length where it is not."""
    asm = emitter.asm
    whole, rest, after = map(asm.label, ("whole", "rest", "after"))
    asm.branch(asm.compare("eq", asm.integer("sub", *ends[::-1]), str(length)), whole, rest)
    asm.start(whole)
    _of_constant_length(emitter, loop, ends[0], length)
    asm.jump(after)
    asm.start(rest)
    asm.count(*ends, 1, partial(round_of, emitter, loop))
    asm.jump(after)
    asm.start(after)


def _gains_from_masks(loop: For, low: str, high: str) -> bool:
    is_known = loop.step == 1 and low.isdecimal() and high.isdecimal()
    return is_known and gains_from_masks(max(int(high) - int(low), 0))


def _has_masked_remainder(loop: For, low: str, high: str) -> bool:
    """Whether a vector loop may have a last vector that is not full, and the CPU has masks."""
    if loop.kind != VECTOR or loop.step != 1 or "avx512vl" not in cpu_features():
        return False
    is_known = low.isdecimal() and high.isdecimal()
    return not is_known or (int(high) - int(low) > LANES and (int(high) - int(low)) % LANES != 0)


def _vectors_and_remainder(
    emitter: Emitter, loop: For, low: str, high: str, body: Callable[[str], None]
) -> None:
    """A loop over whole vectors, then one over the lanes that remain, computed with masks: masks in
    all iterations would cost more than they gain in the last."""
    asm = emitter.asm
    distance = asm.integer("sub", high, low)
    count = asm.select(asm.compare("sgt", distance, "0"), "i64", distance, "0")
    rest = asm.integer("and", count, str(LANES - 1))
    middle = asm.integer("add", low, asm.integer("sub", count, rest))
    asm.count(low, middle, 1, body)
    asm.count(middle, asm.integer("add", middle, rest), 1, body, asm.masked_loop())


def _in_steps(emitter: Emitter, loop: For, low: str, high: str) -> None:
    """A loop whose iterations are counted first: the step after the last one may overflow. The step
    of a loop over blocks of a product may be in the table."""
    asm, step = emitter.asm, str(abs(loop.step))
    if loop in emitter.around_calls:
        with emitter.sharing_all():
            step = emitter.integer(abs(loop.step))
    ends = (low, high) if loop.step > 0 else (high, low)
    distance = asm.integer("sub", asm.integer("sub", ends[1], ends[0]), "1")
    rounds = asm.integer("add", asm.integer("udiv", distance, step), "1")
    count = asm.select(asm.compare("slt", *ends), "i64", rounds, "0")
    # both ends are in range, and so is their distance
    flag = " nsw" if loop.variable in emitter.ranges.values else ""

    def body(turn: str) -> None:
        offset = asm.integer(f"mul{flag}", turn, step)
        operation = "add" if loop.step > 0 else "sub"
        round_of(emitter, loop, asm.integer(f"{operation}{flag}", low, offset))

    asm.count("0", count, 1, body, _unrolling_mark(emitter, loop))


def _unrolling_mark(emitter: Emitter, loop: For) -> str:
    """The mark of a loop that LLVM must not unroll: around loops over registers or vectors, if its
    range depends on data, since it may be short; around longer loops; a longer loop that only
    copies, or computes much; and a loop that fills a table. Their copies take compile time and
    gain nothing. Or that of a longer loop of constant length whose vectors LLVM must unroll."""
    inner = [s for s in loop.body if isinstance(s, For)]
    has_vectors = any(s.kind == VECTOR for s in inner)
    if inner and (emitter.registers or has_vectors) and emitter.depends_on_data(loop):
        return emitter.asm.loop_mark(ROLLED)
    # kernels that share their code differ in lengths
    is_shared = emitter.varying is not None
    longest = max([emitter.ranges.length(s) or 0 for s in inner or [loop]])
    is_long = not is_shared and longest > LANES
    is_table = _writes_table(emitter, loop)
    if is_long and not inner:
        if accumulates(loop):  # LLVM adds in another order where it unrolls all of a total
            return ""
        return emitter.asm.loop_mark(unrolling_of_vectors(loop, longest, is_table))
    return emitter.asm.loop_mark(ROLLED) if is_long or is_table else ""


def _gains_from_unrolling(emitter: Emitter, loop: For, length: int | None) -> bool:
    """Whether LLVM should unroll loops of a kernel where it expects a gain, because of this
    innermost loop: it is short, a total of constant length, or LLVM may not vectorize it."""
    assigns = [s for s in loop.body if isinstance(s, Assign)]
    if length is not None and accumulates(loop):
        return True
    if len(assigns) < len(loop.body) or (length is not None and 1 < length <= LANES):
        return not _writes_table(emitter, loop)
    if not all(_is_independent(emitter, assign) for assign in assigns):
        return True
    written = {a.target.array: a.target for a in assigns if isinstance(a.target, Element)}
    elements = [n for a in assigns for n in nodes_of(a) if isinstance(n, Element)]
    return any(e.array in written and not is_same(e, written[e.array]) for e in elements)


def _is_independent(emitter: Emitter, assign: Assign) -> bool:
    """Whether an assignment is to an element, to a variable of one iteration, or accumulates."""
    target = assign.target
    is_once = isinstance(target, Element) or target in emitter.ranges.once
    return is_once or bool(assign.symbol) or accumulated(assign) is not None


def _check_ends(emitter: Emitter, loop: For, low: str, high: str) -> None:
    """Checks the elements that a loop accesses at its ends, instead of a check in each iteration:
    those whose indices change by a constant, and which every iteration accesses."""
    elements = [
        e
        for e in induction_elements(loop)
        if not is_sure(emitter, e, 0, emitter.table.elements(e.array))
    ]
    if not elements:
        return
    asm, last = emitter.asm, Apply("sub", (loop.stop, ONE), "int64")
    with asm.when(asm.compare("slt", low, high)):
        steps = asm.integer("sub", asm.integer("sub", high, "1"), low)
        for element in elements:
            following = Apply("add", (loop.start, ONE), "int64")
            first, second, final = [
                emitter.scalar(with_local(element.indices[0], loop.variable, at))
                for at in (loop.start, following, last)
            ]
            _check(emitter, element, (first, asm.integer("sub", second, first), final, steps))
    emitter.sure |= set(elements)


def _check(emitter: Emitter, element: Element, way: tuple[str, str, str, str]) -> None:
    site = emitter.checks.site(element.array, 0, element)
    emitter.checks.all_inside(*way, emitter.elements(element.array), site)


# for a read, into all levels of the cache, of data
PREFETCH = (("i32", "0"), ("i32", "3"), ("i32", "1"))
NON_TEMPORAL = ", align 64, !nontemporal !0"  # the loop starts at a cache line


def _assign(emitter: Emitter, assign: Assign) -> None:
    target = assign.target
    if isinstance(target, Local):
        emitter.set_local(target, emitter.scalar(assigned_value(assign)))
        emitter.ranges.assigned(assign)
        return
    mark = NON_TEMPORAL if target in emitter.streaming else ""
    dtype = dtype_of(target.array)
    if assign.symbol:
        place = pointer(emitter, target)
        with emitter.with_pointer(target, place):
            value = emitter.scalar(assigned_value(assign))
    else:
        value = emitter.scalar(assign.value)
        place = pointer(emitter, target)
    store(emitter.asm, value, place, dtype, mark)


def _part(emitter: Emitter, part: Part) -> None:
    """The ends of a part, which the kernel receives; those of the whole range where the kernel
    first sets its results to zero."""
    emitter.ranges.parted(part)
    emitter.set_local(part.low, "0" if emitter.is_whole else "%lo")
    emitter.set_local(part.high, emitter.size(part.extent) if emitter.is_whole else "%hi")


def _scratch(emitter: Emitter, scratch: Scratch) -> None:
    """A local array, whose sizes must not be negative."""
    if scratch.array in emitter.registers:
        emitter.allocate_registers(scratch.array)
        return
    for axis, dim in enumerate(emitter.table.shapes[scratch.array]):
        if not emitter.is_generated and dims.at_least(dim, 0) is not True:
            site = emitter.checks.site(scratch.array, axis)
            emitter.checks.not_negative(emitter.size(dim), site)
    if scratch.zeros:
        fill_with_zeros(emitter, scratch.array)


def fill_with_zeros(emitter: Emitter, array: Var) -> None:
    """Emits zeros in all elements of an array: the bits of every dtype's zero are 0."""
    width = element_bytes(dtype_of(array))
    count = emitter.asm.integer("mul nsw", emitter.elements(array), str(width))
    args = [("ptr", emitter.array(array)), ("i8", "0"), ("i64", count), ("i1", "false")]
    emitter.asm.call("llvm.memset.p0.i64", "void", args)


def _prefetch(emitter: Emitter, prefetch: Prefetch) -> None:
    """Emits a prefetch into all caches; the address may be outside of the array."""
    asm, array = emitter.asm, prefetch.array
    indices = [emitter.index(index) for index in prefetch.indices]
    element = Element(array, prefetch.indices, dtype_of(array), flat=prefetch.flat)
    place = emitter.array(array)
    for offset in (outer_offset(emitter, element, indices), *indices[-1:]):
        place = asm.value(f"getelementptr {STORED[dtype_of(array)]}, ptr {place}, i64 {offset}")
    asm.call("llvm.prefetch.p0", "void", [("ptr", place), *PREFETCH])


def _branch(emitter: Emitter, branch: Branch) -> None:
    asm = emitter.asm
    then, otherwise, after = map(asm.label, ("then", "else", "after"))
    asm.branch(emitter.scalar(branch.test), then, otherwise)
    reaches = False
    for label, side in ((then, branch.then), (otherwise, branch.otherwise)):
        asm.start(label)
        emitter.block(side)
        reaches = reaches or asm.is_open
        asm.jump(after)
    if reaches:
        asm.start(after)


def _while(emitter: Emitter, loop: While) -> None:
    asm = emitter.asm
    test, body, after = map(asm.label, ("while", "body", "after"))
    asm.jump(test)
    asm.start(test)
    asm.branch(emitter.scalar(loop.test), body, after)
    asm.start(body)
    with asm.exits(test, after):
        emitter.block(loop.body)
    asm.jump(test)
    asm.start(after)


STATEMENTS: dict[type[KernelStatement], Callable[[Emitter, Any], None]] = {
    Assign: _assign,
    Part: _part,
    Scratch: _scratch,
    Prefetch: _prefetch,
    Branch: _branch,
    While: _while,
    Break: lambda emitter, statement: emitter.asm.leave(again=False),
    Continue: lambda emitter, statement: emitter.asm.leave(again=True),
}


@contextmanager
def invariant_divisions(emitter: Emitter, loop: For) -> Iterator[None]:
    """Emits the divisions that are the same in all iterations; the emitter knows their values in
    this context. A division by 0 gives 0, so they may precede a loop without iterations."""
    before = emitter.divisions
    if loop not in emitter.undivided:
        emitter.divisions = before | _divisions_before(emitter, loop)
    yield
    emitter.divisions = before


def _divisions_before(emitter: Emitter, loop: For) -> dict[Apply, str]:
    changing = {s.target for s in statements_of(loop.body) if isinstance(s, Assign)}
    known: dict[Hashable, str] = {}  # equal divisions are computed once
    values: dict[Apply, str] = {}
    todo: list[Any] = [*loop.body[::-1]]
    while todo:
        node = todo.pop()
        is_division = type(node) is Apply and node.fn in DIVISIONS and node.dtype == "int64"
        if node in (emitter.divisions if is_division else emitter.undivided):
            continue
        key = _key(emitter, node, changing) if is_division else None
        if key is None:
            todo += [part for part in parts(node)[::-1] if hasattr(part, "span")]
            continue
        if key not in known:
            known[key] = emitter.scalar(node)
        values[node] = known[key]
    return values


def _key(emitter: Emitter, scalar: Any, changing: set[Any]) -> Hashable:
    """Returns a key that equal expressions share; None for one without a value before the loop,
    which changes some variables."""
    match scalar:
        case Local():
            return scalar if scalar in emitter.values and scalar not in changing else None
        case Literal():
            return "literal", scalar.value
        case Size():
            return "size", scalar.dim
        case Apply():
            keys = [_key(emitter, arg, changing) for arg in scalar.args]
            return None if None in keys else (scalar.fn, scalar.dtype, *keys)
    return None
