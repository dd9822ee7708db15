"""The code of a kernel: its LLVM IR, and what its table holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import attrs
import llvmlite.binding as llvm

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import Element, For, Kernel, LibraryCall, nodes_of
from structir.loops.emit.checks import REPORT
from structir.loops.emit.definite_initialisation import surely_filled
from structir.loops.emit.emitter import Emitter
from structir.loops.emit.library import emit_library_call
from structir.loops.emit.loops import STATEMENTS, emit_loop, fill_with_zeros
from structir.loops.emit.phases import emit_phases, phase_words, phases_of
from structir.loops.emit.scalars import SCALARS
from structir.loops.emit.streams import finish_streams, only_filled
from structir.loops.products.contraction import MatrixForm
from structir.loops.program.kernel_table import Site
from structir.system.cache import digest
from structir.targets.cpu.code_generation import ENTRY, ROLLED_LOOPS, Assembled
from structir.targets.cpu.objects import SOURCE_HEAD

ALL_STATEMENTS: dict[type, Callable[[Emitter, Any], None]] = {
    **STATEMENTS,
    For: emit_loop,
    LibraryCall: emit_library_call,
}
# LLVM's own choice of vectors on some CPUs is half of that. Calls of memcpy take longer than loops
# over the elements of a row.
ATTRIBUTES = '"prefer-vector-width"="512" "no-builtin-memcpy"'
# The function that reads the table only loads words and calls the kernel: no pass gains anything.
UNOPTIMIZED = "noinline optnone"


@attrs.frozen(eq=False)
class KernelCode:
    """A kernel as LLVM IR. Its table holds the arrays, then the sizes, then its report if it may
    fail at `sites`."""

    kernel: Kernel
    assembled: Assembled
    arrays: tuple[Var, ...]
    shapes: Mapping[Var, tuple[Dim, ...]]
    sizes: tuple[Dim, ...]
    sites: tuple[Site, ...]
    panels: Mapping[Var, tuple[Var, MatrixForm, str]]  # packed parts of constants
    singles: tuple[Var, ...] = ()  # parameters whose bits are the last sizes
    is_whole: bool = False  # whether it runs once for its whole range, not for its parts
    places: tuple[int, ...] = ()  # of integers that are the last sizes
    has_phases: bool = False  # whether the last sizes are PHASE_WORDS

    @property
    def key(self) -> str:
        """A hash of the code: the first line of the kernel's source."""
        return f"{SOURCE_HEAD}{digest(self.assembled.text)[:32]}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays and sizes."""
        return (*[array.name for array in self.arrays], *map(dims.text, self.sizes))


def code_of(
    kernel: Kernel,
    constants: frozenset[Var] = frozenset(),
    is_generated: bool = False,
    together: tuple[tuple[Var, Var], ...] = (),
    shares_numbers: bool = False,
    varying: Container[int] | None = None,
) -> KernelCode:
    """Returns the code of a kernel, of whose operands some are constants; it is memoized.

    A kernel that is generated from ops has all indices in range, and its products and sums may be
    rounded once; elements of its results that it does not write keep their values. Pairs of arrays
    `together` have the same memory; no others share any. With `shares_numbers`, kernels that differ
    in large integers have the same code; or those that differ in integers at `varying` places of
    the code.
    """
    memo: dict[Any, KernelCode] = kernel.__dict__.setdefault("_codes", {})
    key = constants, is_generated, together, shares_numbers, varying
    if key not in memo:
        memo[key] = _emitted(kernel, *key)
    return memo[key]


def _emitted(
    kernel: Kernel,
    constants: frozenset[Var],
    is_generated: bool,
    together: tuple[tuple[Var, Var], ...],
    *numbers: Any,
) -> KernelCode:
    emitter = Emitter(kernel, ALL_STATEMENTS, SCALARS, constants, is_generated, *numbers)
    emitter.only_filled = only_filled(kernel, emitter.table.shapes)
    results = () if is_generated else kernel.results
    cleared = [r for r in results if not surely_filled(kernel, r, emitter.ranges)]
    synchronized = kernel.part is not None and kernel.synchronized is not None
    phases = phases_of(kernel, cleared, emitter.ranges) if synchronized else None
    emitter.has_phases = phases is not None
    emitter.is_whole = bool(cleared) and kernel.part is not None and phases is None
    if phases is None:
        for result in cleared:
            fill_with_zeros(emitter, result)
        emitter.block(kernel.body)
    else:
        emit_phases(emitter, cleared)
    finish_streams(emitter)
    emitter.asm.run("ret i32 0")
    arrays = _arrays(emitter)
    bits = {dims.as_dim(word): number for number, word in emitter.singles.items()}
    words = sorted(emitter.words(), key=lambda word: word[0] in bits)
    words += [] if phases is None else phase_words(phases)
    sizes = tuple([size for size, _ in words])
    prepared = tuple(emitter.asm.prepared)
    return KernelCode(
        kernel,
        Assembled(_text(emitter, arrays, [name for _, name in words], dict(together)), prepared),
        arrays,
        emitter.table.shapes,
        sizes,
        tuple(emitter.checks.sites),
        emitter.panels,
        tuple([bits[size] for size in sizes if size in bits]),
        emitter.is_whole,
        tuple(emitter.places),
        phases is not None,
    )


def _arrays(emitter: Emitter) -> tuple[Var, ...]:
    """The arrays of the table: all but those of which only packed panels are read."""
    nodes = nodes_of(emitter.kernel)
    places = Counter(n.array for n in nodes if isinstance(n, Element))
    packed = Counter(array for array, _, _ in emitter.panels.values())
    return tuple(
        [
            a
            for a in emitter.table.arrays
            if not packed[a] or places[a] > packed[a] or a in emitter.unpacked
        ]
    )


def _text(
    emitter: Emitter, arrays: Sequence[Var], integers: Sequence[str], together: Mapping[Var, Var]
) -> str:
    """A module with the kernel, and with the function that calls it with the words of the table.

    No two pointers of the kernel share memory, unless both are only read: arrays with the same
    memory have one pointer. LLVM then vectorizes loops without runtime checks, which fail for
    results in place of operands.
    """
    asm = emitter.asm
    first, same, pointers = dict[Var, str](), list[str](), list[str]()
    for array in arrays:
        pointer, memory = emitter.array(array), together.get(array, array)
        pointers.append(pointer)
        if first.setdefault(memory, pointer) != pointer:
            same.append(f"{pointer} = getelementptr i8, ptr {first[memory]}, i64 0")
            pointers[-1] = f"%unused{len(same)}"
    params = [f"ptr noalias {p}" for p in pointers] + [f"i64 {n}" for n in integers]
    params += [f"ptr noalias {REPORT}", "i64 %lo", "i64 %hi"]
    loads, values = [], []
    for k in range(len(params) - 2):
        kind = "i64" if len(pointers) <= k < len(params) - 3 else "ptr"
        is_report = k == len(params) - 3
        loads.append(f"%w{k} = getelementptr i64, ptr %table, i64 {k}")
        loads += [] if is_report else [f"%x{k} = load {kind}, ptr %w{k}"]
        values.append(f"{kind} {'%w' if is_report else '%x'}{k}")
    attributes = ATTRIBUTES if emitter.unrolls else f"{ATTRIBUTES} {ROLLED_LOOPS}"
    arguments = ", ".join([*values, "i64 %lo", "i64 %hi"])
    return "\n".join(
        [
            f'target triple = "{llvm.get_process_triple()}"',
            *asm.declared.values(),
            f"define internal i32 @body({', '.join(params)}) noinline nounwind {attributes} {{",
            "entry:",
            *same,
            *asm.entry,
            "br label %begin",
            "begin:",
            *asm.lines,
            *emitter.checks.failure_lines(),
            "}",
            f"define i32 {ENTRY}(ptr %0, ptr %1, ptr %table, i64 %lo, i64 %hi) "
            f"{UNOPTIMIZED} nounwind {{",
            *loads,
            f"%status = call i32 @body({arguments})",
            "ret i32 %status",
            "}",
            *asm.metadata,
            "",
        ]
    )
