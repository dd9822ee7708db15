"""Evaluates index signatures over dims: extents of index variables, and result shapes.

A `ShapePlan` holds all that does not depend on dims. `resolve_shapes` binds index variables to
extents, checks dims against each other, broadcasts, and computes the dims of the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.opdef.axis_packs import Fact, InvalidCall
from structir.opdef.broadcasting import covers, either_size, may_be_one
from structir.opdef.index_expr import (
    AttributeRef,
    IndexExpr,
    IndexExtent,
    IndexVar,
    IntLiteral,
    evaluate,
    leaves,
)
from structir.opdef.notation import AxisIndex, IndexSignature, SideCondition
from structir.opdef.shape_plan import Dims, ShapePlan, SizeEquation, Spelled

Location = tuple[int | None, int | None]  # operand and axis of a dim; None for an attribute
BROADCASTING = "two sizes broadcast if they are equal or one of them is 1"


@attrs.frozen
class Assumption:
    """Two dims assumed equal: it is undecided at compile time and checked at run time."""

    left: Dim
    right: Dim
    text: str  # the index variable or condition that requires it


@attrs.frozen(eq=False)
class ResolvedShapes:
    """An index signature resolved for the operand shapes of one call.

    `operands` and `results` hold the index expressions of each access with axis packs expanded
    (`*s` of two axes becomes `s_0`, `s_1`; a shorter broadcasting operand has the last of them),
    or None where the rank is unknown. `extents` maps index variables to known dims. The operand
    dim at a broadcasting index variable may be 1 where its extent is larger.
    """

    plan: ShapePlan
    extents: Mapping[str, Dim]
    attributes: Mapping[str, Any]
    assumptions: tuple[Assumption, ...]
    operand_dims: tuple[Dims | None, ...]  # None where unknown

    @property
    def index_signature(self) -> IndexSignature:
        """Returns the index signature with list operands expanded."""
        return self.plan.index_signature

    @property
    def pack_ranks(self) -> Mapping[str, int | None]:
        """Returns the rank of each axis pack."""
        return self.plan.pack_ranks

    @property
    def operands(self) -> tuple[Spelled | None, ...]:
        """Returns the index expressions of each operand, axis packs expanded."""
        return self.plan.operands

    @property
    def results(self) -> tuple[Spelled | None, ...]:
        """Returns the index expressions of each result, axis packs expanded."""
        return self.plan.results

    @property
    def on(self) -> tuple[SideCondition, ...]:
        """Returns the conditions on indices, axis packs expanded."""
        return self.plan.on

    def sizes(self, result: int) -> Dims | None:
        """Returns the dims of a result, or None where one of them is unknown."""
        entries = self.plan.results[result]
        if entries is None:
            return None
        shape: list[Dim] = []
        for entry in entries:
            size = self.size(entry)
            if size is None:
                return None
            if isinstance(size, int) and size < 0:
                where = f"axis {len(shape)} of the result"
                message = f"invalid result shape: expected a size of at least 0 for {where}"
                raise InvalidCall(f"{message}, found {size}", code="E0306")
            shape.append(size)
        return tuple(shape)

    def size(self, entry: AxisIndex) -> Dim | None:
        """Returns the dim of a result axis, in the form of the operand dim that defines it."""
        size = entry.size
        if size is None:
            return None
        if type(size) is IndexExtent:
            return self.extents.get(size.name)
        source = self.plan.read_off.get(size)
        if source is not None:
            operand = self.operand_dims[source[0]]
            if operand is not None:
                return operand[source[1]]
        return _value(size, self.extents, self.attributes)


class _Unknown(Exception):
    """An index expression uses an unknown dim."""


UNKNOWN = object()  # a dim attribute whose value is known only at run time


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
        value: Dim = evaluate(formula, leaf)
    except _Unknown:
        return None
    return value


def resolve_shapes(
    plan: ShapePlan, operand_dims: tuple[Dims | None, ...], attributes: Mapping[str, Any]
) -> ResolvedShapes:
    """Resolves a plan for operand dims; raises InvalidCall where they provably mismatch."""
    solver = _ShapeSolver(plan, operand_dims, attributes)
    solver.run()
    return ResolvedShapes(plan, solver.extents, attributes, tuple(solver.assumptions), operand_dims)


class _ShapeSolver:
    """Solves the extents of the index variables of one call."""

    def __init__(
        self,
        plan: ShapePlan,
        operand_dims: tuple[Dims | None, ...],
        attributes: Mapping[str, Any],
    ) -> None:
        self.plan = plan
        self.given = operand_dims
        self.attributes = attributes
        self.extents: dict[str, Dim] = {}
        self.origin: dict[str, Location] = {}
        self.assumptions: list[Assumption] = []

    def run(self) -> None:
        plan, given = self.plan, self.given
        for row, letters in plan.attribute_packs:
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
        for letter, locations in plan.joins:
            self.broadcast(letter, locations)
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
        left_place: Location,
        right_place: Location,
    ) -> None:
        same = dims.equal(left, right)
        if same:
            return
        if same is False:
            sides = (left, left_place), (right, right_place)
            raise InvalidCall(
                self.mismatch(what, sides),
                tuple(
                    [(self.dim_text(what, size, p), *p) for size, p in sides if p[0] is not None]
                ),
                code="E0201",
            )
        self.assumptions.append(Assumption(left, right, what))

    def mismatch(self, what: str, sides: Sequence[tuple[Dim, Location]]) -> str:
        """Returns the message of two unequal dims, each with its operand and axis."""
        kind = "contraction dimension" if self.is_contracted(what) else "dimension"
        if all(k is not None for _, (k, _) in sides):
            texts = [
                f"{self.operand(k)} has {self.dim_text(what, size, (k, axis))}"
                for size, (k, axis) in sides
            ]
            return f"{kind} mismatch: {texts[0]}, {texts[1]}"
        (left, _), (right, location) = sides
        where = "" if location[0] is None else f" ({self.axis_of_operand(location)})"
        text = f"expected {what} = {dims.text(left)}, found {dims.text(right)}"
        if not what.isidentifier():
            text = f"expected `{what}`, found {dims.text(left)} and {dims.text(right)}"
        return f"{kind} mismatch: {text}{where}"

    def is_contracted(self, letter: str) -> bool:
        """Returns whether an index variable of two operands is in no result."""
        results = [e for entries in self.plan.results for e in entries or ()]
        uses = [leaf for e in results if e.index is not None for leaf in leaves(e.index)]
        joined = [name for e in results for name in e.join]
        known = all(entries is not None for entries in self.plan.results)
        names = {leaf.name for leaf in uses if isinstance(leaf, IndexVar)} | {*joined}
        return known and letter.isidentifier() and letter not in names

    def operand(self, k: int | None) -> str:
        return "attributes" if k is None else self.plan.index_signature.operands[k].shown

    def dim_text(self, what: str, size: Dim, location: Location) -> str:
        """Returns `k = 32 (axis -1)`, or `32 (axis 0)` for an axis of an axis pack."""
        k, axis = location
        where = "" if k is None or axis is None else f" ({self.axis_text(k, axis)})"
        anonymous = "_" in what or not what.isidentifier()
        return f"{'' if anonymous else f'{what} = '}{dims.text(size)}{where}"

    def axis_text(self, k: int, axis: int) -> str:
        """Returns an axis by number, counted from the end where it is after an axis pack."""
        sizes, entries = self.given[k], self.plan.index_signature.operands[k].entries
        if sizes is not None and entries and entries[0].pack is not None:
            return f"axis {axis - len(sizes)}"
        return f"axis {axis}"

    def axis_of_operand(self, location: Location) -> str:
        k, axis = location
        if k is None or axis is None:
            return "an attribute"
        return f"{self.axis_text(k, axis)} of {self.operand(k)}"

    def broadcast(self, letter: str, locations: tuple[tuple[int, int], ...]) -> None:
        """Binds the extent of a broadcasting index variable, unless it is undecided."""
        size: Dim | None = None
        first = (0, 0)
        undecided = False
        for k, axis in locations:
            sizes = self.given[k]
            if sizes is None:
                undecided = True
                continue
            local = sizes[axis]
            if local == 1 or local is size:
                if size is None:
                    size, first = local, (k, axis)
                continue
            if size is None or size == 1:
                size, first = local, (k, axis)
                continue
            common = self.broadcast_dims(size, local, first, (k, axis))
            if common is None:
                undecided = True
            elif common is not size:
                size, first = common, (k, axis)
        if size is not None and not (undecided and (not isinstance(size, int) or size == 1)):
            self.extents[letter] = size
            self.origin[letter] = first

    def broadcast_dims(
        self, left: Dim, right: Dim, here: tuple[int, int], there: tuple[int, int]
    ) -> Dim | None:
        """Broadcasts two dims that are not known to be 1; None where the result is too large."""
        same = dims.equal(left, right)
        if same:
            return left
        if same is False and not (may_be_one(left) or may_be_one(right)):
            texts = [self.dim_text("_", size, p) for size, p in ((left, here), (right, there))]
            first, second = (self.operand(k) for k, _ in (here, there))
            raise InvalidCall(
                f"cannot broadcast: {first} has {texts[0]}, {second} has {texts[1]}",
                ((texts[0], *here), (texts[1], *there), (BROADCASTING, None, None)),
                code="E0302",
            )
        whole = either_size(left, right)
        if whole is None or covers(left, right) or covers(right, left):
            return whole
        for size in (left, right):
            if size != whole:
                names = [self.plan.index_signature.operands[k].shown for k, _ in (here, there)]
                self.assume_loose(size, whole, f"{' and '.join(names)} must broadcast")
        return whole

    def assume_loose(self, size: Dim, whole: Dim, what: str) -> None:
        allowed = dims.select(dims.compare("eq", size, 1), 1, whole)
        self.assumptions.append(Assumption(size, allowed, what))

    def fit(self, letter: str, size: Dim, k: int, axis: int) -> None:
        """Checks that a broadcasting axis is 1, or the extent that other axes determine."""
        whole = self.extents.get(letter)
        if whole is None or size is whole or size == 1 or size == whole:
            return
        same = dims.equal(size, whole)
        if same:
            return
        if same is False and not may_be_one(size):
            where = f"{self.axis_text(k, axis)} of {self.operand(k)}"
            target, source = dims.text(whole), self.origin.get(letter, (None, None))
            raise InvalidCall(
                f"cannot broadcast {where}: expected 1 or {target}, found {dims.text(size)}",
                (
                    (self.dim_text("_", size, (k, axis)), k, axis),
                    (self.dim_text("_", whole, source) + " is required", *source),
                    (BROADCASTING, None, None),
                ),
                code="E0302",
            )
        self.assume_loose(
            size, whole, f"{self.plan.index_signature.operands[k].shown} must broadcast"
        )

    # ---- equations

    def solve(self) -> None:
        todo = list(self.plan.equations)
        moved = True
        while todo and moved:
            remaining = [equation for equation in todo if not self.step(equation)]
            moved = len(remaining) < len(todo)
            todo = remaining

    def step(self, equation: SizeEquation) -> bool:
        """Checks an equation without unknowns, or solves it for its only unknown.

        Returns False for an equation that must wait for others.
        """
        unknown = [letter for letter in equation.index_vars if letter not in self.extents]
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
        """Solves `formula == total` for its one unknown, in which it must be linear."""
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
        self.bind(letter, self.divide(total - rest, factor, total, equation), *place)
        return True

    def divide(self, top: Dim, factor: Dim, total: Dim, equation: SizeEquation) -> Dim:
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
        """Returns the error of an equation without a solution, with the known extents in it."""
        name, location = self.named(equation), (equation.operand, equation.axis)
        known = [letter for letter in sorted(equation.index_vars) if letter in self.extents]
        sources = [self.origin.get(letter, (None, None)) for letter in known]
        facts: list[Fact] = [(self.dim_text("_", total, location), *location)]
        facts += [
            (self.dim_text(letter, self.extents[letter], source), *source)
            for letter, source in zip(known, sources, strict=True)
        ]
        nouns = dict(self.plan.index_signature.nouns)
        noun = next((nouns[letter] for letter in known if letter in nouns), None)
        size = None if noun is None else self.conditioned_value(equation)
        found = f"found {dims.text(total)} ({self.axis_of_operand(location)})"
        if size is not None:
            where = "; ".join([self.axis_of_operand(s) for s in sources if s[0] is not None])
            message = f"expected {dims.text(size)} {noun} ({where}), {found}"
        else:
            given = " and ".join([f"{i} = {dims.text(self.extents[i])}" for i in known])
            factor = self.factor_of(equation)
            size_text = f"{name}{f' where {given}' if given else ''}"
            if factor is not None:
                size_text = f"a multiple of {dims.text(factor)}, as {size_text}"
            message = f"expected {size_text}, {found}"
        return InvalidCall(f"size mismatch: {message}", tuple(facts), code="E0306")

    def factor_of(self, equation: SizeEquation) -> Dim | None:
        """Returns the factor of the one unknown of an equation that is a product."""
        unknown = [letter for letter in equation.index_vars if letter not in self.extents]
        if len(unknown) != 1:
            return None
        sym = dims.sym(unknown[0])
        atom = dims.as_sym(sym)
        value = _value(equation.left, {**self.extents, unknown[0]: sym}, self.attributes)
        parts = None if value is None or atom is None else dims.linear(value, atom)
        return parts[0] if parts is not None and parts[1] == 0 and parts[0] != 0 else None

    def conditioned_value(self, equation: SizeEquation) -> Dim | None:
        """Returns the value of an equation whose unknowns are bound by conditions `g == groups`."""
        extents = dict(self.extents)
        for other in self.plan.equations:
            if type(other.left) is IndexExtent and other.right is not None:
                value = self.value(other.right)
                if value is not None:
                    extents.setdefault(other.left.name, value)
        return _value(equation.left, extents, self.attributes)

    def compare(self, relation: SideCondition) -> None:
        left, right = self.value(relation.left), self.value(relation.right)
        if left is None or right is None:
            return
        holds = dims.compare(relation.op, left, right)
        if holds == 0:
            raise InvalidCall(
                f"size mismatch: expected `{relation.text}`, "
                f"found {dims.text(left)} and {dims.text(right)}",
                code="E0306",
            )
        if holds != 1:
            self.assumptions.append(Assumption(holds, 1, relation.text))
