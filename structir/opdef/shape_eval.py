"""Evaluates index signatures over dims: extents of index variables, and result shapes.

A `ShapePlan` contains the parts that do not depend on dims. `resolve_shapes` binds index variables
to extents, checks that dims match, broadcasts, and computes the dims of the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.opdef.axis_packs import Fact, InvalidCall
from structir.opdef.broadcasting import broadcast_size, covers, may_be_one
from structir.opdef.index_expr import (
    AttributeRef,
    IndexExpr,
    IndexExtent,
    IndexVar,
    IntLiteral,
    evaluate,
    leaves,
)
from structir.opdef.located_extents import Location, described, located_extents
from structir.opdef.notation import AxisIndex, IndexSignature, SideCondition
from structir.opdef.shape_plan import Dims, ExpandedAxes, ShapePlan, SizeEquation

BROADCASTING = "two sizes broadcast if they are equal or one of them is 1"


@attrs.frozen
class Assumption:
    """Two dims assumed equal, or the left one 1 if it broadcasts; checked at run time."""

    left: Dim
    right: Dim
    text: str  # the index variable or condition that requires it
    broadcasts: bool = False

    def holds(self, left: int, right: int) -> bool:
        """Returns whether the values of the two dims satisfy it."""
        return left == right or (self.broadcasts and left == 1)


@attrs.frozen(eq=False)
class ResolvedShapes:
    """An index signature resolved for the operand shapes of one call.

    `operands` and `results` hold the axes of each access with axis packs expanded, or None where
    the rank is unknown. `*s` of two axes becomes `s_0`, `s_1`; a broadcasting operand of lower rank
    has the last of them. `extents` maps index variables to known dims. The operand dim at a
    broadcasting index variable may be 1 where its extent is larger.
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
    def operands(self) -> tuple[ExpandedAxes | None, ...]:
        """Returns the axes of each operand, with axis packs expanded."""
        return self.plan.operands

    @property
    def results(self) -> tuple[ExpandedAxes | None, ...]:
        """Returns the axes of each result, with axis packs expanded."""
        return self.plan.results

    @property
    def on(self) -> tuple[SideCondition, ...]:
        """Returns the conditions on indices, with axis packs expanded."""
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
                hint = f"write a size of at least 0 in place of {size}"
                raise InvalidCall(f"{message}, found {size}", (), hint, "E0306")
            shape.append(size)
        return tuple(shape)

    def size(self, entry: AxisIndex) -> Dim | None:
        """Returns the dim of a result axis; reuses an operand dim of the same size expression."""
        size = entry.size
        if size is None:
            return None
        if type(size) is IndexExtent:
            return self.extents.get(size.name)
        source = self.plan.size_sources.get(size)
        if source is not None:
            operand = self.operand_dims[source[0]]
            if operand is not None:
                return operand[source[1]]
        return _value(size, self.extents, self.attributes)


class _Unknown(Exception):
    """An index expression that contains an unknown dim."""


UNKNOWN = object()  # the value of a size attribute that is computed at run time


def _value(
    expr: IndexExpr, extents: Mapping[str, Dim], attributes: Mapping[str, Any]
) -> Dim | None:
    def leaf(part: IndexExpr) -> Dim:
        if isinstance(part, IndexExtent):
            extent = extents.get(part.name)
            if extent is None:
                raise _Unknown
            return extent
        if isinstance(part, AttributeRef):
            value: Any = attributes[part.name]
            for k in part.path:
                value = UNKNOWN if value is UNKNOWN else value[k]
            if value is UNKNOWN or value is None:
                raise _Unknown
            return value  # type: ignore[no-any-return]
        raise TypeError(f"a size cannot use {part}")

    try:
        value: Dim = evaluate(expr, leaf)
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
    """The solver for the extents of the index variables of one call."""

    def __init__(
        self,
        plan: ShapePlan,
        operand_dims: tuple[Dims | None, ...],
        attributes: Mapping[str, Any],
    ) -> None:
        self.plan = plan
        self.operand_dims = operand_dims
        self.attributes = attributes
        self.extents: dict[str, Dim] = {}
        self.origin: dict[str, Location] = {}
        self.assumptions: list[Assumption] = []

    def run(self) -> None:
        plan, operand_dims = self.plan, self.operand_dims
        for pack, index_vars in plan.attribute_packs:
            value = self.attributes[pack]
            if type(value) is not tuple:
                continue
            for k, var in enumerate(index_vars):
                self.extents[var] = value[k]
                self.origin[var] = (None, None)
        for var, k, axis in plan.strict:
            sizes = operand_dims[k]
            if sizes is not None:
                self.bind(var, sizes[axis], k, axis)
        for var, locations in plan.joins:
            self.broadcast(var, locations)
        if plan.equations:
            self.solve()
        for var, k, axis in plan.loose:
            sizes = operand_dims[k]
            if sizes is not None:
                self.check_broadcast(var, sizes[axis], k, axis)
        for condition in plan.comparisons:
            self.compare(condition)

    def bind(self, var: str, size: Dim, k: int | None, axis: int | None) -> None:
        extent = self.extents.get(var)
        if extent is None:
            self.extents[var] = size
            self.origin[var] = (k, axis)
        elif extent is not size and extent != size:
            self.must_equal(extent, size, var, self.origin[var], (k, axis))

    def must_equal(
        self, lhs: Dim, rhs: Dim, name: str, lhs_location: Location, rhs_location: Location
    ) -> None:
        are_equal = dims.equal(lhs, rhs)
        if are_equal:
            return
        if are_equal is False:
            sides = (lhs, lhs_location), (rhs, rhs_location)
            raise InvalidCall(
                self.mismatch(name, sides),
                tuple(
                    [(self.dim_text(name, size, p), *p) for size, p in sides if p[0] is not None]
                ),
                code="E0201",
            )
        sides_text = self.sides_text(name, lhs_location, rhs_location)
        self.assumptions.append(Assumption(lhs, rhs, sides_text))

    def mismatch(self, name: str, sides: Sequence[tuple[Dim, Location]]) -> str:
        """Returns the message for two unequal dims, with their operands and axes."""
        kind = "contraction dimension" if self.is_contracted(name) else "dimension"
        if all(k is not None for _, (k, _) in sides):
            texts = [
                f"{self.operand(k)} has {self.dim_text(name, size, (k, axis))}"
                for size, (k, axis) in sides
            ]
            return f"{kind} mismatch: {texts[0]}, {texts[1]}"
        (lhs, _), (rhs, location) = sides
        where = "" if location[0] is None else f" ({self.axis_of_operand(location)})"
        text = f"expected {name} = {dims.text(lhs)}, found {dims.text(rhs)}"
        if not name.isidentifier():
            text = f"expected `{name}`, found {dims.text(lhs)} and {dims.text(rhs)}"
        return f"{kind} mismatch: {text}{where}"

    def is_contracted(self, var: str) -> bool:
        """Returns whether an index variable is in no result; False where a result is unknown."""
        results = [e for entries in self.plan.results for e in entries or ()]
        uses = [leaf for e in results if e.index is not None for leaf in leaves(e.index)]
        joined = [name for e in results for name in e.join]
        is_known = all(entries is not None for entries in self.plan.results)
        names = {leaf.name for leaf in uses if isinstance(leaf, IndexVar)} | {*joined}
        return is_known and var.isidentifier() and var not in names

    def operand(self, k: int | None) -> str:
        return "attributes" if k is None else self.plan.index_signature.operands[k].shown

    def dim_text(self, name: str, size: Dim, location: Location) -> str:
        """Returns `k = 32 (axis -1)`, or `32 (axis 0)` for an axis of an axis pack."""
        k, axis = location
        where = "" if k is None or axis is None else f" ({self.axis_text(k, axis)})"
        anonymous = "_" in name or not name.isidentifier()
        return f"{'' if anonymous else f'{name} = '}{dims.text(size)}{where}"

    def axis_text(self, k: int, axis: int) -> str:
        """Returns `axis 0`, or `axis -1` for an operand that begins with an axis pack."""
        sizes, entries = self.operand_dims[k], self.plan.index_signature.operands[k].entries
        if sizes is not None and entries and entries[0].pack is not None:
            return f"axis {axis - len(sizes)}"
        return f"axis {axis}"

    def sides_text(self, name: str, *locations: Location) -> str:
        """Returns the operand axes that must be equal, or `name` where an attribute is involved."""
        if any(k is None or axis is None for k, axis in locations):
            return name
        return " and ".join([self.axis_of_operand(location) for location in locations])

    def axis_of_operand(self, location: Location) -> str:
        k, axis = location
        if k is None or axis is None:
            return "an attribute"
        return f"{self.axis_text(k, axis)} of {self.operand(k)}"

    def broadcast(self, var: str, locations: tuple[tuple[int, int], ...]) -> None:
        """Binds the extent of a broadcasting index variable if its value is decided."""
        size: Dim | None = None
        first = (0, 0)
        undecided = False
        for k, axis in locations:
            sizes = self.operand_dims[k]
            if sizes is None:
                undecided = True
                continue
            dim = sizes[axis]
            if dim == 1 or dim is size:
                if size is None:
                    size, first = dim, (k, axis)
                continue
            if size is None or size == 1:
                size, first = dim, (k, axis)
                continue
            common = self.broadcast_dims(size, dim, first, (k, axis))
            if common is None:
                undecided = True
            elif common is not size:
                size, first = common, (k, axis)
        if size is not None and not (undecided and (not isinstance(size, int) or size == 1)):
            self.extents[var] = size
            self.origin[var] = first

    def broadcast_dims(
        self, lhs: Dim, rhs: Dim, lhs_axis: tuple[int, int], rhs_axis: tuple[int, int]
    ) -> Dim | None:
        """Returns the broadcast of two dims; None for too many joined sizes."""
        are_equal = dims.equal(lhs, rhs)
        if are_equal:
            return lhs
        if are_equal is False and not (may_be_one(lhs) or may_be_one(rhs)):
            texts = [self.dim_text("_", size, p) for size, p in ((lhs, lhs_axis), (rhs, rhs_axis))]
            first, second = (self.operand(k) for k, _ in (lhs_axis, rhs_axis))
            raise InvalidCall(
                f"cannot broadcast: {first} has {texts[0]}, {second} has {texts[1]}",
                ((texts[0], *lhs_axis), (texts[1], *rhs_axis), (BROADCASTING, None, None)),
                code="E0302",
            )
        extent = broadcast_size(lhs, rhs)
        if extent is None or covers(lhs, rhs) or covers(rhs, lhs):
            return extent
        for size in (lhs, rhs):
            if size != extent:
                axes = " and ".join([self.axis_of_operand(side) for side in (lhs_axis, rhs_axis)])
                self.assume_broadcast(size, extent, f"{axes} must broadcast")
        return extent

    def assume_broadcast(self, size: Dim, extent: Dim, name: str) -> None:
        self.assumptions.append(Assumption(size, extent, name, broadcasts=True))

    def check_broadcast(self, var: str, size: Dim, k: int, axis: int) -> None:
        """Checks that a broadcasting axis has size 1 or the extent of its index variable."""
        extent = self.extents.get(var)
        if extent is None or size is extent or size == 1 or size == extent:
            return
        are_equal = dims.equal(size, extent)
        if are_equal:
            return
        if are_equal is False and not may_be_one(size):
            where = f"{self.axis_text(k, axis)} of {self.operand(k)}"
            target, source = dims.text(extent), self.origin.get(var, (None, None))
            raise InvalidCall(
                f"cannot broadcast {where}: expected 1 or {target}, found {dims.text(size)}",
                (
                    (self.dim_text("_", size, (k, axis)), k, axis),
                    (self.dim_text("_", extent, source) + " is required", *source),
                    (BROADCASTING, None, None),
                ),
                code="E0302",
            )
        self.assume_broadcast(size, extent, f"{self.axis_of_operand((k, axis))} must broadcast")

    # ---- equations

    def solve(self) -> None:
        equations = list(self.plan.equations)
        progress = True
        while equations and progress:
            remaining = [equation for equation in equations if not self.solve_equation(equation)]
            progress = len(remaining) < len(equations)
            equations = remaining

    def solve_equation(self, equation: SizeEquation) -> bool:
        """Checks an equation without unknowns, or solves it for its only unknown.

        Returns False for an equation with several unknowns.
        """
        unknown = [var for var in equation.index_vars if var not in self.extents]
        if len(unknown) > 1:
            return False
        if equation.right is None:
            sizes = self.operand_dims[equation.operand or 0]
            rhs = None if sizes is None else sizes[equation.axis or 0]
            if rhs is None:
                return False
        else:
            rhs = self.value(equation.right)
        lhs = self.value(equation.left)
        if not unknown:
            if lhs is not None and rhs is not None and lhs != rhs:
                location = (equation.operand, equation.axis)
                self.must_equal(lhs, rhs, self.equation_text(equation), (None, None), location)
            return lhs is not None and rhs is not None
        if (lhs is None) == (rhs is None):
            return False
        expr = equation.left if lhs is None else equation.right
        total = rhs if lhs is None else lhs
        if expr is None or total is None:
            return False
        return self.isolate(expr, total, unknown[0], equation)

    def equation_text(self, equation: SizeEquation) -> str:
        if equation.right is not None:
            return equation.text
        return str(equation.left).removeprefix("(").removesuffix(")")

    def value(self, expr: IndexExpr) -> Dim | None:
        if type(expr) is IndexExtent:
            return self.extents.get(expr.name)
        if type(expr) is IntLiteral:
            return expr.value
        return _value(expr, self.extents, self.attributes)

    def isolate(self, expr: IndexExpr, total: Dim, var: str, equation: SizeEquation) -> bool:
        """Solves `expr == total` for its only unknown; returns False if it is not linear."""
        location = (equation.operand, equation.axis)
        if type(expr) is IndexExtent:
            self.bind(var, total, *location)
            return True
        unknown = dims.sym(var)
        value = _value(expr, {**self.extents, var: unknown}, self.attributes)
        atom = dims.as_sym(unknown)
        if value is None or atom is None:
            return False
        parts = dims.linear(value, atom)
        if parts is None or parts[0] == 0:
            return False
        factor, offset = parts
        self.bind(var, self.divide(total - offset, factor, total, equation), *location)
        return True

    def divide(self, top: Dim, factor: Dim, total: Dim, equation: SizeEquation) -> Dim:
        quotient = dims.exact_quotient(top, factor)
        name = self.equation_text(equation)
        if quotient is not None:
            if isinstance(quotient, int) and quotient < 0:
                raise self.no_solution(equation, total)
            return quotient
        if factor == 0 or dims.equal(dims.floormod(top, factor), 0) is False:
            raise self.no_solution(equation, total)
        quotient = dims.floordiv(top, factor)
        self.assumptions.append(Assumption(quotient * factor, top, name))
        return quotient

    def no_solution(self, equation: SizeEquation, total: Dim) -> InvalidCall:
        """Returns the error of an equation without a solution, with its known extents."""
        name, location = self.equation_text(equation), (equation.operand, equation.axis)
        bound_vars = [var for var in sorted(equation.index_vars) if var in self.extents]
        sources = [self.origin.get(var, (None, None)) for var in bound_vars]
        facts: list[Fact] = [(self.dim_text("_", total, location), *location)]
        facts += [
            (self.dim_text(var, self.extents[var], source), *source)
            for var, source in zip(bound_vars, sources, strict=True)
        ]
        nouns = dict(self.plan.index_signature.nouns)
        noun = next((nouns[var] for var in bound_vars if var in nouns), None)
        size = None if noun is None else self.conditioned_value(equation)
        found_text = f"found {dims.text(total)} ({self.axis_of_operand(location)})"
        if size is not None:
            where = "; ".join([self.axis_of_operand(s) for s in sources if s[0] is not None])
            message = f"expected {dims.text(size)} {noun} ({where}), {found_text}"
        else:
            values = " and ".join([f"{i} = {dims.text(self.extents[i])}" for i in bound_vars])
            factor = self.factor_of(equation)
            size_text = f"{name}{f' where {values}' if values else ''}"
            if factor is not None:
                size_text = f"a multiple of {dims.text(factor)}, as {size_text}"
            message = f"expected {size_text}, {found_text}"
        return InvalidCall(f"size mismatch: {message}", tuple(facts), code="E0306")

    def factor_of(self, equation: SizeEquation) -> Dim | None:
        """Returns the factor of the only unknown, if the left side is their product."""
        unknown = [var for var in equation.index_vars if var not in self.extents]
        if len(unknown) != 1:
            return None
        sym = dims.sym(unknown[0])
        atom = dims.as_sym(sym)
        value = _value(equation.left, {**self.extents, unknown[0]: sym}, self.attributes)
        parts = None if value is None or atom is None else dims.linear(value, atom)
        return parts[0] if parts is not None and parts[1] == 0 and parts[0] != 0 else None

    def conditioned_value(self, equation: SizeEquation) -> Dim | None:
        """Returns the left side with unknowns bound by conditions such as `g == groups`."""
        extents = dict(self.extents)
        for condition in self.plan.equations:
            if type(condition.left) is IndexExtent and condition.right is not None:
                value = self.value(condition.right)
                if value is not None:
                    extents.setdefault(condition.left.name, value)
        return _value(equation.left, extents, self.attributes)

    def compare(self, condition: SideCondition) -> None:
        lhs, rhs = self.value(condition.left), self.value(condition.right)
        if lhs is None or rhs is None:
            return
        outcome = dims.compare(condition.op, lhs, rhs)
        if outcome == 0:
            other = "" if type(rhs) is int else f" and {dims.text(rhs)}"
            expected, hint = described(condition, self.plan, self.axis_of_operand)
            message = f"size mismatch: expected {expected}, found {dims.text(lhs)}{other}"
            facts = located_extents(condition, self.extents, self.origin, self.dim_text)
            raise InvalidCall(message, facts, hint, "E0306")
        if outcome != 1:
            self.assumptions.append(Assumption(outcome, 1, condition.text))
