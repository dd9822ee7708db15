"""The size view of a line: the extents of its letters, solved from the sizes of the operands.

A plan holds everything that does not depend on sizes; `resolved` binds letters, checks and joins,
and gives the sizes of the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.broadcasting import covers, either_size, may_be_one
from structir.opdef.index_expr import AttributeRef, IndexExpr, IndexExtent, IntLiteral, evaluate
from structir.opdef.notation import AxisIndex, IndexSignature, SideCondition
from structir.opdef.shape_plan import Dims, ShapePlan, SizeEquation, Spelled


@attrs.frozen
class Assumption:
    """Two sizes that must be equal when the program runs, which cannot be decided before."""

    left: Dim
    right: Dim
    text: str  # why: the letter or condition they stand for


@attrs.frozen(eq=False)
class ResolvedShapes:
    """A line at one call: what the size view found, and the entries for the index view.

    `operands` and `results` hold the entries of each access without rows (row `s` of two axes is
    the letters `s_0`, `s_1`; a loose operand row that is shorter is its last letters), or None
    where the rank is unknown. `extents` has the letters whose size is known; a loose entry's own
    axis may be 1 where its letter's extent is more, so its size is that of the operand.
    """

    plan: ShapePlan
    extents: Mapping[str, Dim]
    attributes: Mapping[str, Any]
    assumptions: tuple[Assumption, ...]
    given: tuple[Dims | None, ...]  # the sizes of the operands, where they are known

    @property
    def line(self) -> IndexSignature:
        """The line, list operands written out."""
        return self.plan.line

    @property
    def rows(self) -> Mapping[str, int | None]:
        """The rank of every row."""
        return self.plan.rows

    @property
    def operands(self) -> tuple[Spelled | None, ...]:
        """The entries of each operand, without rows."""
        return self.plan.operands

    @property
    def results(self) -> tuple[Spelled | None, ...]:
        """The entries of each result, without rows."""
        return self.plan.results

    @property
    def on(self) -> tuple[SideCondition, ...]:
        """The conditions on indices, without rows."""
        return self.plan.on

    def sizes(self, result: int) -> Dims | None:
        """The sizes of a result; None where one of them is not known."""
        entries = self.plan.results[result]
        if entries is None:
            return None
        found: list[Dim] = []
        for entry in entries:
            size = self.size(entry)
            if size is None:
                return None
            if isinstance(size, int) and size < 0:
                access = self.plan.line.results[result]
                raise InvalidCall(f"axis {len(found)} of {access.text} would have size {size}")
            found.append(size)
        return tuple(found)

    def size(self, entry: AxisIndex) -> Dim | None:
        """The size of a result's axis: as it stands at an operand where it was read off one."""
        size = entry.size
        if size is None:
            return None
        if type(size) is IndexExtent:
            return self.extents.get(size.name)
        place = self.plan.read_off.get(size)
        if place is not None:
            given = self.given[place[0]]
            if given is not None:
                return given[place[1]]
        return _value(size, self.extents, self.attributes)


class _Unknown(Exception):
    """A formula uses a size that is not known."""


UNKNOWN = object()  # the value of a size attribute that is only known at run time


def _value(
    formula: IndexExpr, extents: Mapping[str, Dim], attributes: Mapping[str, Any]
) -> Dim | None:
    def leaf(part: IndexExpr) -> Dim:
        if isinstance(part, IndexExtent):
            known = extents.get(part.name)
            if known is None:
                raise _Unknown
            return known
        if isinstance(part, AttributeRef):
            value: Any = attributes[part.name]
            for k in part.path:
                value = UNKNOWN if value is UNKNOWN else value[k]
            if value is UNKNOWN or value is None:
                raise _Unknown
            return value  # type: ignore[no-any-return]
        raise TypeError(f"a size cannot use {part}")

    try:
        found: Dim = evaluate(formula, leaf)
    except _Unknown:
        return None
    return found


def resolve_shapes(
    plan: ShapePlan, given: tuple[Dims | None, ...], attributes: Mapping[str, Any]
) -> ResolvedShapes:
    """The line at operands of these sizes; raises Rejected where the sizes provably do not fit."""
    work = _Work(plan, given, attributes)
    work.run()
    return ResolvedShapes(plan, work.extents, attributes, tuple(work.assumptions), given)


class _Work:
    """The solving of one call."""

    def __init__(
        self, plan: ShapePlan, given: tuple[Dims | None, ...], attributes: Mapping[str, Any]
    ) -> None:
        self.plan = plan
        self.given = given
        self.attributes = attributes
        self.extents: dict[str, Dim] = {}
        self.origin: dict[str, tuple[int | None, int | None]] = {}
        self.assumptions: list[Assumption] = []

    def run(self) -> None:
        plan, given = self.plan, self.given
        for row, letters in plan.attribute_rows:
            value = self.attributes[row]
            if type(value) is not tuple:
                continue
            for k, letter in enumerate(letters):
                self.extents[letter] = value[k]
                self.origin[letter] = (None, None)
        for letter, k, axis in plan.strict:
            sizes = given[k]
            if sizes is not None:
                self.bind(letter, sizes[axis], k, axis)
        for letter, places in plan.joins:
            self.join(letter, places)
        if plan.equations:
            self.solve()
        for letter, k, axis in plan.loose:
            sizes = given[k]
            if sizes is not None:
                self.fit(letter, sizes[axis], k, axis)
        for relation in plan.comparisons:
            self.compare(relation)

    def bind(self, letter: str, size: Dim, k: int | None, axis: int | None) -> None:
        known = self.extents.get(letter)
        if known is None:
            self.extents[letter] = size
            self.origin[letter] = (k, axis)
        elif known is not size and known != size:
            self.must_equal(known, size, letter, self.origin[letter], (k, axis))

    def must_equal(
        self,
        left: Dim,
        right: Dim,
        what: str,
        left_place: tuple[int | None, int | None],
        right_place: tuple[int | None, int | None],
    ) -> None:
        same = dims.equal(left, right)
        if same:
            return
        if same is False:
            named = [_index_text(what, place) for place in (left_place, right_place)]
            raise InvalidCall(
                self.disagreement(named, left_place, right_place),
                (
                    (f"{named[0]} is {dims.text(left)}", *left_place),
                    (f"{named[1]} is {dims.text(right)}", *right_place),
                ),
                code="E0201",
            )
        self.assumptions.append(Assumption(left, right, what))

    def disagreement(
        self,
        what: list[str],
        left: tuple[int | None, int | None],
        right: tuple[int | None, int | None],
    ) -> str:
        names = [self.plan.line.operands[k].shown for k, _ in (left, right) if k is not None]
        if len(names) < 2 or names[0] == names[1]:
            return f"the sizes disagree on {what[-1]}"
        if what[0] == what[1]:
            return f"{names[0]} and {names[1]} disagree on {what[0]}"
        return f"{what[0]} of {names[0]} and {what[1]} of {names[1]} disagree"

    def join(self, letter: str, places: tuple[tuple[int, int], ...]) -> None:
        """The size of an axis that broadcasts; unknown where it cannot be decided."""
        size: Dim | None = None
        first = (0, 0)
        undecided = False
        for k, axis in places:
            sizes = self.given[k]
            if sizes is None:
                undecided = True
                continue
            own = sizes[axis]
            if own == 1 or own is size:
                if size is None:
                    size, first = own, (k, axis)
                continue
            if size is None or size == 1:
                size, first = own, (k, axis)
                continue
            met = self.met(letter, size, own, first, (k, axis))
            if met is None:
                undecided = True
            elif met is not size:
                size, first = met, (k, axis)
        if size is not None and not (undecided and (not isinstance(size, int) or size == 1)):
            self.extents[letter] = size
            self.origin[letter] = first

    def met(
        self, letter: str, left: Dim, right: Dim, here: tuple[int, int], there: tuple[int, int]
    ) -> Dim | None:
        """What two sizes that broadcast make, neither known to be 1; None where it is too much."""
        same = dims.equal(left, right)
        if same:
            return left
        if same is False and not (may_be_one(left) or may_be_one(right)):
            first, second = (self.plan.line.operands[k].shown for k in (here[0], there[0]))
            raise InvalidCall(
                f"axis {here[1]} of {first} and axis {there[1]} of {second} do not broadcast",
                (
                    (f"axis {here[1]} is {dims.text(left)}", *here),
                    (f"axis {there[1]} is {dims.text(right)}", *there),
                ),
                "sizes broadcast where they are equal or one of them is 1",
            )
        whole = either_size(left, right)
        if whole is None or covers(left, right) or covers(right, left):
            return whole
        for size in (left, right):
            if size != whole:
                names = [self.plan.line.operands[k].shown for k, _ in (here, there)]
                self.assume_loose(size, whole, f"{' and '.join(names)} must broadcast")
        return whole

    def assume_loose(self, size: Dim, whole: Dim, what: str) -> None:
        allowed = dims.select(dims.compare("eq", size, 1), 1, whole)
        self.assumptions.append(Assumption(size, allowed, what))

    def fit(self, letter: str, size: Dim, k: int, axis: int) -> None:
        """A loose place of a letter whose extent is settled elsewhere: 1, or that extent."""
        whole = self.extents.get(letter)
        if whole is None or size is whole or size == 1 or size == whole:
            return
        same = dims.equal(size, whole)
        if same:
            return
        if same is False and not may_be_one(size):
            raise InvalidCall(
                f"{self.plan.line.operands[k].shown} does not broadcast on axis {axis}",
                (
                    (f"axis {axis} is {dims.text(size)}", k, axis),
                    (f"it must be 1 or {dims.text(whole)}", *self.origin.get(letter, (None, None))),
                ),
                "sizes broadcast where they are equal or one of them is 1",
            )
        self.assume_loose(size, whole, f"{self.plan.line.operands[k].shown} must broadcast")

    # ---- equations

    def solve(self) -> None:
        todo = list(self.plan.equations)
        moved = True
        while todo and moved:
            left = [equation for equation in todo if not self.step(equation)]
            moved = len(left) < len(todo)
            todo = left

    def step(self, equation: SizeEquation) -> bool:
        """Use an equation: check it if all is known, bind its one unknown letter; False if it must
        wait."""
        unknown = [letter for letter in equation.letters if letter not in self.extents]
        if len(unknown) > 1:
            return False
        if equation.right is None:
            sizes = self.given[equation.operand or 0]
            right = None if sizes is None else sizes[equation.axis or 0]
            if right is None:
                return False
        else:
            right = self.value(equation.right)
        left = self.value(equation.left)
        if not unknown:
            if left is not None and right is not None and left != right:
                place = (equation.operand, equation.axis)
                self.must_equal(left, right, self.named(equation), (None, None), place)
            return left is not None and right is not None
        if (left is None) == (right is None):
            return False
        formula = equation.left if left is None else equation.right
        known = right if left is None else left
        if formula is None or known is None:
            return False
        return self.isolate(formula, known, unknown[0], equation)

    def named(self, equation: SizeEquation) -> str:
        if equation.right is not None:
            return equation.text
        return str(equation.left).removeprefix("(").removesuffix(")")

    def value(self, formula: IndexExpr) -> Dim | None:
        if type(formula) is IndexExtent:
            return self.extents.get(formula.name)
        if type(formula) is IntLiteral:
            return formula.value
        return _value(formula, self.extents, self.attributes)

    def isolate(self, formula: IndexExpr, total: Dim, letter: str, equation: SizeEquation) -> bool:
        """Bind the one unknown letter of `formula == total`, which must be linear in it."""
        place = (equation.operand, equation.axis)
        if type(formula) is IndexExtent:
            self.bind(letter, total, *place)
            return True
        unknown = dims.sym(letter)
        value = _value(formula, {**self.extents, letter: unknown}, self.attributes)
        atom = dims.as_sym(unknown)
        if value is None or atom is None:
            return False
        parts = dims.linear(value, atom)
        if parts is None or parts[0] == 0:
            return False
        factor, rest = parts
        self.bind(letter, self.divided(total - rest, factor, total, equation), *place)
        return True

    def divided(self, top: Dim, factor: Dim, total: Dim, equation: SizeEquation) -> Dim:
        quotient = dims.exact_quotient(top, factor)
        name = self.named(equation)
        if quotient is not None:
            if isinstance(quotient, int) and quotient < 0:
                raise self.unfit(equation, total)
            return quotient
        if factor == 0 or dims.equal(dims.floormod(top, factor), 0) is False:
            raise self.unfit(equation, total)
        quotient = dims.floordiv(top, factor)
        self.assumptions.append(Assumption(quotient * factor, top, name))
        return quotient

    def unfit(self, equation: SizeEquation, total: Dim) -> InvalidCall:
        """An equation that no size solves: what it must be, and the letters that are settled."""
        name = self.named(equation)
        facts = [(f"{name} is {dims.text(total)}", equation.operand, equation.axis)]
        known = [letter for letter in sorted(equation.letters) if letter in self.extents]
        for letter in known:
            place = self.origin.get(letter, (None, None))
            facts.append((f"{letter} is {dims.text(self.extents[letter])}", *place))
        given = " and ".join([f"{i} is {dims.text(self.extents[i])}" for i in known])
        where = f" where {given}" if given else ""
        return InvalidCall(f"{name} cannot be {dims.text(total)}{where}", tuple(facts))

    def compare(self, relation: SideCondition) -> None:
        left, right = self.value(relation.left), self.value(relation.right)
        if left is None or right is None:
            return
        holds = dims.compare(relation.op, left, right)
        if holds == 0:
            raise InvalidCall(
                f"{relation.text} does not hold",
                ((f"it is {dims.text(left)} and {dims.text(right)}", None, None),),
            )
        if holds != 1:
            self.assumptions.append(Assumption(holds, 1, relation.text))


def _index_text(what: str, place: tuple[int | None, int | None]) -> str:
    """A letter as it stands in the line; a letter of a row as the axis that it is."""
    return f"axis {place[1]}" if "_" in what and place[1] is not None else what
