"""Op `grad.adjoint`: the derived adjoint of a call of an op with an index spec.

    dx = R.grad.adjoint(x, w, dy, of="nn.conv2d", by=[0], reads=["gradient 0"], strides=[2, 2])

is the cotangent of `x` for the forward call `R.nn.conv2d(x, w, strides=[2, 2])`, where `dy` is the
cotangent of its result. The arguments are those of the forward call, followed by the tensors named
in `reads`: results, cotangents of results, and parts. A part is an auxiliary tensor in the shape of
a result, such as the number of elements that tie for a maximum. A call of this op with the
attribute `part` computes it. Sizes may be symbolic. Kernels and regions are derived from the
adjoint of the forward call's index spec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.analysis import base_check
from structir.analysis.lattice import FAIL_L0
from structir.ir.expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem
from structir.ir.op import find_op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.opdef.derived_op import DerivedDefinition, differentiable_spec
from structir.projections.spec import IndexSpec, Statement

adjoints = lazy_module("structir.projections.adjoint")

Emit = Callable[[Expr], Expr]  # binds an expression to a variable and returns it
Cotangent = Any  # an Expr, a tuple of cotangents for a tuple, or None where zero
NUMBERED = re.compile(r"\w+ (?:\d+\.)?(\d+)")  # the name of a tensor in the shape of a result


@attrs.define(eq=False)
class AdjointDefinition(DerivedDefinition):
    """The definition of `grad.adjoint`."""

    name: str = "grad.adjoint"
    own_attributes: tuple[str, ...] = ("of", "by", "reads", "part")

    @property
    def doc(self) -> str:
        """Returns the documentation of the op."""
        return "Computes the cotangent of an operand of a call from the cotangents of its results."

    def deduce(self, call: Call) -> StructInfo:
        """Returns the StructInfo of the operand at `by`; for a part, that of its result."""
        forward = self.forward(call)
        results = fields_of(forward.struct_info)
        self._check(call, forward, results)
        part = call.attrs.get("part")
        if part is not None:
            return results[self._result_of(call, part, len(results))]
        info: Any = forward.args[call.attrs["by"][0]].struct_info
        for member in call.attrs["by"][1:]:
            fields = info.fields if isinstance(info, TupleStructInfo) else ()
            info = fields[member] if member in range(len(fields)) else None
        if not isinstance(info, TensorStructInfo):
            raise self.error(
                call, f"by: expected the index of a tensor argument, found {call.attrs['by']}"
            )
        return info

    def _check(self, call: Call, forward: Call, results: tuple[StructInfo, ...]) -> None:
        """Checks that each tensor of `reads` has the StructInfo of its result."""
        reads, count = call.attrs["reads"], len(forward.args)
        for name, arg in zip(reads, call.args[count:], strict=True):
            expected = results[self._result_of(call, name, len(results))]
            if arg.struct_info is None or base_check(expected, arg.struct_info) is FAIL_L0:
                raise self.error(call, f"{name}: expected {expected}, found {arg.struct_info}")

    def _result_of(self, call: Call, name: Any, count: int) -> int:
        """Returns the result index in the name of a tensor: `gradient 1`, `ties 0.1`."""
        match = NUMBERED.fullmatch(name) if isinstance(name, str) else None
        if match is None or int(match[1]) >= count:
            raise self.error(call, f"reads: expected a name such as 'gradient 0', found {name!r}")
        return int(match[1])

    def forward(self, call: Call) -> Call:
        """Returns the forward call."""
        self.forward_op(call)
        by, reads = call.attrs.get("by"), call.attrs.get("reads")
        count = len(call.args) - len(reads) if isinstance(reads, tuple) else -1
        if not isinstance(by, tuple) or not by or by[0] not in range(count):
            message = f"expected `by` as an operand index and `reads` as names, found {by}, {reads}"
            raise self.error(call, message)
        return self.forward_call(call, call.args[:count])

    def index_spec(self, call: Call) -> IndexSpec | None:
        """Returns the adjoint of the forward call's index spec, over the arguments of this call."""
        forward = self.forward(call)
        spec = differentiable_spec(forward)
        if spec is None:
            return None
        paths, by, part = [info.path for info in spec.operands], *self._target(call)
        derived = adjoints.adjoint(spec, paths.index(by)) if by in paths else None
        specs = (
            {None: derived.spec, **{h.name: h.spec for h in derived.auxiliary_tensors}}
            if derived
            else {}
        )
        if part not in specs:
            raise self.error(call, f"no adjoint for operand {by}, part {part}")
        first = len(forward.args)
        positions = {n: first + k for k, n in enumerate(call.attrs["reads"])}
        return place_operands(specs[part], len(spec.operands), positions)

    def _target(self, call: Call) -> tuple[Any, Any]:
        return call.attrs["by"], call.attrs.get("part")


def fields_of(info: StructInfo | None) -> tuple[StructInfo, ...]:
    """Returns the StructInfo of each result of a call."""
    assert info is not None
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def operands_read(spec: IndexSpec, first: int) -> list[str]:
    """Returns the names of the operands from index `first` on that a spec reads."""
    indices = {read.operand for statement in spec.statements for read in statement.reads}
    return [info.name for k, info in enumerate(spec.operands) if k >= first and k in indices]


def place_operands(spec: IndexSpec, first: int, positions: Mapping[str, int]) -> IndexSpec:
    """Sets the argument positions of the operands from index `first` on; drops other operands."""
    retained = [k for k, info in enumerate(spec.operands) if k < first or info.name in positions]
    new_indices = {old: new for new, old in enumerate(retained)}
    operands = [spec.operands[k] for k in retained]
    operands[first:] = [attrs.evolve(o, path=(positions[o.name],)) for o in operands[first:]]
    statements = tuple([_renumber(statement, new_indices) for statement in spec.statements])
    return attrs.evolve(spec, operands=tuple(operands), statements=statements)


def _renumber(statement: Statement, new_indices: Mapping[int, int]) -> Statement:
    reads = [attrs.evolve(r, operand=new_indices[r.operand]) for r in statement.reads]
    return attrs.evolve(statement, reads=tuple(reads))


def component(value: Cotangent, index: int, emit: Emit) -> Any:
    """Returns component `index` of a tuple value, or the value itself if it is no tuple."""
    if isinstance(value, tuple):
        return value[index]
    if isinstance(value, Tuple):
        return value.fields[index]
    if value is not None and isinstance(value.struct_info, TupleStructInfo):
        info = value.struct_info.fields[index]
        return emit(TupleGetItem(value, index, info))
    return value


def zeros(like: Expr) -> Expr:
    """Returns a call that creates zeros in the shape and dtype of a tensor."""
    return _filled("zeros_like", like)


def zeros_of(info: StructInfo | None) -> Expr:
    """Returns a call that creates zeros with the StructInfo of a tensor of known sizes."""
    op: Any = find_op("zeros")
    value: Expr = op(ShapeExpr(info.dims), info.dtype)  # type: ignore[union-attr]
    return value


def ones(like: Expr) -> Expr:
    """Returns a call that creates ones in the shape and dtype of a tensor."""
    return _filled("ones_like", like)


def _filled(name: str, like: Expr) -> Expr:
    op = find_op(name)
    assert op is not None
    call: Expr = op(like)
    return call


ADJOINT = AdjointDefinition().op
