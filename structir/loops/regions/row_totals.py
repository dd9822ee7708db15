"""Analysis of loops over one row of a ragged tensor: what they access, and what they add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.ir.dtype import is_float
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    Literal,
    Local,
    Scalar,
    nodes_of,
)
from structir.ir.node import replace
from structir.loops.schedule.edits import calculate, substitute
from structir.projections.monoid import MONOIDS

# Monoids by the functions that combine totals and terms in any order. The factors of a product of
# floats keep theirs: the product of some of them may overflow where that of all does not.
OF_FLOATS = {"add_to": "sum", "maximum": "max", "minimum": "min"}
OF_OTHERS = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "or": "any", "and": "all"}


@attrs.frozen(eq=False)
class RowMemory:
    """The memory that loops over a row access: `values` of all rows from `first` on, and `rooms`
    for the values of one row."""

    first: Local
    length: Local
    values: frozenset[Var]
    rooms: frozenset[Var]

    def is_at(self, element: Element, variable: Local) -> bool:
        """Whether an element is the value of the row at a loop variable."""
        if not element.indices or any(not isinstance(i, Literal) for i in element.indices[:-1]):
            return False
        last = element.indices[-1]
        if element.array in self.rooms:
            return last is variable
        if not isinstance(last, Apply) or last.fn != "add" or element.array not in self.values:
            return False
        return last.args[0] is self.first and last.args[1] is variable

    def at(self, node: Any, variable: Local, room: Scalar, value: Scalar) -> Any:
        """Returns a node with other indices of elements: in rooms, and in the row."""

        def change(part: Any) -> Any:
            if not isinstance(part, Element) or not self.is_at(part, variable):
                return None
            index = room if part.array in self.rooms else calculate("add", self.first, value)
            return replace(part, indices=(*part.indices[:-1], index))

        return substitute(node, change)


def totals_of(loop: For, memory: RowMemory) -> Mapping[Local, Apply] | None:
    """Returns what a loop over a row adds to totals; None if its iterations depend on each other,
    or if it has another access than to the value of the row. A term may be a position in it."""
    is_row = isinstance(loop.start, Literal) and loop.start.value == 0 and loop.step == 1
    if not is_row or loop.stop is not memory.length:
        return None
    totals: dict[Local, Apply] = {}
    assigned: set[Local] = set()
    for statement in loop.body:
        if not isinstance(statement, Assign) or statement.symbol:
            return None
        target, value = statement.target, statement.value
        if isinstance(target, Element) and not memory.is_at(target, loop.variable):
            return None
        if isinstance(target, Local) and _combines(target, value):
            totals[target] = value  # type: ignore[assignment]
            value = value.args[1]  # type: ignore[attr-defined]
        leaves = list(_leaves(value))
        if target in totals and position(loop, value, loop.variable, memory.length) is not None:
            leaves = [leaf for leaf in leaves if leaf is not loop.variable]
        if any(not _is_plain(leaf, loop.variable, memory) for leaf in leaves):
            return None
        if any(leaf in totals for leaf in leaves):
            return None
        if isinstance(target, Local) and target not in totals:
            assigned.add(target)
    return None if _are_read_before(loop, assigned) or assigned & totals.keys() else totals


def position(loop: For, value: Scalar, index: Scalar, length: Local) -> Scalar | None:
    """Returns the term of a total of positions as an int32, as is the index; None for another
    term."""
    if loop.variable not in _leaves(value):
        return None
    return _position(value, loop.variable, index, length)


def _position(value: Any, variable: Local, index: Scalar, length: Local) -> Scalar | None:
    if value is variable:
        return index
    if value is length:
        return Apply("cast", (length,), "int32")
    if isinstance(value, Literal) and abs(value.value) < 2**31:
        return replace(value, dtype="int32")
    if not isinstance(value, Apply) or value.fn != "select" or variable in _leaves(value.args[0]):
        return None
    test, *sides = value.args
    narrow = [_position(side, variable, index, length) for side in sides]
    if None in narrow:
        return None
    return Apply("select", (test, *narrow), "int32")  # type: ignore[arg-type]


def lane_dtype(loop: For, statement: Any, length: Local) -> str:
    """Returns the dtype in which a statement of a loop is computed: of positions, int32."""
    value, dtype = statement.value, statement.target.dtype
    term = value.args[1] if _combines(statement.target, value) else value
    is_position = position(loop, term, loop.variable, length) is not None
    return "int32" if is_position else dtype


def identity_of(value: Apply) -> Any:
    """Returns the identity of the function that combines a total and a term."""
    name = OF_FLOATS.get(value.fn) or OF_OTHERS[value.fn]
    return MONOIDS[name].identity(value.dtype)


def _combines(total: Local, value: Scalar) -> bool:
    """Whether a value is the combination of a total and a term, in any order of the terms."""
    functions = OF_FLOATS if is_float(total.dtype) else OF_OTHERS
    return isinstance(value, Apply) and value.fn in functions and value.args[0] is total


def _is_plain(leaf: Scalar, variable: Local, memory: RowMemory) -> bool:
    """Whether an element or a variable is the value of the row, or the same for all of them."""
    if isinstance(leaf, Element) and not memory.is_at(leaf, variable):
        return all(variable is not node for index in leaf.indices for node in nodes_of(index))
    return leaf is not variable


def _are_read_before(loop: For, assigned: set[Local]) -> bool:
    """Whether a variable of an iteration has the value of another one."""
    known: set[Local] = set()
    for statement in loop.body:
        read = {leaf for leaf in _leaves(statement.value) if isinstance(leaf, Local)}  # type: ignore[attr-defined]
        if read & assigned - known:
            return True
        known.add(statement.target)  # type: ignore[attr-defined]
    return False


def _leaves(value: Scalar) -> Iterator[Scalar]:
    """Yields the elements and variables of a value, without those in indices of elements."""
    todo: list[Any] = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, Element | Local):
            yield node
        elif isinstance(node, Apply):
            todo += node.args
