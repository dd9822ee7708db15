"""Loops over the rows of ragged tensors that are in order, of which most need no checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from structir.ir.kernel import (
    Apply,
    Assign,
    Branch,
    For,
    KernelStatement,
    Local,
    LoopVariable,
    Scalar,
    While,
)
from structir.loops.schedule.edits import calculate, integer

Body = Sequence[KernelStatement]


@attrs.frozen(eq=False)
class RowLoops:
    """The loops over the rows of a part: `row` is their variable, `first` and `length` are
    assigned for each row, and `start_of` and `limit_of` return the ends of a row.

    A row is `in_order` if it begins at or behind the limit of the row before it; if rows must be
    `adjacent`, at this limit.
    """

    row: LoopVariable
    first: Local
    length: Local
    start_of: Callable[[Scalar], Scalar]
    limit_of: Callable[[Scalar], Scalar]
    total: Scalar  # the number of all values
    adjacent: bool

    def checked(self, low: Scalar, high: Scalar, body: Body) -> For:
        """Returns the loop over rows with any ends."""
        end = Apply("min", (self.limit_of(self.row), self.total), "int64")
        length = calculate("sub", end, self.first)
        head = (
            Assign(self.first, Apply("max", (self.start_of(self.row), integer(0)), "int64")),
            Assign(self.length, Apply("max", (length, integer(0)), "int64")),
        )
        return For(self.row, low, high, 1, (*head, *body))

    def in_order(self, low: Scalar, high: Scalar, body: Body, others: Body, behind: int) -> Body:
        """Returns the loops over rows: with `body` over those in order that have as many values
        `behind` their start, and with `others` over those that remain."""
        whole = _local("whole")
        head = (
            Assign(self.first, self.start_of(self.row)),
            Assign(self.length, _minus(self.limit_of(self.row), self.first)),
        )
        return (
            *self._whole(low, high, whole, behind),
            For(self.row, low, whole, 1, (*head, *body)),
            self.checked(whole, high, others),
        )

    def _whole(self, start: Scalar, stop: Scalar, whole: Local, behind: int) -> Body:
        """Returns the statements that find the end of the rows in order."""
        row = LoopVariable("each", "int64")
        signs = _local("signs")
        gap = _minus(self.start_of(row), self.limit_of(_previous(row)))
        gaps = [gap, _minus(integer(0), gap)] if self.adjacent else [gap]
        numbers = [*self._inside(row), *gaps]
        is_ordered = Apply("ge", (signs, integer(0)), "bool")
        end = self.limit_of(_previous(stop)) if self.adjacent else self.total
        last = Apply("max", (_previous(whole), start), "int64")  # read before the test of the loop
        beyond = calculate("add", self.start_of(last), integer(behind))
        is_more, has_rows = [Apply("gt", (each, start), "bool") for each in (whole, stop)]
        fewer = While(
            Apply("and", (is_more, Apply("gt", (beyond, end), "bool")), "bool"),
            (Assign(whole, _previous(whole)),),
        )
        return (
            Assign(signs, integer(0)),
            Branch(has_rows, (Assign(signs, any_sign(signs, *self._inside(start))),)),
            For(row, _next(start), stop, 1, (Assign(signs, any_sign(signs, *numbers)),)),
            Assign(whole, Apply("select", (is_ordered, stop, start), "int64")),
            Branch(has_rows, (fewer,)),
        )

    def _inside(self, row: Scalar) -> list[Scalar]:
        """Returns numbers of which one is negative if a row has values outside of all values, or
        more than int32 counts."""
        first, limit = self.start_of(row), self.limit_of(row)
        length = _minus(limit, first)
        return [first, length, _minus(self.total, limit), _minus(integer(2**31 - 1), length)]


def _local(name: str) -> Local:
    return Local(name, "int64")


def _next(row: Scalar) -> Scalar:
    return calculate("add", row, integer(1))


def _previous(row: Scalar) -> Scalar:
    return calculate("sub", row, integer(1))


def _minus(first: Scalar, second: Scalar) -> Scalar:
    return calculate("sub", first, second)


def any_sign(signs: Scalar, *numbers: Scalar) -> Scalar:
    """Returns a number that is negative if one of some numbers is."""
    for number in numbers:
        signs = Apply("bitor", (signs, number), "int64")
    return signs
