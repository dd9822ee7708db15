"""Index specs of kernels: a statement for each dependence of a result on an operand.

The statements have no values: they give the elements that each element of a result depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from structir.analysis.kernel_calls import bind_kernel
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Var
from structir.ir.kernel import Kernel, LibraryCall, Part, nodes_of
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.projections.explanations import WholeAxis
from structir.projections.kernels.dataflow import TooComplex, flow_of
from structir.projections.kernels.definitions import DataIndex, Indices, KernelFlow, array_shape
from structir.projections.kernels.index_bounds import Ranges, stays_inside
from structir.projections.kernels.paths import Path, PathFinder, TooManyPaths, Visit
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import (
    AccessIndex,
    Condition,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Statement,
    Write,
)

DATA = OperandElement("data")  # an index that depends on data
TOO_COMPLEX = "the data flow of the kernel is too complex"


@attrs.frozen(eq=False)
class KernelProjection:
    """The projection of a kernel over its own dims; None if it requires its operands completely.

    `notes` are the accesses that require a whole axis, with their locations.
    """

    spec: IndexSpec | None
    notes: tuple[WholeAxis, ...]
    flow: KernelFlow | None = None
    visits: tuple[Visit, ...] = ()  # of all definitions that the results depend on
    extents: Mapping[Sym, Dim] = attrs.Factory(dict)


_projections: WeakKeyDictionary[Kernel, KernelProjection] = WeakKeyDictionary()


def kernel_projection(kernel: Kernel) -> KernelProjection:
    """Returns the projection of a kernel from its loops and accesses, computed once."""
    known = _projections.get(kernel)
    if known is None:
        known = _projections[kernel] = _projection(kernel)
    return known


def _projection(kernel: Kernel) -> KernelProjection:
    operands = [p for p in kernel.operands if isinstance(p.struct_info, TensorStructInfo)]
    try:
        flow = flow_of(kernel)
        finder = PathFinder(flow, operands)
        paths = finder.run()
    except (TooComplex, TooManyPaths, RecursionError):
        whole = [WholeAxis(p.name, None, TOO_COMPLEX, kernel.span) for p in operands]
        return KernelProjection(None, tuple(whole))
    spec = SpecOfKernel(kernel, operands, finder.instances.extents).spec(paths)
    notes = tuple(_notes(kernel, flow.notes))
    return KernelProjection(spec, notes, flow, tuple(finder.visits), finder.instances.extents)


def _notes(kernel: Kernel, indices: Sequence[DataIndex]) -> Iterator[WholeAxis]:
    for each in indices:
        if any(each.array is param for param in kernel.params):
            verb = "is written" if each.writes else "is read"
            text = f"axis {each.axis} {verb} at an index that depends on data"
            yield WholeAxis(each.array.name, each.axis, text, each.span or kernel.span)


@attrs.frozen(eq=False)
class SpecOfKernel:
    """The builder of the spec of one kernel."""

    kernel: Kernel
    operands: Sequence[Var]
    extents: Mapping[Sym, Dim]

    def spec(self, paths: Sequence[Sequence[Path]]) -> IndexSpec:
        """Returns the spec with a statement for each path."""
        positions = {param: k for k, param in enumerate(self.kernel.params)}
        statements = [
            self.statement(result, path) for result, each in enumerate(paths) for path in each
        ]
        used = {s for each in statements for s in (*each.parallel, *each.reduce)}
        return IndexSpec(
            tuple([_operand(p, positions[p]) for p in self.operands]),
            tuple([_result(p) for p in self.kernel.results]),
            {s: extent for s, extent in self.extents.items() if s in used},
            tuple(_without_subsumed(statements)),
        )

    def statement(self, result: int, path: Path) -> Statement:
        """Returns the statement of one path."""
        loops = [loop.index for loop in path.store.loops if loop.index is not None]
        index_vars = tuple(dict.fromkeys([*loops, *path.inner, *self.others(path)]))
        ranges: Ranges = {s: (0, self.extents[s] - 1) for s in index_vars}
        written = self.entries(self.kernel.results[result], path.store.indices, ranges)
        read = self.entries(path.operand, path.indices, ranges)
        in_write = {s for entry in written for s in entry.index_vars}
        needed = {s for entry in read for s in entry.index_vars}
        needed |= {s for c in path.conditions for s in dims.syms(c.left) | dims.syms(c.right)}
        reduce = [
            s
            for s in index_vars
            if s not in in_write and (s in needed or not dims.at_least(self.extents[s], 1))
        ]
        operand = next(k for k, each in enumerate(self.operands) if each is path.operand)
        return Statement(
            tuple([s for s in loops if s in in_write]),
            tuple(reduce),
            (),
            (Read(path.operand.name, operand, read),),
            (Write(result, written, None),),
            path.conditions,
            None,
            path.exact,
        )

    def others(self, path: Path) -> list[Sym]:
        """Returns the index variables of no loop: the ends of a part."""
        dims_of_path = [i for i in (*path.store.indices, *path.indices) if i is not None]
        dims_of_path += [side for c in path.conditions for side in (c.left, c.right)]
        used = {s for dim in dims_of_path for s in dims.syms(dim)}
        return sorted(used & self.extents.keys(), key=lambda s: s.order)

    def entries(self, array: Var, indices: Indices, ranges: Ranges) -> tuple[AccessIndex, ...]:
        """Returns the indices of an access."""
        shape = array_shape(array)
        return tuple(
            [
                AccessIndex(DATA, size)
                if index is None
                else AccessIndex(index, size, stays_inside(index, size, ranges))
                for index, size in zip(indices, shape, strict=True)
            ]
        )


def entry_of(index: Dim | None, size: Dim) -> AccessIndex:
    """Returns an index of an element that may be out of range."""
    return AccessIndex(DATA, size) if index is None else AccessIndex(index, size, False)


def _operand(param: Var, position: int) -> OperandInfo:
    return OperandInfo(param.name, (position,), array_shape(param), _dtype_of(param))


def _result(param: Var) -> ResultInfo:
    return ResultInfo(param.name, array_shape(param), _dtype_of(param))


def _dtype_of(param: Var) -> str | None:
    info: Any = param.struct_info
    dtype: str | None = info.dtype
    return dtype


def _without_subsumed(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yields the statements that are no restriction of another one."""
    by_access: dict[Any, list[Statement]] = {}
    for each in statements:
        key = (each.reads, each.writes)
        others = by_access.setdefault(key, [])
        conditions = frozenset(each.conditions)
        if not any(frozenset(other.conditions) <= conditions for other in others):
            others[:] = [o for o in others if not conditions <= frozenset(o.conditions)]
            others.append(each)
    for others in by_access.values():
        yield from others


def has_library_calls(kernel: Kernel) -> bool:
    """Whether a kernel is one of the compiler: in parts, or with library calls on memory."""
    return any(isinstance(node, Part | LibraryCall) for node in nodes_of(kernel))


# From kernels to calls


def spec_of_call(call: Call, kernel: Kernel) -> IndexSpec | None:
    """Returns the spec of a kernel call over the dims of the caller; None if unknown."""
    spec = kernel_projection(kernel).spec
    if spec is None:
        return None
    try:
        return renamed_spec(spec, sizes_of_call(call, kernel))
    except DiagnosticError:
        return None


def sizes_of_call(call: Call, kernel: Kernel) -> Mapping[Sym, Dim]:
    """Returns the dims of a kernel in those of the caller."""
    infos: list[StructInfo] = [arg.struct_info for arg in call.args]
    return bind_kernel(kernel.struct_info, [*infos, *call.sinfo_args]).sizes


def renamed_spec(spec: IndexSpec, sizes: Mapping[Sym, Dim]) -> IndexSpec:
    """Returns a spec over other dims."""

    def of(dim: Dim) -> Dim:
        return dim if isinstance(dim, int) else dims.substitute(dim, sizes)

    def entry(index: AccessIndex) -> AccessIndex:
        moved = index.index if index.data is not None else of(index.dim)
        return AccessIndex(moved, of(index.size), index.inside, index.loose, index.whole)

    def statement(each: Statement) -> Statement:
        reads = [Read(r.name, r.operand, tuple(map(entry, r.entries))) for r in each.reads]
        writes = [Write(w.result, tuple(map(entry, w.entries)), None) for w in each.writes]
        conditions = [Condition(c.op, of(c.left), of(c.right)) for c in each.conditions]
        return attrs.evolve(
            each, reads=tuple(reads), writes=tuple(writes), conditions=tuple(conditions)
        )

    operands = [attrs.evolve(o, dims=tuple(map(of, o.dims))) for o in spec.operands]
    results = [attrs.evolve(r, dims=tuple(map(of, r.dims))) for r in spec.results]
    extents = {s: of(extent) for s, extent in spec.extents.items()}
    statements = tuple(map(statement, spec.statements))
    return IndexSpec(tuple(operands), tuple(results), extents, statements, spec.fill, spec.base)
