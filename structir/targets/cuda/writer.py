"""Kernel sources: names for addresses, sizes and axes, and expressions as lines of their scope."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from structir.ir import dims
from structir.ir.dims import Atom, Dim, Monomial, Opaque, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel_functions import rounds_to_integers
from structir.ir.polynomial import of_terms, opaque_atom
from structir.loops.program.access import address_of
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Number,
    Operation,
    Position,
    Total,
    apply,
    axis_dim,
    number,
)
from structir.targets.cuda.scalar_text import application_text, load_text, number_text, store_text

INDENT = "    "


@attrs.define
class LoopScope:
    """Lines under some loops: the axes known there, and the names of values already computed."""

    axes: frozenset[Sym]
    lines: list[str] = attrs.Factory(list)
    made: dict[object, str] = attrs.Factory(dict)


class Writer:
    """Writes the source of one kernel."""

    def __init__(self, axes: Iterable[Sym], rows: Iterable[Sym] = ()) -> None:
        self.axes = tuple(axes)
        self.rows = frozenset(rows)
        self.names: dict[Sym, str | None] = {}
        self.pointers: dict[Buffer, str] = {}
        self.size_names: dict[Dim, str] = {}
        self.known: dict[str, Sym] = {}  # sizes in indices, by these names
        self.exact: set[Expression] = set()  # divisions that are not rewritten
        self.totals: dict[Buffer, str] = {}
        self.local: set[Buffer] = set()  # written in this kernel: read no earlier than in the row
        self.scratch: list[Buffer] = []
        self.counter = 0
        self.needs: dict[Expression, frozenset[Sym]] = {}

    def fresh(self) -> str:
        """Returns a new name for a value."""
        self.counter += 1
        return f"v{self.counter}"

    def pointer(self, buffer: Buffer) -> str:
        """Returns the name of a buffer's address."""
        return self.pointers.setdefault(buffer.root, f"p{len(self.pointers)}")

    def size(self, dim: Dim) -> str:
        """Returns the source of a size: a number, or the name of an argument."""
        if isinstance(dim, int):
            return str(dim)
        return self.size_names.setdefault(dim, f"n{len(self.size_names)}")

    def name_axes(self, groups: list[tuple[Sym, ...]], names: list[str]) -> None:
        """Names collapsed axes: the last one of each group has the name."""
        for group, name in zip(groups, names, strict=True):
            for axis in group[:-1]:
                self.names[axis] = None
            self.names[group[-1]] = name

    def needed_axes(self, node: Expression) -> frozenset[Sym]:
        """Returns the axes whose position a value depends on."""
        needed = self.needs.get(node)
        if needed is None:
            needed = self.needs[node] = self._needed_axes(node)
        return needed

    def _needed_axes(self, node: Expression) -> frozenset[Sym]:
        match node:
            case Operation(_, args):
                return frozenset().union(*map(self.needed_axes, args))
            case Load(buffer, entries):
                local = self.rows if buffer in self.local else frozenset()
                return local.union(*map(self._needed_by_entry, entries))
            case Position(dim):
                return dims.syms(dim) & frozenset(self.axes)
            case Total():
                return self.rows
            case _:
                return frozenset()

    def _needed_by_entry(self, entry: Entry) -> frozenset[Sym]:
        if isinstance(entry, Expression):
            return self.needed_axes(entry)
        return dims.syms(entry) & frozenset(self.axes)

    def value(self, node: Expression, scopes: list[LoopScope]) -> str:
        """Returns the name of a value, computed in the outermost scope in which its operands are
        known."""
        if isinstance(node, Number):
            return number_text(node.value, node.dtype)
        if isinstance(node, Total):
            return self.totals[node.buffer]
        if isinstance(node, Operation) and rounds_to_integers(node.fn, node.dtype):
            self.exact.update(node.args)
        node = self._with_reciprocal(node, scopes)
        scope = self.scope_of(node, scopes)
        for outer in scopes:
            if node in outer.made:
                return outer.made[node]
            if outer is scope:
                break
        text = self._text(node, scopes)
        name = self.fresh()
        scope.lines.append(f"{name} = {text}")
        scope.made[node] = name
        return name

    def scope_of(self, node: Expression, scopes: list[LoopScope]) -> LoopScope:
        """Returns the outermost scope in which the operands of a value are known."""
        needed = self.needed_axes(node)
        return next((s for s in scopes if needed <= s.axes), scopes[-1])

    def _with_reciprocal(self, node: Expression, scopes: list[LoopScope]) -> Expression:
        """Replaces a division by a value of an outer scope by a product with its reciprocal, except
        if the quotient is rounded to an integer, where the last bit may decide."""
        if node in self.exact or not isinstance(node, Operation) or node.exact:
            return node
        if node.fn != "div" or not is_float(node.dtype):
            return node
        over, under = node.args
        depths = [scopes.index(self.scope_of(side, scopes)) for side in (over, under)]
        if isinstance(under, Number) or depths[0] <= depths[1]:
            return node
        reciprocal = apply("div", (number(1.0, node.dtype), under), node.dtype)
        return apply("mul", (over, reciprocal), node.dtype)

    def _text(self, node: Expression, scopes: list[LoopScope]) -> str:
        match node:
            case Operation(fn, args, dtype):
                texts = [self.value(a, scopes) for a in args]
                operand = args[1].dtype if fn == "select" else args[0].dtype
                return application_text(fn, dtype, operand, texts)
            case Load(buffer, entries):
                place = self.place(buffer, entries, scopes)
                return load_text(buffer.dtype, place)
            case Position(dim, dtype):
                return application_text("cast", dtype, "int64", [self.index_text(dim)])
        raise TypeError(f"no text for {node!r}")

    def index_text(self, dim: Dim) -> str:
        """Returns the source of an index over axes and sizes."""
        return f"({dims.python_text(self._over_axes(dim), self._symbol_name)})"

    def _over_axes(self, dim: Dim) -> Dim:
        """Returns an index with a size for each part of it without axes: similar kernels have one
        source, which computes nothing that is known before they run."""
        if isinstance(dim, int):
            return dim
        factors: dict[Monomial, dict[Monomial, int]] = {(): {}}
        for monomial, coefficient in dim.terms.items():
            along = tuple([atom for atom in monomial if self._has_axes(atom)])
            free = tuple([atom for atom in monomial if atom not in along])
            factors.setdefault(along, {})[free] = coefficient
        total = self._known(factors.pop(()), dim.constant)
        for along, terms in factors.items():
            product = self._known(terms, terms.pop((), 0))
            for atom in along:
                product = product * self._atom_over_axes(atom)
            total = total + product
        return total

    def _has_axes(self, atom: Atom) -> bool:
        syms = dims.syms(of_terms({(atom,): 1}, 0))
        return any(symbol in self.names or symbol in self.axes for symbol in syms)

    def _atom_over_axes(self, atom: Atom) -> Dim:
        """Returns a symbol as it is, and selections: the side that is not selected may divide by
        zero."""
        if isinstance(atom, Opaque) and atom.fn != "select":
            args = tuple([self._over_axes(argument) for argument in atom.args])
            atom = opaque_atom(atom.fn, args, atom.interval)
        return of_terms({(atom,): 1}, 0)

    def _known(self, terms: dict[Monomial, int], constant: int) -> Dim:
        """Returns a size without axes: a number, or a symbol by its name here."""
        dim = of_terms(terms, constant)
        if isinstance(dim, int):
            return dim
        name = self.size(dim)
        symbol = self.known.setdefault(name, Sym(name))
        self.names[symbol] = name
        return axis_dim(symbol)

    def _symbol_name(self, symbol: Sym) -> str:
        if symbol in self.names or symbol in self.axes:
            name = self.names.get(symbol)
            if name is None:
                raise KeyError(f"axis {symbol} has no loop of its own")
            return name
        return self.size(axis_dim(symbol))

    def place(self, buffer: Buffer, entries: tuple[Entry, ...], scopes: list[LoopScope]) -> str:
        """Returns an element of a buffer, as a subscripted pointer."""
        outer: list[str] = []
        inner: list[str] = []
        address = address_of(buffer, entries, self.axes)
        for axis, step in address.coefficients.items():
            name = self.names.get(axis)
            if name is not None:
                term = name if step == 1 else f"{name} * {self.size(step)}"
                (outer if axis in scopes[0].axes else inner).append(term)
        for stride, index in address.data:
            converted = self.value(apply("cast", (index,), "int64"), scopes)
            known = self.needed_axes(index) <= scopes[0].axes
            (outer if known else inner).append(f"{converted} * {self.size(stride)}")
        if address.rest != 0:
            free = not dims.syms(address.rest) & frozenset(self.axes)
            text = self.size(address.rest) if free else self.index_text(address.rest)
            known = dims.syms(address.rest) & frozenset(self.axes) <= scopes[0].axes
            (outer if known else inner).append(text)
        base = self._base(" + ".join(outer), scopes)
        index_text = " + ".join([*([base] if base else []), *inner]) or "0"
        return f"{self.pointer(buffer)}[{index_text}]"

    def _base(self, text: str, scopes: list[LoopScope]) -> str:
        """Names the part of an address that the outermost scope determines in that scope."""
        if not text or text.isidentifier() or len(scopes) == 1:
            return text
        scope = scopes[0]
        if text not in scope.made:
            scope.made[text] = self.fresh()
            scope.lines.append(f"{scope.made[text]} = {text}")
        return scope.made[text]

    def store(
        self, buffer: Buffer, entries: tuple[Entry, ...], value: str, scopes: list[LoopScope]
    ) -> None:
        """Stores a value to an element, in the innermost scope."""
        place = self.place(buffer, entries, scopes)
        scopes[-1].lines.append(f"{place} = {store_text(buffer.dtype, value)}")

    def decoded(self, groups: list[tuple[Sym, ...]], extents: list[str], row: str) -> list[str]:
        """Returns lines that split a linear index into positions along collapsed axes."""
        names = [self.names[group[-1]] for group in groups]
        if len(names) == 1:
            return [] if names[0] == row else [f"{names[0]} = {row}"]
        lines, rest = [], row
        for name, extent in zip(names[:0:-1], extents[:0:-1], strict=True):
            following = f"{name}_rest"
            lines += [f"{name} = {rest} % {extent}", f"{following} = {rest} // {extent}"]
            rest = following
        return [*lines, f"{names[0]} = {rest}"] if names else []


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Indents lines."""
    return [INDENT * depth + line for line in lines]


def loops(names: list[str], extents: list[str], body: list[str]) -> list[str]:
    """Returns nested loops from 0 around lines; without names, the lines."""
    lines: list[str] = []
    for depth, (name, extent) in enumerate(zip(names, extents, strict=True)):
        lines.append(INDENT * depth + f"for {name} in range({extent}):")
    return lines + indented(body, len(names))
