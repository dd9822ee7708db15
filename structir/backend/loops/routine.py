"""Kernels of the program as texts: elements by addresses, every index checked that is not surely
in range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import attrs

from structir.backend.loops.contraction import MatrixForm
from structir.backend.loops.filling import surely_filled
from structir.backend.loops.independent import independent_loop
from structir.backend.loops.kernel_names import Site, dtype_of
from structir.backend.loops.parted import PartedWriter
from structir.backend.loops.scalar_text import (
    ALL_KINDS,
    STORED_AS,
    application_text,
    load_text,
    number_text,
    store_text,
)
from structir.backend.loops.texts import bare, enclosed, without_call
from structir.backend.loops.writer import INDENT, indented
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_int
from structir.ir.expr import Var
from structir.ir.kernel import (
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
    Part,
    Scalar,
    Scratch,
    Size,
    Sync,
    While,
    assigned_value,
)
from structir.ir.kernel_functions import OF_LANES
from structir.ir.node import replace
from structir.ir.struct_info import KernelStructInfo, TensorStructInfo

REGISTERS = {"thread": "threadIdx", "threads": "blockDim", "block": "blockIdx", "blocks": "gridDim"}
LAZY = {"and": "{0} and {1}", "or": "{0} or {1}", "select": ALL_KINDS["select"]}
OWN_TEXTS = {
    **{row.name: f"{row.name}_{{dtype}}({{0}}, {{1}})" for row in OF_LANES},
    "floordiv": "{dtype}(whole_quotient({0}, {1}))",
    "min": "smaller({0}, {1})",
    "max": "larger({0}, {1})",
    "maximum": "maximum({0}, {1})",
    "minimum": "minimum({0}, {1})",
    "add_to": "add_to({0}, {1})",
    "multiply_to": "multiply_to({0}, {1})",
}


@attrs.frozen(eq=False)
class KernelCode:
    """A kernel as lines of text: its arrays and the symbols of its sizes stand in the table in this
    order."""

    kernel: Kernel
    info: KernelStructInfo  # every size by a symbol
    arrays: tuple[Var, ...]  # parameters, then scratch
    shapes: dict[Var, tuple[Dim, ...]]
    symbols: tuple[Sym, ...]
    sizes: tuple[Dim, ...]  # the symbols, and what the host computes of them
    lines: tuple[str, ...]
    sites: tuple[Site, ...]
    names: tuple[str, ...]  # of arrays and symbols in the lines
    spread: tuple[str, str, str] | None  # of a loop that is all of it, whose iterations never meet
    part: Dim | None  # of what extent it does parts, if it does
    panels: Mapping[Var, tuple[Var, MatrixForm]]  # arrays made of constants, and of what part
    launch: tuple[Dim, int] | None = None  # blocks, and threads of each, if many threads take it
    zeroed: tuple[Var, ...] = ()  # by the host of many threads, before they start


def code_of(kernel: Kernel, constant: frozenset[Var] = frozenset()) -> KernelCode:
    """The text of a kernel whose parameters are constants as far as said, made once."""
    known: dict[frozenset[Var], KernelCode] = kernel.__dict__.setdefault("_codes", {})
    if constant not in known:
        known[constant] = _Writer(kernel, constant).code()
    return known[constant]


class _Writer(PartedWriter):
    """A kernel on its way to text."""

    def __init__(self, kernel: Kernel, constant: frozenset[Var] = frozenset()) -> None:
        super().__init__(kernel, constant)
        self.bounds: dict[str, tuple[str, str, str]] = {}  # of loops, by their variables

    def code(self) -> KernelCode:
        """The text, with what stands in its table."""
        body: list[str] = []
        if self.kernel.blocks is not None:
            return self.code_of_threads(self.kernel.blocks.dim)
        part = self.kernel.part
        for param in self.kernel.results if part is None else ():
            if not surely_filled(self.kernel, param, self.ranges):
                body += self.zeroed(param)
        alone = independent_loop(self.kernel) if not body and part is None else None
        body += self.block(self.kernel.body)
        if self.starts:
            body = self.around_streams(body)
        return self.made(body, None if alone is None else self.bounds[alone.variable.name])

    def code_of_threads(self, blocks: Dim) -> KernelCode:
        """The text of what each of many threads does, once results hold zeros."""
        self._mention(blocks)
        body = self.block(self.kernel.body)
        launch = blocks, self.kernel.threads
        return attrs.evolve(self.made(body, None), launch=launch, zeroed=self.kernel.results)

    def made(self, body: list[str], spread: tuple[str, str, str] | None) -> KernelCode:
        """The code with these lines."""
        part = self.kernel.part
        info = replace(self.kernel.struct_info, params=tuple(self.infos))
        arrays, symbols = self.arrays_needed(), tuple(self.symbols)
        sites = tuple(self.sites)
        sizes = tuple([dims.as_dim(s) for s in symbols]) + tuple(self.computed)
        names = (*arrays, *symbols, *self.computed.values())
        lines = tuple(body)
        return KernelCode(
            self.kernel,
            info,
            arrays,
            self.shapes,
            symbols,
            sizes,
            lines,
            sites,
            tuple(map(self.name, names)),
            spread,
            None if part is None else part.extent,
            self.panels,
        )

    # ---- statements

    def block(self, statements: Sequence[KernelStatement]) -> list[str]:
        """The lines of some statements."""
        lines = [line for s in statements for line in _STATEMENTS[type(s)](self, s)]
        return lines or ["pass"]

    def assign(self, assign: Assign) -> list[str]:
        """A number, or an element."""
        value, target = self.scalar(assigned_value(assign)), assign.target
        if isinstance(target, Local):
            self.ranges.assigned(assign)
            return [f"{self.name(target)} = {bare(value)}"]
        stored = store_text(dtype_of(target.array), value)
        return [f"{self.place(target)} = {bare(stored)}"]

    def scratch(self, scratch: Scratch) -> list[str]:
        """An array of zeros; its sizes must be sizes."""
        if scratch.shared:
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
        """Zeros in all elements of an array."""
        zero = number_text(0, "uint8" if dtype_of(array) == "bool" else "float32")
        stored = zero if dtype_of(array) == "bool" else store_text(dtype_of(array), zero)
        if is_int(dtype_of(array)) or dtype_of(array) == "float64":
            stored = number_text(0, dtype_of(array))
        return [
            f"for fill in range({self.dim(self.elements(array))}):",
            f"{INDENT}{self.name(array)}[fill] = {stored}",
        ]

    def loop(self, loop: For) -> list[str]:
        """A counting loop."""
        start, stop = bare(self.scalar(loop.start)), bare(self.scalar(loop.stop))
        self.bounds[loop.variable.name] = (self.name(loop.variable), start, stop)
        bounds = [stop] if start == "0" else [start, stop]
        if loop.step != 1:
            bounds = [start, stop, "-1"]
        known = self.ranges.enter(loop)
        checks = self.checks_before(loop, (start, stop))
        head = f"for {self.name(loop.variable)} in range({', '.join(bounds)}):"
        body = self.block(loop.body)
        twice = self.streamed(loop, (start, stop), body) if loop.step == 1 else None
        whole = [head, *indented(body)] if abs(loop.step) == 1 else None
        lines = [*checks, *(twice or whole or self._in_steps(loop, (start, stop), body))]
        self.ranges.leave(loop, known)
        return lines

    def _in_steps(self, loop: For, ends: tuple[str, str], body: list[str]) -> list[str]:
        """A loop whose iterations are counted first: the step after the last one may overflow."""
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
        """`while test`."""
        return [f"while {bare(self.scalar(loop.test))}:", *indented(self.block(loop.body))]

    def branch(self, branch: Branch) -> list[str]:
        """`if test`."""
        lines = [f"if {bare(self.scalar(branch.test))}:", *indented(self.block(branch.then))]
        if branch.otherwise:
            lines += ["else:", *indented(self.block(branch.otherwise))]
        return lines

    # ---- expressions

    def scalar(self, scalar: Scalar) -> str:
        """An expression; what is no name or number stands in parentheses."""
        return _SCALARS[type(scalar)](self, scalar)

    def place(self, element: Element) -> str:
        """An element as a subscripted pointer."""
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
        """An index, checked unless it is surely in range."""
        text = self.scalar(index)
        if index.dtype != "int64":
            text = f"int64({text})"
        if element in self.sure or self.ranges.inside(index, size):
            return text
        site = self.site(Site(self.kernel, element, axis, element.array))
        return f"inside({text}, {self.dim(size)}, {site}, report)"

    def element(self, element: Element) -> str:
        """The value of an element."""
        text = load_text(dtype_of(element.array), self.place(element))
        return f"({text})" if " " in text and not text.endswith(("]", ")")) else text

    def argument(self, argument: Argument) -> str:
        """A number that is a parameter."""
        if argument.var in self.numbers:
            return self.name(self.numbers[argument.var])
        return load_text(dtype_of(argument.var), f"{self.name(argument.var)}[0]")

    def apply(self, apply: Apply) -> str:
        """A scalar function of the table."""
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
    Size: lambda writer, size: writer.dim(size.dim),
    Argument: _Writer.argument,
    Extent: lambda writer, extent: writer.dim(writer.shapes[extent.array][extent.axis]),
    Element: _Writer.element,
    Apply: _Writer.apply,
}
_STATEMENTS: dict[type, Callable[[_Writer, Any], list[str]]] = {
    Assign: _Writer.assign,
    Scratch: _Writer.scratch,
    Part: _Writer.part,
    LibraryCall: _Writer.library_call,
    For: _Writer.loop,
    While: _Writer.repeat,
    Branch: _Writer.branch,
    Break: lambda writer, statement: ["break"],
    Continue: lambda writer, statement: ["continue"],
    Sync: lambda writer, statement: ["cuda.syncthreads()"],
}
