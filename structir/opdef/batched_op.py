"""Op `batched`: a call of another op with a new leading axis, derived from its index spec.

    y = R.batched(x, w, of="nn.conv2d", mapped=[[0], [1]], strides=[2, 2])

is, for each index of the new axis 0, the forward call `R.nn.conv2d(x[b], w[b], strides=[2, 2])`.
`mapped` has the paths of the operands that have the axis; every result has it. The loops are those
of the forward call inside one more parallel loop, so kernels, regions and the adjoint are derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.analysis.axes import tensor
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Expr, Tuple, Var
from structir.ir.op import find_op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.derived_op import DerivedDefinition
from structir.projections.spec import AccessIndex, IndexSpec, Statement

Path = tuple[int, ...]


@attrs.define(eq=False)
class BatchedDefinition(DerivedDefinition):
    """The definition of `batched`."""

    name: str = "batched"
    own_attributes: tuple[str, ...] = ("of", "mapped")

    @property
    def doc(self) -> str:
        """Returns the documentation of the op."""
        return "Computes a call of another op for each index of a new leading axis."

    def deduce(self, call: Call) -> StructInfo:
        """Returns the StructInfo of the forward call's result with the axis in front."""
        return with_axis(self.forward(call).struct_info, self.size(call))

    def paths(self, call: Call) -> tuple[Path, ...]:
        """Returns the paths of the operands with the axis."""
        paths = call.attrs.get("mapped")
        if not isinstance(paths, tuple) or not paths or not all(map(_is_path, paths)):
            raise self.error(call, f"mapped: expected paths of operands, found {paths!r}")
        return paths

    def size(self, call: Call) -> Dim:
        """Returns the size of the axis. Raises DiagnosticError if the operands disagree."""
        infos: list[Any] = [self._info(call, path) for path in self.paths(call)]
        sizes: list[Dim] = [info.dims[0] for info in infos]
        for size in sizes[1:]:
            if dims.equal(sizes[0], size) is False:
                message = f"expected axes 0 of one size, found {dims.text(sizes[0])}"
                raise self.error(call, f"{message} and {dims.text(size)}")
        return sizes[0]

    def _info(self, call: Call, path: Path) -> TensorStructInfo:
        arg = call.args[path[0]] if path[0] in range(len(call.args)) else None
        info: Any = None if arg is None else arg.struct_info
        for member in path[1:]:
            fields = info.fields if isinstance(info, TupleStructInfo) else ()
            info = fields[member] if member in range(len(fields)) else None
        if (
            not isinstance(info, TensorStructInfo)
            or not isinstance(info.dims, tuple)
            or not info.dims
        ):
            raise self.error(
                call, f"mapped: expected a tensor with an axis at {path}, found {info}"
            )
        return info

    def forward(self, call: Call) -> Call:
        """Returns the forward call for one index of the axis."""
        args = list(call.args)
        for path in self.paths(call):
            info = self._info(call, path)
            element = TensorStructInfo(info.dims[1:], info.element)
            args[path[0]] = _replaced(args[path[0]], path[1:], Var("element", element))
        return self.forward_call(call, tuple(args))

    def index_spec(self, call: Call) -> IndexSpec | None:
        """Returns the spec of the forward call inside one more parallel loop."""
        forward = self.forward(call)
        spec: IndexSpec | None = forward.op.definition.index_spec(forward)  # type: ignore[attr-defined]
        return None if spec is None else batched_spec(spec, self.paths(call), self.size(call))


def _is_path(path: Any) -> bool:
    return isinstance(path, tuple) and bool(path) and all([type(k) is int for k in path])


def _replaced(arg: Expr, path: Path, value: Expr) -> Expr:
    """Returns an argument with the expression at a path in its tuples replaced."""
    if not path:
        return value
    if isinstance(arg, Tuple):
        fields = list(arg.fields)
    else:
        fields = [Var("field", info) for info in arg.struct_info.fields]
    fields[path[0]] = _replaced(fields[path[0]], path[1:], value)
    return Tuple(tuple(fields))


def with_axis(info: StructInfo | None, size: Dim) -> StructInfo:
    """Returns the StructInfo of tensors with an axis in front, also in tuples."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple([with_axis(f, size) for f in info.fields]), info.names)
    assert isinstance(info, TensorStructInfo)
    if isinstance(info.dims, tuple):
        return TensorStructInfo((size, *info.dims), info.element)
    if info.axes is not None:
        return tensor((size, *info.axes), info.element)
    rank: Any = info.ndim
    return TensorStructInfo(None, info.element, rank + 1 if rank is not None and rank >= 0 else -1)


def batched_spec(spec: IndexSpec, paths: Sequence[Path], size: Dim) -> IndexSpec:
    """Returns a spec inside one more parallel loop, over axis 0 of results and mapped operands."""
    ((symbol),) = dims.syms(dims.sym("batch"))
    entry = AccessIndex(dims.as_dim(symbol), size)
    operands = [
        attrs.evolve(o, dims=(size, *o.dims)) if o.path in paths else o for o in spec.operands
    ]
    mapped = {k for k, operand in enumerate(spec.operands) if operand.path in paths}
    return IndexSpec(
        tuple(operands),
        tuple([attrs.evolve(r, dims=(size, *r.dims)) for r in spec.results]),
        {symbol: size, **spec.extents},
        tuple([_batched(statement, symbol, entry, mapped) for statement in spec.statements]),
        spec.fill,
        spec.base,
    )


def _batched(statement: Statement, symbol: Sym, entry: AccessIndex, mapped: set[int]) -> Statement:
    return attrs.evolve(
        statement,
        parallel=(symbol, *statement.parallel),
        reads=tuple(
            [
                attrs.evolve(r, entries=(entry, *r.entries)) if r.operand in mapped else r
                for r in statement.reads
            ]
        ),
        writes=tuple([attrs.evolve(w, entries=(entry, *w.entries)) for w in statement.writes]),
    )


def apply(name: str, *args: Any, **attributes: Any) -> Expr:
    """Returns a call of an op by name."""
    op = find_op(name)
    assert op is not None
    call: Expr = op(*args, **attributes)
    return call


BATCHED = BatchedDefinition().op
