"""Kernels of the program as texts: elements by addresses, every index checked that is not surely
in range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import attrs

from structir.backend.cpu.kernels import NAMES
from structir.backend.cpu.routines import routine_helpers
from structir.backend.cpu.scalars import helpers
from structir.backend.loops.filling import surely_filled
from structir.backend.loops.independent import independent_loop
from structir.backend.loops.index_proofs import IndexRanges
from structir.backend.loops.library_text import LIBRARY_TEXTS
from structir.backend.loops.scalar_text import (
    ALL_KINDS,
    application_text,
    load_text,
    number_text,
    store_text,
)
from structir.backend.loops.steady import steady_elements, with_local
from structir.backend.loops.writer import INDENT, indented
from structir.errors import StructIRError
from structir.interpret.kernels import assigned, no_such_size, out_of_range
from structir.ir import dims
from structir.ir.dims import Dim, Sym, syms
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
    LibraryCall,
    Literal,
    Local,
    Part,
    Scalar,
    Scratch,
    Size,
    Statement,
    While,
    nodes_of,
)
from structir.ir.kernel_functions import LIBRARY
from structir.ir.node import replace
from structir.ir.struct_info import KernelStructInfo, PrimStructInfo, TensorStructInfo

OWN_NAMES = ("kernel", "a", "lo", "hi", "step", "fill", "range", "abs", "min", "max", "inf", "nan")
LAZY = {"and": "{0} and {1}", "or": "{0} or {1}", "select": ALL_KINDS["select"]}
OWN_TEXTS = {
    "floordiv": "{dtype}(whole_quotient({0}, {1}))",
    "min": "smaller({0}, {1})",
    "max": "larger({0}, {1})",
    "shl": "{dtype}(shifted_left({0}, {1}, {bits}))",
    "shr": "{dtype}(shifted_right({0}, {1}, {bits}))",
    "maximum": "maximum({0}, {1})",
    "minimum": "minimum({0}, {1})",
    "add_to": "add_to({0}, {1})",
    "multiply_to": "multiply_to({0}, {1})",
}


@attrs.frozen
class Site:
    """An index that may be out of range: of an element, or of a size that may be negative."""

    kernel: Kernel
    element: Element | None
    axis: int
    array: Var

    def error(self, index: int, size: int) -> StructIRError:
        """What is said when it happens."""
        if self.element is not None:
            return out_of_range(self.kernel, self.element, self.axis, index, size)
        return no_such_size(self.kernel, self.array, self.axis, index)


@attrs.frozen(eq=False)
class KernelCode:
    """A kernel as lines of text: its arrays and the symbols of its sizes stand in the table in this
    order."""

    kernel: Kernel
    info: KernelStructInfo  # every size by a symbol
    arrays: tuple[Var, ...]  # parameters, then scratch
    shapes: dict[Var, tuple[Dim, ...]]
    symbols: tuple[Sym, ...]
    lines: tuple[str, ...]
    sites: tuple[Site, ...]
    names: tuple[str, ...]  # of arrays and symbols in the lines
    spread: tuple[str, str, str] | None  # of a loop that is all of it, whose iterations never meet
    part: Dim | None  # of what extent it does parts, if it does


def code_of(kernel: Kernel) -> KernelCode:
    """The text of a kernel, made once."""
    known: KernelCode | None = kernel.__dict__.get("_code")
    if known is None:
        known = kernel.__dict__["_code"] = _Writer(kernel).code()
    return known


class _Writer:
    """A kernel on its way to text."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.taken = {*NAMES, *helpers(), *routine_helpers(), *OWN_NAMES}
        self.names: dict[Any, str] = {}
        self.infos = [_sized(param) for param in kernel.params]
        self.numbers: dict[Var, Sym] = {}  # integer parameters, which stand among the sizes
        self.arrays: list[Var] = []
        self.shapes: dict[Var, tuple[Dim, ...]] = {}
        self.symbols: dict[Sym, None] = {}
        for param, info in zip(kernel.params, self.infos, strict=True):
            self._parameter(param, info)
        for node in nodes_of(kernel):
            if isinstance(node, Scratch):
                self._array(node.array, node.array.struct_info.dims)  # type: ignore[attr-defined]
            elif isinstance(node, Part):
                self._mention(node.extent)
        self.ranges = IndexRanges(kernel, self.shapes)
        self.sites: list[Site] = []
        self.bounds: dict[str, tuple[str, str, str]] = {}  # of loops, by their variables
        self.rooms: dict[str, Var] = {}  # of functions of the library, by dtypes
        self.sure: set[Element] = set()  # what a check before its loop has found in range

    def _parameter(self, param: Var, info: TensorStructInfo | PrimStructInfo) -> None:
        if isinstance(info, PrimStructInfo) and info.dtype == "int64":
            self._mention(info.value)
            self.numbers[param] = dims.as_sym(info.value)  # type: ignore[assignment,arg-type]
        else:
            self._array(param, info.dims if isinstance(info, TensorStructInfo) else ())

    def _array(self, array: Var, shape: tuple[Dim, ...]) -> None:
        self.arrays.append(array)
        self.shapes[array] = shape
        for dim in shape:
            self._mention(dim)

    def _mention(self, dim: Any) -> None:
        self.symbols |= dict.fromkeys(sorted(syms(dim), key=lambda s: s.order))

    def code(self) -> KernelCode:
        """The text, with what stands in its table."""
        body: list[str] = []
        part = self.kernel.part
        for param in self.kernel.results if part is None else ():
            if not surely_filled(self.kernel, param, self.ranges):
                body += self.zeroed(param)
        alone = independent_loop(self.kernel) if not body and part is None else None
        body += self.block(self.kernel.body)
        spread = None if alone is None else self.bounds[alone.variable.name]
        info = replace(self.kernel.struct_info, params=tuple(self.infos))
        arrays, symbols = tuple(self.arrays), tuple(self.symbols)
        sites = tuple(self.sites)
        names = tuple([self.name(item) for item in (*arrays, *symbols)])
        lines = tuple(body)
        return KernelCode(
            self.kernel,
            info,
            arrays,
            self.shapes,
            symbols,
            lines,
            sites,
            names,
            spread,
            None if part is None else part.extent,
        )

    # ---- names

    def name(self, item: Any) -> str:
        """The name of an array, a number or a size."""
        known = self.names.get(item)
        if known is None:
            known = item.name if item.name.isidentifier() else "value"
            while known in self.taken:
                known += "_"
            self.taken.add(known)
            self.names[item] = known
        return known

    def dim(self, dim: Dim) -> str:
        """A size as text."""
        if isinstance(dim, int):
            return str(dim)
        text = dims.python_text(dim, self.name)
        return text if text.isidentifier() else f"({text})"

    # ---- statements

    def block(self, statements: Sequence[Statement]) -> list[str]:
        """The lines of some statements."""
        lines = [line for s in statements for line in _STATEMENTS[type(s)](self, s)]
        return lines or ["pass"]

    def assign(self, assign: Assign) -> list[str]:
        """A number, or an element."""
        value, target = self.scalar(assigned(assign)), assign.target
        if isinstance(target, Local):
            self.ranges.assigned(assign)
            return [f"{self.name(target)} = {bare(value)}"]
        stored = store_text(_dtype(target.array), value)
        return [f"{self.place(target)} = {bare(stored)}"]

    def scratch(self, scratch: Scratch) -> list[str]:
        """An array of zeros; its sizes must be sizes."""
        checks = []
        for axis, dim in enumerate(self.shapes[scratch.array]):
            if dims.at_least(dim, 0) is not True:
                site = self.site(Site(self.kernel, None, axis, scratch.array))
                checks.append(f"inside({self.dim(dim)}, {self.dim(dim)} + 1, {site}, report)")
        return checks + (self.zeroed(scratch.array) if scratch.zeros else [])

    def part(self, part: Part) -> list[str]:
        """The ends of a part, which the kernel is given."""
        self.ranges.parted(part)
        return [f"{self.name(part.low)} = lo", f"{self.name(part.high)} = hi"]

    def library_call(self, call: LibraryCall) -> list[str]:
        """A function of the library, once all that it will touch is known to be there."""
        function = LIBRARY[call.fn]
        count = len(function.places)
        values = dict(zip(function.integers, map(self.scalar, call.args[count:]), strict=True))
        lines, places = list[str](), list[str]()
        for name, element in zip(function.places, call.args, strict=False):
            assert isinstance(element, Element)
            start = self.scalar(element.indices[0])
            lines += self._walked(element, start, function.steps(name, values))
            places.append(f"offset_by({self.name(element.array)}, {bare(start)})")
        dtype = _dtype(call.written.array)
        return lines + LIBRARY_TEXTS[call.fn](places, list(values.values()), dtype, self.room)

    def _walked(self, element: Element, start: str, steps: list[tuple[str, Any]]) -> list[str]:
        """Checks of the first and of the last element that a function goes to."""
        size = self.dim(self.elements(element.array))
        site = self.site(Site(self.kernel, element, 0, element.array))
        moves = [(n, step) for n, step in steps if step != 1]
        last = " + ".join([start, *[f"({n} - 1) * {step}" for n, step in steps]])
        checks = [f"inside({step}, {size} + 1, {site}, report)" for _, step in moves]
        checks += [f"inside({at}, {size}, {site}, report)" for at in (bare(start), last)]
        return [f"if {' and '.join([f'{n} > 0' for n, _ in steps])}:", *indented(checks)]

    def room(self, elements: int, dtype: str) -> str:
        """The name of an array that functions of the library use as they go."""
        array = self.rooms.get(dtype)
        if array is None:
            array = self.rooms[dtype] = Var("room", TensorStructInfo((elements,), dtype))
            self._array(array, (elements,))
        return self.name(array)

    def elements(self, array: Var) -> Dim:
        """How many elements an array has."""
        return prod(self.shapes[array])

    def zeroed(self, array: Var) -> list[str]:
        """Zeros in all elements of an array."""
        count: Dim = 1
        for dim in self.shapes[array]:
            count = count * dim
        zero = number_text(0, "uint8" if _dtype(array) == "bool" else "float32")
        stored = zero if _dtype(array) == "bool" else store_text(_dtype(array), zero)
        if is_int(_dtype(array)) or _dtype(array) == "float64":
            stored = number_text(0, _dtype(array))
        return [
            f"for fill in range({self.dim(count)}):",
            f"{INDENT}{self.name(array)}[fill] = {stored}",
        ]

    def loop(self, loop: For) -> list[str]:
        """A counting loop."""
        start, stop = bare(self.scalar(loop.start)), bare(self.scalar(loop.stop))
        self.bounds[loop.variable.name] = (self.name(loop.variable), start, stop)
        bounds = [stop] if start == "0" else [start, stop]
        if loop.step != 1:
            bounds = [start, stop, str(loop.step)]
        known = self.ranges.enter(loop)
        checks = self.checks_before(loop, (start, stop))
        head = f"for {self.name(loop.variable)} in range({', '.join(bounds)}):"
        lines = [*checks, head, *indented(self.block(loop.body))]
        self.ranges.leave(loop, known)
        return lines

    def checks_before(self, loop: For, ends: tuple[str, str]) -> list[str]:
        """Checks of the elements that a loop comes to at its ends, in place of one in each round:
        those whose indices step evenly, and which every round comes to."""
        found = [e for e in steady_elements(loop) if not self._is_inside(e)]
        if not found:
            return []
        start, stop = ends
        last = Apply("sub", (loop.stop, Literal(1, "int64")), "int64")
        lines = []
        for element in found:
            for end in (loop.start, last):
                index = with_local(element.indices[0], loop.variable, end)
                text, size = self.scalar(index), self.dim(self.elements(element.array))
                site = self.site(Site(self.kernel, element, 0, element.array))
                lines.append(f"inside({bare(text)}, {size}, {site}, report)")
        self.sure |= set(found)
        return [f"if {start} < {stop}:", *indented(lines)]

    def _is_inside(self, element: Element) -> bool:
        return self.ranges.inside(element.indices[0], self.elements(element.array))

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
            return f"{self.name(element.array)}[{bare(self.index(element, 0, index, size))}]"
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

    def site(self, site: Site) -> int:
        """The number of a place that may fail."""
        self.sites.append(site)
        return len(self.sites)

    def element(self, element: Element) -> str:
        """The value of an element."""
        text = load_text(_dtype(element.array), self.place(element))
        return f"({text})" if " " in text and not text.endswith(("]", ")")) else text

    def argument(self, argument: Argument) -> str:
        """A number that is a parameter."""
        if argument.var in self.numbers:
            return self.name(self.numbers[argument.var])
        return load_text(_dtype(argument.var), f"{self.name(argument.var)}[0]")

    def apply(self, apply: Apply) -> str:
        """A scalar function of the table."""
        args = [self.scalar(arg) for arg in apply.args]
        operand = apply.args[-1].dtype
        if apply.fn == "cast":
            return _enclosed(application_text("cast", apply.dtype, operand, args))
        if apply.fn in ("min", "max"):
            return _folded(OWN_TEXTS[apply.fn], args)
        template = LAZY.get(apply.fn) or OWN_TEXTS.get(apply.fn)
        bits = operand.lstrip("uint") if is_int(operand) else ""
        if template is not None:
            return _enclosed(template.format(*args, dtype=apply.dtype, bits=bits))
        return _enclosed(application_text(apply.fn, operand, operand, args))


def _sized(param: Var) -> TensorStructInfo | PrimStructInfo:
    """The info of a parameter with a symbol for every size and integer that has none."""
    info: Any = param.struct_info
    if isinstance(info, PrimStructInfo):
        known = info.value is not None and dims.as_sym(info.value) is not None
        if info.dtype != "int64" or known:
            return info
        return PrimStructInfo("int64", dims.sym(param.name))
    if info.dims is not None:
        return info  # type: ignore[no-any-return]
    shape = tuple([dims.sym(f"{param.name}_size{axis}") for axis in range(info.ndim)])
    return TensorStructInfo(shape, info.dtype)


def _dtype(array: Var) -> str:
    return str(array.struct_info.dtype)  # type: ignore[attr-defined]


def bare(text: str) -> str:
    """A text without the parentheses around all of it."""
    return text[1:-1] if _is_enclosed(text, 0) else text


def _enclosed(text: str) -> str:
    """A text in parentheses, unless it is a call that brings them."""
    called = text.find("(")
    return text if text[:called].isidentifier() and _is_enclosed(text, called) else f"({text})"


def _is_enclosed(text: str, start: int) -> bool:
    """Whether the parenthesis at a place closes at the very end."""
    if text[start : start + 1] != "(" or text[-1:] != ")":
        return False
    depth = 0
    for place, letter in enumerate(text[start:], start):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


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
}
