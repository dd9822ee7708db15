"""Kernels of the program as source lines for a GPU: elements by addresses, with a check of every
index that is not proved to be in range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_int
from structir.ir.expr import Var
from structir.ir.kernel import (
    SHARED,
    Apply,
    Argument,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    Extent,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    LoopVariable,
    Prefetch,
    Scalar,
    Scratch,
    Size,
    Sync,
    While,
    assigned_value,
)
from structir.ir.kernel_functions import OF_LANES
from structir.ir.struct_info import TensorStructInfo
from structir.loops.emit.definite_initialisation import surely_filled
from structir.loops.emit.index_proofs import IndexRanges
from structir.loops.program.buffer import STORED_AS
from structir.loops.program.kernel_table import Site, dtype_of, table_of
from structir.targets.cuda.independent import independent_loop
from structir.targets.cuda.names import kernel_names
from structir.targets.cuda.scalar_text import (
    ALL_KINDS,
    application_text,
    load_text,
    number_text,
    store_text,
)
from structir.targets.cuda.texts import bare, enclosed, without_call
from structir.targets.cuda.writer import INDENT, indented

REGISTERS = {"thread": "threadIdx", "threads": "blockDim", "block": "blockIdx", "blocks": "gridDim"}
LAZY = {"and": "{0} and {1}", "or": "{0} or {1}", "select": ALL_KINDS["select"]}
OWN_TEXTS = {
    **{row.name: f"{row.name}_{{dtype}}({{0}}, {{1}})" for row in OF_LANES},
    "min": "smaller({0}, {1})",
    "max": "larger({0}, {1})",
    "maximum": "maximum({0}, {1})",
    "minimum": "minimum({0}, {1})",
    "add_to": "add_to({0}, {1})",
    "multiply_to": "multiply_to({0}, {1})",
}


OWN_NAMES = (
    *("kernel", "a", "lo", "hi", "step", "fill", "range", "abs", "min", "max", "inf", "nan"),
    "report",
)


@attrs.frozen(eq=False)
class KernelLines:
    """A kernel as source lines; its arrays and sizes are the parameters, in this order."""

    lines: tuple[str, ...]
    arrays: tuple[Var, ...]  # parameters, then scratch
    shapes: dict[Var, tuple[Dim, ...]]
    sizes: tuple[Dim, ...]  # the symbols, and sizes that the host computes from them
    sites: tuple[Site, ...]
    names: tuple[str, ...]  # of arrays and sizes in the lines
    spread: tuple[str, str, str] | None  # of an independent loop that is the whole kernel
    zeroed: int  # the number of last results that hold zeros before the threads of a launch start


def lines_of(kernel: Kernel) -> KernelLines:
    """Returns the lines of a kernel; they are memoized."""
    memo: dict[str, KernelLines] = kernel.__dict__
    if "_lines" not in memo:
        memo["_lines"] = _Writer(kernel).code()
    return memo["_lines"]


class _Writer:
    """Writes the source of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.table = kernel, table_of(kernel)
        self.taken = {*kernel_names(), *OWN_NAMES}
        self.names: dict[Any, str] = {}
        self.computed: dict[Dim, Sym] = {}  # sizes that the host computes, by their names here
        self.shapes = self.table.shapes
        self.ranges = IndexRanges(kernel, self.shapes)
        self.sites: list[Site] = []
        self.bounds: dict[str, tuple[str, str, str]] = {}  # of loops, by their variables

    def code(self) -> KernelLines:
        """Returns the source with its arrays and sizes."""
        body, alone = list[str](), None
        if self.kernel.blocks is None:
            for param in self.kernel.results:
                if not surely_filled(self.kernel, param, self.ranges):
                    body += self.zeroed(param)
            alone = None if body else independent_loop(self.kernel)
        body += self.block(self.kernel.body)
        symbols = tuple(self.table.symbols)
        names = (*self.table.arrays, *symbols, *self.computed.values())
        return KernelLines(
            tuple(body),
            tuple(self.table.arrays),
            self.shapes,
            (*map(dims.as_dim, symbols), *self.computed),
            tuple(self.sites),
            tuple(map(self.name, names)),
            None if alone is None else self.bounds[alone.variable.name],
            0 if self.kernel.blocks is None else len(self.kernel.results),
        )

    # ---- names

    def name(self, item: Any) -> str:
        """Returns the name of an array, a number or a size."""
        known = self.names.get(item)
        if known is None:
            known = item.name if item.name.isidentifier() else "value"
            while known in self.taken:
                known += "_"
            self.taken.add(known)
            self.names[item] = known
        return known

    def dim(self, dim: Dim) -> str:
        """Returns the source of a size. The host computes compound sizes, because its arithmetic
        does not overflow."""
        if isinstance(dim, int):
            return str(dim)
        symbol = dims.as_sym(dim)
        if symbol is None:
            named = dims.as_sym(dims.sym(f"size{len(self.computed)}"))
            symbol = self.computed.setdefault(dim, named)  # type: ignore[arg-type]
        return self.name(symbol)

    def site(self, site: Site) -> int:
        """Returns the number of a location that may fail."""
        self.sites.append(site)
        return len(self.sites)

    def elements(self, array: Var) -> Dim:
        """Returns the number of elements of an array."""
        return self.table.elements(array)

    # ---- statements

    def block(self, statements: Sequence[KernelStatement]) -> list[str]:
        """Returns the lines of some statements."""
        lines = [line for s in statements for line in _STATEMENTS[type(s)](self, s)]
        return lines or ["pass"]

    def assign(self, assign: Assign) -> list[str]:
        """Assigns a number or an element."""
        value, target = self.scalar(assigned_value(assign)), assign.target
        if isinstance(target, Local):
            self.ranges.assigned(assign)
            return [f"{self.name(target)} = {bare(value)}"]
        stored = store_text(dtype_of(target.array), value)
        return [f"{self.place(target)} = {bare(stored)}"]

    def scratch(self, scratch: Scratch) -> list[str]:
        """Declares an array of zeros and checks that its sizes are not negative."""
        if scratch.space == SHARED:
            held = STORED_AS.get(dtype_of(scratch.array), dtype_of(scratch.array))
            count = prod(self.shapes[scratch.array])
            return [f"{self.name(scratch.array)} = cuda.shared.array({count}, {held})"]
        checks = []
        for axis, dim in enumerate(self.shapes[scratch.array]):
            if dims.at_least(dim, 0) is not True:
                site = self.site(Site(self.kernel, None, axis, scratch.array))
                checks.append(f"inside({self.dim(dim)}, {self.dim(dim)} + 1, {site}, report)")
        return checks + (self.zeroed(scratch.array) if scratch.zeros else [])

    def zeroed(self, array: Var) -> list[str]:
        """Fills an array with zeros."""
        zero = number_text(0, "uint8" if dtype_of(array) == "bool" else "float32")
        stored = zero if dtype_of(array) == "bool" else store_text(dtype_of(array), zero)
        if is_int(dtype_of(array)) or dtype_of(array) == "float64":
            stored = number_text(0, dtype_of(array))
        return [
            f"for fill in range({self.dim(self.elements(array))}):",
            f"{INDENT}{self.name(array)}[fill] = {stored}",
        ]

    def loop(self, loop: For) -> list[str]:
        """Writes a counting loop."""
        start, stop = bare(self.scalar(loop.start)), bare(self.scalar(loop.stop))
        self.bounds[loop.variable.name] = (self.name(loop.variable), start, stop)
        bounds = [stop] if start == "0" else [start, stop]
        if loop.step != 1:
            bounds = [start, stop, "-1"]
        known = self.ranges.enter(loop)
        head = f"for {self.name(loop.variable)} in range({', '.join(bounds)}):"
        body = self.block(loop.body)
        whole = [head, *indented(body)] if abs(loop.step) == 1 else None
        lines = whole or self._in_steps(loop, (start, stop), body)
        self.ranges.leave(loop, known)
        return lines

    def _in_steps(self, loop: For, ends: tuple[str, str], body: list[str]) -> list[str]:
        """Writes a loop that counts its iterations first, because the step after the last one may
        overflow."""
        first, turn = [self.name(Var(n, TensorStructInfo())) for n in ("first", "turn")]
        low, high = (first, ends[1]) if loop.step > 0 else (ends[1], first)
        upwards, step = loop.step > 0, abs(loop.step)
        position = f"wrapping_{'add' if upwards else 'sub'}({first}, wrapping_mul({turn}, {step}))"
        if loop.variable in self.ranges.values:  # both ends are in range, and so is their distance
            position = f"{first} {'+' if upwards else '-'} {turn} * {step}"
        return [
            f"{first} = {ends[0]}",
            f"for {turn} in range(trip_count({low}, {high}, uint64({step}))):",
            f"{INDENT}{self.name(loop.variable)} = {position}",
            *indented(body),
        ]

    def repeat(self, loop: While) -> list[str]:
        """Writes `while test`."""
        return [f"while {bare(self.scalar(loop.test))}:", *indented(self.block(loop.body))]

    def branch(self, branch: Branch) -> list[str]:
        """Writes `if test`."""
        lines = [f"if {bare(self.scalar(branch.test))}:", *indented(self.block(branch.then))]
        if branch.otherwise:
            lines += ["else:", *indented(self.block(branch.otherwise))]
        return lines

    # ---- expressions

    def scalar(self, scalar: Scalar) -> str:
        """Returns the source of an expression, in parentheses unless it is a name or a number."""
        return _SCALARS[type(scalar)](self, scalar)

    def place(self, element: Element) -> str:
        """Returns an element as a subscripted pointer."""
        shape = self.shapes[element.array]
        if element.flat:
            index, size = element.indices[0], self.elements(element.array)
            text = bare(without_call(self.index(element, 0, index, size), "int64"))
            return f"{self.name(element.array)}[{text}]"
        text = ""
        for axis, (index, size) in enumerate(zip(element.indices, shape, strict=True)):
            position = self.index(element, axis, index, size)
            outer = text if text.isidentifier() else f"({text})"
            text = f"{outer} * {self.dim(size)} + {position}" if text else position
        return f"{self.name(element.array)}[{text or '0'}]"

    def index(self, element: Element, axis: int, index: Scalar, size: Dim) -> str:
        """Returns an index, checked unless it is proved to be in range."""
        text = self.scalar(index)
        if index.dtype != "int64":
            text = f"int64({text})"
        if self.ranges.inside(index, size):
            return text
        site = self.site(Site(self.kernel, element, axis, element.array))
        return f"inside({text}, {self.dim(size)}, {site}, report)"

    def element(self, element: Element) -> str:
        """Returns the value of an element."""
        text = load_text(dtype_of(element.array), self.place(element))
        return f"({text})" if " " in text and not text.endswith(("]", ")")) else text

    def argument(self, argument: Argument) -> str:
        """Returns a scalar parameter."""
        if argument.var in self.table.numbers:
            return self.name(self.table.numbers[argument.var])
        return load_text(dtype_of(argument.var), f"{self.name(argument.var)}[0]")

    def apply(self, apply: Apply) -> str:
        """Applies a scalar function of the table."""
        if apply.fn in REGISTERS:
            return f"cuda.{REGISTERS[apply.fn]}.x"
        args = [self.scalar(arg) for arg in apply.args]
        operand = apply.args[-1].dtype
        if apply.fn == "cast":
            return enclosed(application_text("cast", apply.dtype, operand, args))
        if apply.fn in ("min", "max"):
            return _folded(OWN_TEXTS[apply.fn], args)
        template = LAZY.get(apply.fn) or OWN_TEXTS.get(apply.fn)
        if template is not None:
            return enclosed(template.format(*args, dtype=apply.dtype))
        return enclosed(application_text(apply.fn, operand, operand, args))


def _folded(template: str, args: Iterable[str]) -> str:
    first, *rest = args
    for other in rest:
        first = template.format(first, other)
    return first


def _literal(writer: _Writer, literal: Literal) -> str:
    text = number_text(literal.value, literal.dtype)
    return f"({text})" if text.startswith("-") else text


_SCALARS: dict[type, Callable[[_Writer, Any], str]] = {
    Literal: _literal,
    Local: lambda writer, local: writer.name(local),
    LoopVariable: lambda writer, local: writer.name(local),
    Size: lambda writer, size: writer.dim(size.dim),
    Argument: _Writer.argument,
    Extent: lambda writer, extent: writer.dim(writer.shapes[extent.array][extent.axis]),
    Element: _Writer.element,
    Apply: _Writer.apply,
}


def _on_cpu(writer: _Writer, call: LibraryCall) -> list[str]:
    raise StructIRError(f"{writer.kernel.name}: T.{call.fn} is for the CPU")


_STATEMENTS: dict[type, Callable[[_Writer, Any], list[str]]] = {
    Assign: _Writer.assign,
    Scratch: _Writer.scratch,
    LibraryCall: _on_cpu,
    Prefetch: lambda writer, statement: ["pass"],  # threads hide the latency of memory
    For: _Writer.loop,
    While: _Writer.repeat,
    Branch: _Writer.branch,
    Break: lambda writer, statement: ["break"],
    Continue: lambda writer, statement: ["continue"],
    Sync: lambda writer, statement: ["cuda.syncthreads()"],
}
