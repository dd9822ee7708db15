"""Splits the reduction that computes a result into partial reductions, combined in a tree."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import attrs

from structir.errors import Diagnostic, StructInfoError
from structir.ir.dims import Sym
from structir.ir.dtype import is_float, is_int
from structir.projections.boxes import Bounds, Region, region
from structir.projections.loop_nests import number_index_vars
from structir.projections.position_sets import PositionSet
from structir.projections.program import CallOrigin, Program
from structir.projections.region_propagation import RegionStep, required_regions
from structir.projections.regions import Dependence
from structir.projections.restriction import Range
from structir.projections.spec import IndexSpec, Statement
from structir.system.locks import cached_property

COMBINE = {  # functions of NumPy, by monoid
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


@attrs.frozen(eq=False)
class NarrowedDependency:
    """The dependence of a partial reduction on its operands: some loops cover only a range."""

    whole: Dependence  # of the reduction
    statement: Statement
    ranges: Mapping[Sym, Range]

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """Returns the region of each operand that a region of the result requires."""
        return self._narrowed.required_regions(region, result)

    @cached_property
    def _narrowed(self) -> Dependence:
        """The dependence of the spec, over the ranges only."""
        numbers = number_index_vars(self.statement)
        ranges = {numbers[s]: PositionSet(*positions) for s, positions in self.ranges.items()}
        return self.whole.narrowed(ranges)

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Returns the region of the result that depends on a region of an operand."""
        return self.whole.affected_regions(region, operand)


def narrowed_step(step: RegionStep, ranges: Mapping[Sym, Range]) -> RegionStep:
    """Returns a step whose reduction covers only ranges of its loops."""
    (statement,) = step.origin.spec.statements
    whole = step.dependency
    assert isinstance(whole, Dependence)
    narrowed = NarrowedDependency(whole, statement, ranges)
    return attrs.evolve(step, dependency=narrowed)


@attrs.frozen(eq=False)
class Reduction:
    """The reduction step that computes a result, and the loop index along which it is split."""

    step: RegionStep
    index_var: Sym
    extent: int
    combine: str

    def range(self, index: int, count: int) -> Range:
        """Returns the index range of one part."""
        return self.extent * index // count, self.extent * (index + 1) // count

    def required_regions(
        self, program: Program, block: Bounds, positions: Range
    ) -> Mapping[Hashable, Region]:
        """Returns the region of every value that a partial reduction of a result block requires."""
        narrowed = narrowed_step(self.step, {self.index_var: positions})
        inner_regions = narrowed.dependency.required_regions(region(*block))
        (output,) = self.step.outputs
        required = {
            key: r for key, r in zip(self.step.inputs, inner_regions, strict=True) if key and r
        }
        before = program.steps[: program.steps.index(self.step)]
        return {**required_regions(before, required), output: region(*block)}


def rounds_to_integers(spec: IndexSpec) -> bool:
    """Returns whether an integer result rounds a total of floats: partial totals would differ."""
    floats = [o for o in spec.operands if o.dtype is not None and is_float(o.dtype)]
    return bool(floats) and any([r.dtype is not None and is_int(r.dtype) for r in spec.results])


def find_reduction(program: Program, key: Hashable) -> Reduction:
    """Returns the reduction that computes a result, to be split along its longest loop index.

    Raises StructInfoError where no reduction computes the result."""
    step = next((s for s in program.steps if key in set(s.outputs)), None)
    origin = step.origin if step is not None else None
    statement, monoid = None, "sum"
    if isinstance(origin, CallOrigin) and origin.spec is not None and origin.spec.computes:
        reducing = [c for c in origin.spec.statements if c.reduce]
        only = len(reducing) == len(origin.spec.statements) == 1
        statement = reducing[0] if only and not rounds_to_integers(origin.spec) else None
        monoid = (statement and statement.monoid) or "sum"
    if step is None or statement is None or origin is None or monoid not in COMBINE:
        call = origin.call if isinstance(origin, CallOrigin) else None
        producer = "no op" if call is None else f"{getattr(call.op, 'name', call.op)}"
        text = "cannot split the reduction of the result"
        label = f"expected a reduction by {', '.join(COMBINE)}, found {producer}"
        span = None if call is None else call.span
        raise StructInfoError(Diagnostic(f"{text}: {label}", span, code="E0905"))
    extents = {s: program.number(origin.spec.extents[s]) for s in statement.reduce}
    index_var = max(extents, key=extents.__getitem__)
    return Reduction(step, index_var, extents[index_var], COMBINE[monoid])
