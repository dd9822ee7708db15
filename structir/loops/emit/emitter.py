"""The state of the emission of one kernel: what its nodes are as LLVM values so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    REGISTERS,
    Apply,
    Assign,
    Element,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Local,
    Part,
    Scalar,
    Scratch,
    nodes_of,
)
from structir.ir.node import Node, parts
from structir.ir.scalar_functions import declared
from structir.ir.struct_info import PrimStructInfo
from structir.loops.emit.checks import Checks
from structir.loops.emit.index_proofs import IndexRanges
from structir.loops.lower.as_scalar import LEAST
from structir.loops.products.contraction import MatrixForm
from structir.loops.program.kernel_table import dtype_of, table_of
from structir.loops.schedule.loop_tree import blocks_of
from structir.system.locks import cached_property
from structir.targets.cpu.assembly import STORED, TYPES, Assembly
from structir.targets.cpu.unaligned_sums import vector_bytes

CONTRACT = "contract "  # a product and a sum may be rounded once


def _singles(kernel: Kernel) -> dict[Var, Sym]:
    """The float32 parameters, each with a symbol for its bits."""
    infos = {p: p.struct_info for p in kernel.params}
    return {
        p: Sym(p.name)
        for p, info in infos.items()
        if isinstance(info, PrimStructInfo) and info.dtype == "float32"
    }


def _is_division(node: Node) -> bool:
    return type(node) is Apply and node.fn in DIVISIONS


def _range_of(loop: For) -> Iterator[Node]:
    """Yields the nodes of the ends of a loop."""
    for end in (loop.start, loop.stop):
        yield from nodes_of(end)


def _is_of_data(node: Node, known: Collection[Local]) -> bool:
    return isinstance(node, Element) or (isinstance(node, Local) and node in known)


DIVISIONS = frozenset({"floordiv", "mod"})


class Emitter:
    """One kernel on its way to LLVM. The tables have a function for each class of nodes.

    Integers of the code at the `varying` places, counted from 1, are in the table of the kernel.
    """

    def __init__(
        self,
        kernel: Kernel,
        statements: Mapping[type, Callable[[Emitter, Any], None]],
        scalars: Mapping[type, Callable[[Emitter, Any], str]],
        constants: frozenset[Var],
        is_generated: bool = False,
        shares_numbers: bool = False,
        varying: Container[int] | None = None,
    ) -> None:
        self.kernel, self.constants, self.is_generated = kernel, constants, is_generated
        self.shares_numbers, self.varying = shares_numbers, varying
        self._statements, self._scalars = statements, scalars
        # Without parts, users see the rounding of every operation.
        is_exact = kernel.part is None and not is_generated
        self.asm = Assembly("" if is_exact else CONTRACT)
        self.table = table_of(kernel).copy()
        self.ranges = IndexRanges(kernel, self.table.shapes)
        self.checks = Checks(self.asm, kernel)
        self.sure: set[Element] = set()  # elements that a check before a loop has found in range
        self.pointers: dict[Element, str] = {}  # of elements that a statement reads and writes
        self.values: dict[Local, str] = {}
        self.divisions: dict[Apply, str] = {}  # values of divisions, computed before a loop
        self.slots: dict[Local, str] = {}
        self.streaming: set[Element] = set()  # targets of non-temporal stores
        self.streamed: dict[Var | None, None] = {}  # arrays with such stores; None if marked
        self.only_filled: frozenset[Var] = frozenset()  # that may have such stores
        self.is_whole = False  # whether a kernel with parts runs for its whole range
        self.has_phases = False  # whether it runs in phases
        # whether LLVM unrolls loops without a mark; kernels that share their code differ in lengths
        self.unrolls = not is_generated or varying is not None
        self.panels: dict[Var, tuple[Var, MatrixForm, str]] = {}  # packed parts of constants
        self.unpacked: set[Var] = set()  # constants that are also read as they are
        self.rooms: dict[str, Var] = {}  # memory of library functions, by dtypes
        self._arrays: dict[Var, str] = {}
        self._sizes: dict[Dim, str] = {}
        self._numbers: dict[str, int] = {}  # integers of the table that one place mentions,
        self.places: list[int] = []  # and the number of each place
        self._integers = 0  # places with integers that may be in the table
        self._shares_all = False
        self._singles: dict[Var, str] = {}
        nodes = list(nodes_of(kernel))
        self.around_calls: set[KernelStatement] = set()  # loops that call library functions,
        self.undivided: set[KernelStatement] = set()  # and statements without divisions
        self._classify(kernel.body, any(map(_is_division, nodes)))
        spaces = {n.array: n.space for n in nodes if isinstance(n, Scratch)}
        self.tables = {array for array in spaces if dtype_of(array) == "int64"}
        self.registers = {array for array, space in spaces.items() if space == REGISTERS}
        self.singles = _singles(kernel) if is_generated else {}
        elsewhere = {*self.registers, *self.singles}
        self.table.arrays = [a for a in self.table.arrays if a not in elsewhere]
        writes = Counter(n.target for n in nodes if isinstance(n, Assign))
        loops = {n.variable for n in nodes if isinstance(n, For)}
        parts = {end for n in nodes if isinstance(n, Part) for end in (n.low, n.high)}
        self.assigned = {t for t in writes if isinstance(t, Local)}
        self._once = {t for t in self.assigned if writes[t] == 1} - loops - parts

    def depends_on_data(self, loop: For) -> bool:
        """Whether the range of a loop depends on elements."""
        return any(_is_of_data(node, self._from_data) for node in _range_of(loop))

    @cached_property
    def calls_functions(self) -> bool:
        """Whether the kernel calls math functions."""
        return any(isinstance(n, Apply) and n.fn in declared() for n in nodes_of(self.kernel))

    @cached_property
    def vector_bytes(self) -> int:
        """The size of the vectors of loops over registers."""
        nodes = list(nodes_of(self.kernel))
        elements = [n for n in nodes if isinstance(n, Element)]
        starts = [v for e in elements for index in e.indices for v in nodes_of(index)]
        is_unaligned = any([isinstance(v, Local) and v in self._from_data for v in starts])
        return vector_bytes(nodes if is_unaligned else ())

    @cached_property
    def _from_data(self) -> frozenset[Local]:
        """The variables whose values depend on elements, directly or by other variables."""
        assigns = [n for n in nodes_of(self.kernel) if isinstance(n, Assign)]
        values = [(s.target, list(nodes_of(s.value))) for s in assigns]
        variables = [(target, nodes) for target, nodes in values if isinstance(target, Local)]
        known: set[Local] = set()
        while True:
            more = {t for t, nodes in variables if any(_is_of_data(n, known) for n in nodes)}
            if more <= known:
                return frozenset(known)
            known |= more

    def _classify(self, block: Sequence[KernelStatement], has_divisions: bool) -> tuple[bool, bool]:
        """Adds the statements of a block to `around_calls` and `undivided`; returns whether it
        calls library functions, and whether it has divisions."""
        calls, divides = False, False
        for statement in block:
            inner = blocks_of(statement)
            below = [self._classify(body, has_divisions) for body in inner]
            is_around = any(has_calls for has_calls, _ in below)
            is_divided = any(is_divided for _, is_divided in below)
            if isinstance(statement, For) and is_around:
                self.around_calls.add(statement)
            if has_divisions and not is_divided:
                own = (
                    [p for p in parts(statement) if isinstance(p, Scalar)] if inner else [statement]
                )
                is_divided = any(_is_division(node) for part in own for node in nodes_of(part))
            if not is_divided:
                self.undivided.add(statement)
            calls = calls or is_around or isinstance(statement, LibraryCall)
            divides = divides or is_divided
        return calls, divides

    # ---- nodes

    def block(self, statements: Sequence[KernelStatement]) -> None:
        """Emits statements, up to one that leaves the block."""
        is_around = any(isinstance(s, LibraryCall) or s in self.around_calls for s in statements)
        for statement in statements:
            if not self.asm.is_open:
                return
            with self.sharing_all(is_around and isinstance(statement, Assign)):
                self._statements[type(statement)](self, statement)

    def scalar(self, scalar: Scalar) -> str:
        """Emits an expression; returns its value."""
        return self._scalars[type(scalar)](self, scalar)

    def index(self, scalar: Scalar) -> str:
        """Emits an index; returns it as an int64."""
        value, kind = self.scalar(scalar), TYPES[scalar.dtype]
        if kind == "i64":
            return value
        extension = "sext" if scalar.dtype.startswith("int") else "zext"
        return self.asm.value(f"{extension} {kind} {value} to i64")

    # ---- names

    def array(self, array: Var) -> str:
        """Returns the pointer to an array."""
        return self._arrays.setdefault(array, f"%p{len(self._arrays)}")

    def allocate_registers(self, array: Var) -> None:
        """Gives an array of constant size memory on the stack, which LLVM replaces by registers
        where all indices are constants."""
        kind = f"[{self.table.elements(array)} x {STORED[dtype_of(array)]}]"
        self._arrays[array] = self.asm.at_entry(f"alloca {kind}, align 64")

    def size(self, dim: Dim) -> str:
        """Returns a size. The host computes all but symbols: there nothing wraps around."""
        if isinstance(dim, int):
            return str(dim)
        return self._sizes.setdefault(dim, f"%n{len(self._sizes)}")

    def integer(self, number: int) -> str:
        """Returns an integer: where kernels share their code, a large one is in the table."""
        if self.varying is not None and abs(number) >= (2 if self._shares_all else LEAST):
            self._integers += 1
            if self._integers in self.varying:
                return self._varying(number)
        if not self.shares_numbers or abs(number) < LEAST:
            return str(number)
        return self._sizes.setdefault(number, f"%n{len(self._sizes)}")

    def _varying(self, number: int) -> str:
        name = f"%m{len(self._numbers)}"
        self._numbers[name] = number
        self.places.append(self._integers)
        return name

    @contextmanager
    def sharing_all(self, is_rare: bool = True) -> Iterator[None]:
        """In this context, which `is_rare`, small integers may be in the table, too."""
        outer, self._shares_all = self._shares_all, self._shares_all or is_rare
        yield
        self._shares_all = outer

    def single(self, number: Var) -> str:
        """Returns a float32 whose bits are a word of the table."""
        if number not in self._singles:
            word = self.size(dims.as_dim(self.singles[number]))
            bits = self.asm.at_entry(f"trunc i64 {word} to i32")
            self._singles[number] = self.asm.at_entry(f"bitcast i32 {bits} to float")
        return self._singles[number]

    def words(self) -> list[tuple[Dim, str]]:
        """Returns the sizes and integers of the table, with their names."""
        return [*self._sizes.items(), *[(number, name) for name, number in self._numbers.items()]]

    def elements(self, array: Var) -> str:
        """Returns the number of elements of an array."""
        return self.size(self.table.elements(array))

    # ---- variables

    def set_local(self, local: Local, value: str) -> None:
        """Gives a variable its value. One that is assigned once needs no memory."""
        if local in self._once or local not in self.assigned:
            self.values[local] = value
            return
        kind = TYPES[local.dtype]
        if local not in self.slots:
            self.slots[local] = self.asm.at_entry(f"alloca {kind}")
        self.asm.run(f"store {kind} {value}, ptr {self.slots[local]}")

    def local(self, local: Local) -> str:
        """Returns the value of a variable."""
        if local in self.values:
            return self.values[local]
        return self.asm.value(f"load {TYPES[local.dtype]}, ptr {self.slots[local]}")

    @contextmanager
    def with_pointer(self, element: Element, pointer: str) -> Iterator[None]:
        """Sets the pointer to an element in this context."""
        self.pointers[element] = pointer
        yield
        del self.pointers[element]
