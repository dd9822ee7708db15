"""Calls of the same op that may compute a batched call, and the proof that they do.

A candidate has the batch axis in front of its operands, and attributes shifted accordingly. It is
accepted if its index spec is that of the forward call inside one more parallel loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import Element
from structir.ir.expr import Call, Expr, PrimValue, ShapeExpr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.opdef.attributes import SIZES
from structir.opdef.batched_op import Path, batched_spec, with_axis
from structir.opdef.derived_op import is_derived
from structir.projections.scalar_expr import LoopIndex, ScalarExpr, substitute
from structir.projections.spec import AccessIndex, IndexSpec, Statement

AXIS_KINDS = ("an axis: an integer", "an axis or a list of axes")
INTEGERS = "an integer or a list of integers"
VARIANTS = ("shifted", "prefixed", "padded")


@attrs.frozen
class Operand:
    """A tensor operand: its path, its axes without the batch axis, whether it is mapped."""

    path: Path
    dims: tuple[Dim, ...]
    element: Element
    mapped: bool


def tensor_operands(call: Call, mapped: Sequence[Path]) -> list[Operand] | None:
    """Returns the tensors among the arguments of the forward call; None if a shape is unknown."""
    operands = []
    for k, arg in enumerate(call.args):
        info = arg.struct_info
        infos = (
            {(k, n): f for n, f in enumerate(info.fields)}
            if isinstance(info, TupleStructInfo)
            else {(k,): info}
        )
        for path, field in infos.items():
            if isinstance(field, TensorStructInfo):
                if not isinstance(field.dims, tuple):
                    return None
                operands.append(Operand(path, field.dims, field.element, path in mapped))
    return operands


@attrs.frozen
class Candidate:
    """A call over placeholders, and the number of axes of size 1 after the batch axis by path."""

    call: Call
    inserted: Mapping[Path, int]


def accepted(call: Call, mapped: Sequence[Path], size: Dim) -> Candidate | None:
    """Returns a call of the same op that computes the batched call, or None."""
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    operands = tensor_operands(call, mapped)
    if operands is None or is_derived(call.op):
        return None
    spec = definition.index_spec(call)
    if spec is None:
        return None
    target = batched_spec(spec, mapped, size)
    expected = with_axis(call.struct_info, size)
    for candidate in _candidates(call, operands, size):
        try:
            built = candidate.call
            derived = definition.index_spec(built)
        except DiagnosticError:
            continue
        same_result = built.struct_info == expected and derived is not None
        if same_result and same_spec(derived, target, candidate.inserted):
            return candidate
    return None


def _candidates(call: Call, operands: list[Operand], size: Dim) -> Iterator[Candidate]:
    largest = max([len(o.dims) for o in operands], default=0)
    aligned = {o.path: largest - len(o.dims) if o.mapped else 0 for o in operands}
    for inserted in [aligned, dict.fromkeys(aligned, 0)] if any(aligned.values()) else [aligned]:
        args = _placeholders(call, operands, inserted, size)
        for variant in VARIANTS:
            rank = len(operands[0].dims) if operands else 0
            built = _built(call, args, variant, rank, size)
            if built is not None:
                yield Candidate(built, inserted)


def _placeholders(
    call: Call, operands: list[Operand], inserted: Mapping[Path, int], size: Dim
) -> tuple[Expr, ...]:
    args = list(call.args)
    for operand in operands:
        if not operand.mapped:
            continue
        axes = (size, *[1] * inserted[operand.path], *operand.dims)
        value = Var("operand", TensorStructInfo(axes, operand.element))
        args[operand.path[0]] = with_operand(args[operand.path[0]], operand.path[1:], value)
    return tuple(args)


def with_operand(arg: Expr, path: Path, value: Expr) -> Expr:
    """Returns an argument with the operand at a path in its tuple replaced."""
    if not path:
        return value
    fields = list(arg.fields) if isinstance(arg, Tuple) else []
    fields = fields or [Var("field", info) for info in arg.struct_info.fields]
    fields[path[0]] = value
    return Tuple(tuple(fields))


def _built(call: Call, args: tuple[Expr, ...], variant: str, rank: int, size: Dim) -> Call | None:
    """Returns the call with the attributes of a variant; None if it is invalid or no variant."""
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    keywords: dict[str, Any] = {}
    position = 0
    differs = variant == "shifted"
    for parameter in definition.signature.parameters:
        if parameter.is_argument:
            if position >= len(args):
                continue
            arg: Any = args[position]
            position += 1
            if isinstance(arg, Tuple) and not arg.fields:
                continue
            if parameter.kind is SIZES and variant != "shifted" and isinstance(arg, ShapeExpr):
                arg, differs = ShapeExpr((size, *arg.dims)), True
            keywords[parameter.name] = arg
            continue
        value = call.attrs.get(parameter.name, parameter.default)
        expected = getattr(parameter.kind, "expected", "")
        if expected in AXIS_KINDS:
            value = _shifted(value, expected == AXIS_KINDS[1], rank)
            if variant == "prefixed" and isinstance(value, tuple):
                value, differs = (0, *value), True
        elif variant == "padded" and expected == INTEGERS and isinstance(value, tuple):
            value, differs = (0, 0, *value), True
        keywords[parameter.name] = value
    if not differs:
        return None
    try:
        return definition.bind((), {n: v for n, v in keywords.items() if v is not None}, call.span)  # type: ignore[no-any-return]
    except (DiagnosticError, TypeError):
        return None


def _shifted(value: Any, several: bool, rank: int) -> Any:
    """Returns axes of the batched operand: those counted from the front are shifted by one."""
    if value is None:
        return tuple(range(1, rank + 1)) if several else None
    if isinstance(value, tuple):
        return tuple([_shifted(axis, False, rank) for axis in value])
    return value + 1 if value >= 0 else value


# ---- equality of specs


def same_spec(first: IndexSpec, second: IndexSpec, inserted: Mapping[Path, int]) -> bool:
    """Whether two specs are equal up to the names of loops, and axes of size 1 of the first."""
    if len(first.statements) != len(second.statements) or first.base != second.base:
        return False
    if [o.path for o in first.operands] != [o.path for o in second.operands]:
        return False
    if not _equal_fill(first.fill, second.fill):
        return False
    skipped = {k: inserted.get(o.path, 0) for k, o in enumerate(first.operands)}
    pairs = zip(first.statements, second.statements, strict=True)
    return all([_same_statement(a, b, first, second, skipped) for a, b in pairs])


def _equal_fill(first: Any, second: Any) -> bool:
    return bool(first == second or (first != first and second != second))  # NaN equals NaN


def _same_statement(
    a: Statement, b: Statement, first: IndexSpec, second: IndexSpec, skipped: Mapping[int, int]
) -> bool:
    groups = [(a.parallel, b.parallel), (a.reduce, b.reduce), (a.whole, b.whole)]
    if any([len(x) != len(y) for x, y in groups]) or a.monoid != b.monoid:
        return False
    names: dict[Sym, Sym] = {x: y for xs, ys in groups for x, y in zip(xs, ys, strict=True)}
    if not all([_equal(first.extents[x], second.extents[y]) for x, y in names.items()]):
        return False
    matcher = _SpecMatcher(names)
    return (
        len(a.reads) == len(b.reads)
        and len(a.writes) == len(b.writes)
        and len(a.conditions) == len(b.conditions)
        and all(
            [
                x.name == y.name
                and x.operand == y.operand
                and matcher.entries(x.entries, y.entries, skipped.get(x.operand, 0))
                for x, y in zip(a.reads, b.reads, strict=True)
            ]
        )
        and all(
            [
                x.result == y.result
                and matcher.entries(x.entries, y.entries, 0)
                and matcher.scalar(x.value) == y.value
                for x, y in zip(a.writes, b.writes, strict=True)
            ]
        )
        and all(
            [
                x.op == y.op and matcher.equal(x.left, y.left) and matcher.equal(x.right, y.right)
                for x, y in zip(a.conditions, b.conditions, strict=True)
            ]
        )
    )


def _equal(first: Dim, second: Dim) -> bool:
    return dims.equal(first, second) is True


class _SpecMatcher:
    """Compares parts of specs whose loops have other names."""

    def __init__(self, names: Mapping[Sym, Sym]) -> None:
        self.dims = {old: dims.as_dim(new) for old, new in names.items()}
        self.scalars: dict[ScalarExpr, ScalarExpr] = {
            LoopIndex(old): LoopIndex(new) for old, new in names.items()
        }

    def scalar(self, value: ScalarExpr | None) -> ScalarExpr | None:
        return None if value is None else substitute(value, self.scalars)

    def equal(self, first: Dim, second: Dim) -> bool:
        return _equal(dims.substitute(first, self.dims), second)

    def entries(
        self, first: Sequence[AccessIndex], second: Sequence[AccessIndex], skipped: int
    ) -> bool:
        """Whether indices are equal; `skipped` axes of size 1 follow axis 0 of the first."""
        if skipped:
            middle = first[1 : 1 + skipped]
            if not all([e.size == 1 and (e.loose or e.index == 0) for e in middle]):
                return False
            first = (*first[:1], *first[1 + skipped :])
        if len(first) != len(second):
            return False
        return all([self._entry(a, b) for a, b in zip(first, second, strict=True)])

    def _entry(self, a: AccessIndex, b: AccessIndex) -> bool:
        if isinstance(a.index, ScalarExpr) or isinstance(b.index, ScalarExpr):
            same = isinstance(a.index, ScalarExpr) and self.scalar(a.index) == b.index
        else:
            same = self.equal(a.index, b.index)
        return same and _equal(a.size, b.size) and (a.loose, a.whole) == (b.loose, b.whole)


def real_call(candidate: Candidate, args: Sequence[Expr]) -> Call:
    """Returns the candidate's call with the batched arguments."""
    merged = [
        placeholder if isinstance(placeholder, ShapeExpr | PrimValue) else arg
        for placeholder, arg in zip(candidate.call.args, args, strict=True)
    ]
    return replace(candidate.call, args=tuple(merged))
