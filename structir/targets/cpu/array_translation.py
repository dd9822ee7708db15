"""Translates functions over arrays to LLVM IR: views of memory, with elements, shapes and parts."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence

import attrs

from structir.targets.cpu.operations import Typed, UntranslatedError
from structir.targets.cpu.translation import Translation

FILL = ast.parse("for at in range(size):\n    every[at] = filling").body


@attrs.frozen(eq=False)
class View(Typed):
    """Elements behind a pointer, seen as an array: its sizes, and the elements between two indices
    along each axis."""

    shape: tuple[Typed, ...] = ()
    steps: tuple[Typed, ...] = ()


class ArrayTranslation(Translation):
    """Translates a function whose names may be arrays."""

    def value(self, expr: ast.expr) -> Typed:
        """Returns the value of an expression."""
        match expr:
            case ast.Constant(None):
                return self.operations.nothing()
            case ast.Compare(
                ast.Name(name), [ast.Is() | ast.IsNot() as same], [ast.Constant(None)]
            ):
                absent = self.variable(name).kind == self.operations.nothing_kind
                return self.operations.constant(absent is isinstance(same, ast.Is))
            case ast.Call(ast.Name("len"), [ast.Name(name)]) if view := self.view(name):
                return view.shape[0]
            case ast.Attribute(ast.Name(name), "shape") if view := self.view(name):
                return self.operations.together(view.shape)
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(int(axis))) if (
                view := self.view(name)
            ):
                return view.shape[axis]
            case ast.Subscript(ast.Name(name), index) if view := self.view(name):
                return self.part(view, index)
        return super().value(expr)

    def store(self, to: ast.expr, given: Typed) -> None:
        """Assigns to a name, an element, or all elements of an array."""
        match to:
            case ast.Subscript(ast.Name(name), index) if view := self.view(name):
                place = self._moved(view, index)
                if isinstance(place, View):
                    self.fill(place, given)
                else:
                    zero = self.operations.constant(0)
                    self.operations.applied(operator.setitem, (place, zero, given))
            case _:
                super().store(to, given)

    def fill(self, view: View, given: Typed) -> None:
        """Assigns a number to all elements of an array."""
        self.scopes.append({"every": view, "filling": given, "size": view.shape[0]})
        self.block(FILL)
        self.scopes.pop()

    def view(self, name: str) -> View | None:
        """Returns the array with a name, if it is one."""
        values = [scope[name] for scope in self.scopes if name in scope]
        return values[-1] if values and isinstance(values[-1], View) else None

    def dense(self, pointer: Typed, shape: Sequence[Typed]) -> View:
        """Returns an array whose elements are adjacent."""
        steps = tuple([self.product(shape[k + 1 :]) for k in range(len(shape))])
        return View(pointer.value, pointer.kind, shape=tuple(shape), steps=steps)

    def product(self, sizes: Sequence[Typed]) -> Typed:
        """Returns the product of sizes."""
        first, *others = sizes or [self.operations.constant(1)]
        for other in others:
            first = self.operations.applied(operator.mul, (first, other))
        return first

    def part(self, view: View, index: ast.expr) -> Typed:
        """Returns an element of an array, or a view along some of its axes."""
        place = self._moved(view, index)
        if isinstance(place, View):
            return place
        return self.operations.applied(operator.getitem, (place, self.operations.constant(0)))

    def entries(self, index: ast.expr) -> Sequence[ast.expr]:
        """Returns the entries of an index along the first axes; `...` and `()` have none."""
        match index:
            case ast.Constant(value) if value is ...:
                return []
            case ast.Tuple(entries):
                return entries
        return [index]

    def position(self, view: View, axis: int, entry: ast.expr) -> Typed:
        """Returns an index along an axis."""
        kind = self.operations.index
        return Typed(self.operations.cast(self.value(entry), kind), kind)

    def range_of(self, view: View, axis: int, part: ast.Slice) -> tuple[Typed, Typed]:
        """Returns the first index and the size of a part of an axis; raises UntranslatedError
        unless it is the whole axis."""
        if part.lower or part.upper or part.step:
            raise UntranslatedError(f"a part of an array: {ast.unparse(part)}")
        return self.operations.constant(0), view.shape[axis]

    def _moved(self, view: View, index: ast.expr) -> Typed:
        """Returns the view of a part, or the pointer to an element."""
        entries = self.entries(index)
        if len(entries) > len(view.shape):
            raise UntranslatedError(f"an index of too many axes: {ast.unparse(index)}")
        value, sizes, steps = view.value, list[Typed](), list[Typed]()
        for axis, entry in enumerate(entries):
            if isinstance(entry, ast.Slice):
                at, size = self.range_of(view, axis, entry)
                sizes.append(size)
                steps.append(view.steps[axis])
            else:
                at = self.position(view, axis, entry)
            if at.number != 0:
                offset = self.operations.applied(operator.mul, (at, view.steps[axis]))
                value = self.builder.gep(value, [offset.value])
        sizes += view.shape[len(entries) :]
        steps += view.steps[len(entries) :]
        if not sizes:
            return Typed(value, view.kind)
        return View(value, view.kind, shape=tuple(sizes), steps=tuple(steps))
