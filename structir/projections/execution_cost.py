"""Execution costs of calls: per call, per iteration point, and per index along an axis.

The cost of a loop nest over a block of its index space is

    per_call + per_point * (product of extents) + sum of per_axis[k] * extents[k]

The rates default to the arithmetic of the body: the operations of one point, in `flops`. An op
overrides them with `cost=`, or with a hook. The cost of one more index along an axis, the *marginal
cost*, follows from the rates and the extents of the other axes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import reduce
from typing import Any

import attrs

from structir.analysis.declaration import analysis
from structir.errors import Diagnostic, DiagnosticError, StructIRError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Expr, Tuple, TupleGetItem
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, leaf_infos
from structir.projections.boxes import Region
from structir.projections.callees import spec_of_callee
from structir.projections.index_sets import LoopNest
from structir.projections.kernels.iteration_ranges import required_iterations
from structir.projections.kernels.kernel_cost import NestCost, nest_costs, operations_over
from structir.projections.kernels.kernel_spec import kernel_projection, sizes_of_call
from structir.projections.loop_nests import loops_of
from structir.projections.program import CallOrigin, Program
from structir.projections.region_propagation import RegionStep
from structir.projections.scalar_expr import ScalarExpr, ScalarOp, walk
from structir.projections.spec import IndexSpec, Statement
from structir.system.locks import cached_property

Number = Any  # an integer, a float or a dim
CALL, POINT = "call", "point"  # keys of declared rates other than index variables
FLOPS, SECONDS = "flops", "seconds"
FREE = frozenset({"cast", "select"})  # functions that are not counted as operations


@attrs.frozen
class LoopCost:
    """The cost of one loop nest: rates, and the extents of its axes."""

    axes: tuple[str, ...]
    extents: tuple[Number, ...]
    per_point: float
    per_axis: tuple[float, ...]
    per_call: float = 0

    def total(self, extents: Mapping[str, Number] | None = None) -> Number:
        """Returns the cost over a block; `extents` replaces those of some axes."""
        block = self.block(extents)
        linear = [rate * n for rate, n in zip(self.per_axis, block, strict=True) if rate]
        points = self.per_point * reduce(lambda a, b: a * b, block, 1) if self.per_point else 0
        return reduce(lambda a, b: a + b, linear, self.per_call + points)

    def marginal(self, axis: str, extents: Mapping[str, Number] | None = None) -> Number:
        """Returns the cost of one more index along an axis."""
        if axis not in self.axes:
            return 0
        k = self.axes.index(axis)
        others = [n for j, n in enumerate(self.block(extents)) if j != k]
        points = self.per_point * reduce(lambda a, b: a * b, others, 1) if self.per_point else 0
        return points + self.per_axis[k]

    def block(self, extents: Mapping[str, Number] | None) -> list[Number]:
        """Returns the extents of a block."""
        replaced = extents or {}
        pairs = zip(self.axes, self.extents, strict=True)
        return [replaced.get(axis, extent) for axis, extent in pairs]


@attrs.frozen
class ExecutionCost:
    """The cost of an execution: the sum of its loop nests."""

    terms: tuple[LoopCost, ...]
    unit: str = FLOPS

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the index space."""
        return tuple(dict.fromkeys(axis for term in self.terms for axis in term.axes))

    def total(self, extents: Mapping[str, Number] | None = None) -> Number:
        """Returns the cost over a block; `extents` replaces those of some axes."""
        return reduce(lambda a, b: a + b, [t.total(extents) for t in self.terms], 0)

    def marginal(self, axis: str, extents: Mapping[str, Number] | None = None) -> Number:
        """Returns the cost of one more index along an axis.

        It does not depend on the position along the axis. Raises StructIRError for an unknown axis.
        """
        if axis not in self.axes:
            message = f"no axis `{axis}`: expected one of {', '.join(self.axes) or 'none'}"
            raise StructIRError(message, code="E0660")
        return reduce(lambda a, b: a + b, [t.marginal(axis, extents) for t in self.terms], 0)

    def at(self, sizes: Mapping[Sym | str, int]) -> ExecutionCost:
        """Returns the cost at concrete sizes, by symbolic dim or name."""
        terms = [
            attrs.evolve(term, extents=tuple([_concrete(n, sizes) for n in term.extents]))
            for term in self.terms
        ]
        return ExecutionCost(tuple(terms), self.unit)


def _concrete(extent: Number, sizes: Mapping[Sym | str, int]) -> Number:
    if isinstance(extent, int | float):
        return extent
    values = {s: sizes.get(s, sizes.get(s.name)) for s in dims.syms(extent)}
    known = {s: n for s, n in values.items() if n is not None}
    return dims.substitute(extent, known)


# From calls and specs


@analysis
def execution_cost(call: Call, module: IRModule | None = None) -> ExecutionCost:
    """Returns the cost of a call, with extents over the symbolic dims of its operands.

    `module` has the kernels of the program; the cost of a kernel is that of its loops.

    Without loops, as for external functions and data-dependent sizes, it is one operation per
    element of the results. Raises DiagnosticError for an invalid declaration of the op.
    """
    definition: Any = call.op.definition if isinstance(call.op, Op) else None
    if definition is None:
        return _of_callee(call, module)
    spec = definition.index_spec(call)
    if spec is None:
        return ExecutionCost((_elementwise(call.struct_info),))
    rates = declared_rates(call)
    parts = None if rates is not None or spec.computes else definition.decompose(call)
    if parts is None:
        return cost_of_spec(spec, rates)
    return ExecutionCost(tuple([t for part in _calls(parts) for t in execution_cost(part).terms]))


def _of_callee(call: Call, module: IRModule | None) -> ExecutionCost:
    """Returns the cost of a call of a kernel or an external function."""
    callee = spec_of_callee(call, module)
    if callee.kernel is not None:
        sizes = sizes_of_call(call, callee.kernel)
        terms = [_cost_of_nest(nest, sizes) for nest in nest_costs(callee.kernel)]
        return ExecutionCost(tuple(terms))
    if callee.spec is None:
        return ExecutionCost((_elementwise(call.struct_info),))
    return cost_of_spec(callee.spec, declared_rates(call))


def _cost_of_nest(nest: NestCost, sizes: Mapping[Sym, Dim]) -> LoopCost:
    extents = tuple([_renamed(extent, sizes) for extent in nest.extents])
    return LoopCost(nest.names, extents, nest.operations, (0,) * len(extents))


def _renamed(extent: Dim, sizes: Mapping[Sym, Dim]) -> Dim:
    return extent if isinstance(extent, int) else dims.substitute(extent, sizes)


def _calls(expr: Expr) -> Iterator[Call]:
    """Yields the distinct calls of a tree."""
    seen: dict[Expr, None] = {}
    worklist = [expr]
    while worklist:
        part = worklist.pop()
        if part in seen:
            continue
        seen[part] = None
        match part:
            case Call():
                yield part
                worklist += part.args
            case Tuple(fields):
                worklist += fields
            case TupleGetItem(value):
                worklist.append(value)


def declared_rates(call: Call) -> Mapping[str, float] | None:
    """Returns the rates that an op declares for a call; None if it declares none."""
    definition: Any = call.op.definition if isinstance(call.op, Op) else None
    declared = getattr(definition, "declared_cost", None)
    value = call.attrs.get("cost") if definition is None else None
    value = value if declared is None else declared(call)
    return None if value is None else as_rates(value, getattr(call.op, "name", "cost"), call.span)


def as_rates(value: Any, name: str, span: Any = None) -> Mapping[str, float]:
    """Returns declared rates as a mapping: a number is the rate per point.

    Raises DiagnosticError for anything but nonnegative numbers.
    """
    rates = value if isinstance(value, Mapping) else {POINT: value}
    for axis, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not rate >= 0:
            message = f"cost of `{axis}`: expected a number of at least 0, found {rate!r}"
            hint = 'write `cost=2` (operations per point) or `cost={"call": 100, "k": 2}`'
            raise DiagnosticError(Diagnostic(message, span, name, hint=hint, code="E0660"))
    return rates


def cost_of_spec(spec: IndexSpec, rates: Mapping[str, float] | None = None) -> ExecutionCost:
    """Returns the cost of the loops of a spec; `rates` overrides those of its bodies."""
    return ExecutionCost(tuple([_loop_cost(spec, each, rates) for each in spec.statements]))


def _loop_cost(
    spec: IndexSpec, statement: Statement, rates: Mapping[str, float] | None
) -> LoopCost:
    index_vars = (*statement.parallel, *statement.reduce, *statement.whole)
    axes = tuple([s.name for s in index_vars])
    extents = tuple([spec.extents[s] for s in index_vars])
    if rates is None:
        return LoopCost(axes, extents, operations(statement), (0,) * len(axes))
    per_axis = tuple([rates.get(axis, rates.get(_pack_of(axis), 0)) for axis in axes])
    return LoopCost(axes, extents, rates.get(POINT, 0), per_axis, rates.get(CALL, 0))


def _pack_of(axis: str) -> str:
    """Returns the row variable of an axis such as `s_0`."""
    return axis.rpartition("_")[0]


def operations(statement: Statement) -> int:
    """Returns the operations of one point: those of the values, and the reduction."""
    values = [write.value for write in statement.writes]
    if None in values:
        return max(len(values), 1)
    trees: list[ScalarExpr] = list(dict.fromkeys(v for v in values if v is not None))
    count = sum([1 for tree in trees for node in walk(tree) if _is_operation(node)])
    return count + len(values) * bool(statement.reduce or statement.monoid is not None)


def _is_operation(node: ScalarExpr) -> bool:
    return isinstance(node, ScalarOp) and node.fn not in FREE


def _elementwise(info: StructInfo | None) -> LoopCost:
    """Returns one operation per element of a result."""
    extents: list[Number] = []
    count: Number = 0
    for tensor in leaf_infos(info):
        if isinstance(tensor, TensorStructInfo) and isinstance(tensor.dims, tuple):
            count = count + reduce(lambda a, b: a * b, tensor.dims, 1)
    extents.append(count)
    return LoopCost(("element",), tuple(extents), 1, (0,))


# From programs and regions


@analysis
def program_cost(program: Program, regions: Mapping[Hashable, Region]) -> float:
    """Returns the cost to compute regions of values: of all calls that write into them.

    `regions` are those of every value, as `Program.required_regions` returns them.
    """
    return sum([step_cost(program, step, regions) for step in program.steps])


def step_cost(program: Program, step: RegionStep, regions: Mapping[Hashable, Region]) -> float:
    """Returns the cost to compute the required regions of the results of one step."""
    return StepCost(program, step).over(regions)


@attrs.frozen(eq=False)
class StepCost:
    """The cost of one step, to be evaluated for several regions of its results."""

    program: Program
    step: RegionStep

    @cached_property
    def statements(self) -> tuple[tuple[Statement, LoopCost, LoopNest], ...]:
        """The statements of the call, each with its rates and its loops."""
        spec = self.step.origin.spec
        terms = cost_of_spec(spec, declared_rates(self.step.origin.call)).terms
        sizes = self.program.sizes
        return tuple(
            [
                (each, term, loops_of(each, spec.extents, sizes))
                for each, term in zip(spec.statements, terms, strict=True)
            ]
        )

    def over(self, regions: Mapping[Hashable, Region]) -> float:
        """Returns the cost to compute the required regions of the results."""
        step, origin = self.step, self.step.origin
        if not isinstance(origin, CallOrigin):
            return 0
        required = [(k, r) for k, key in enumerate(step.outputs) if (r := regions.get(key))]
        if not required:
            return 0
        if origin.spec is not None and origin.kernel is not None:
            return float(_cost_of_kernel(self.program, step, origin.kernel, regions))
        if origin.rows is not None:
            rows: Any = step.dependency
            return float(sum([rows.points(region) for _, region in required]))
        if origin.spec is None:
            return float(sum([region.count for _, region in required]))
        return sum([_cost_of_statement(*each, required) for each in self.statements])


def _cost_of_kernel(
    program: Program, step: RegionStep, kernel: Kernel, regions: Mapping[Hashable, Region]
) -> int:
    """Returns the operations of the iterations of a kernel that regions of its results require."""
    sizes = {
        symbol: program.number(dim)
        for symbol, dim in sizes_of_call(step.origin.call, kernel).items()
    }
    blocks = [r.bounds if (r := regions.get(key)) else None for key in step.outputs]
    shapes = [program.shapes[key] for key in step.outputs]
    projection = kernel_projection(kernel)
    return operations_over(kernel, required_iterations(projection, shapes, sizes, blocks))


def _cost_of_statement(
    statement: Statement, term: LoopCost, loops: LoopNest, required: list[tuple[int, Region]]
) -> float:
    """Returns the cost of the points of a statement that write into regions of the results."""
    inner = attrs.evolve(term, per_call=0) if term.per_call else term
    costs = [
        sum(
            [
                inner.total(dict(zip(term.axes, [s.size for s in points.sets], strict=True)))
                for result, region in required
                if write.result == result
                for box in region.boxes
                for points in loops.points(access, box)
            ]
        )
        for write, access in zip(statement.writes, loops.writes, strict=True)
    ]
    return float(max(costs) + term.per_call) if any(costs) else 0.0
