"""Gradients of calls, as calls: what comes back to the operands, from what comes back to the
result.

`adjoints` is the one entry, reached as `definition.adjoint(call, result, back, emit)`. It asks, in
this order: the op's own `gradient` hook; the parts of a composite, backwards; the adjoint of the
index spec, as calls of `grad.adjoint`. `gradients` runs it on NumPy values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import is_float
from structir.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from structir.ir.node import replace
from structir.ir.struct_info import OBJECT, StructInfo, TensorStructInfo
from structir.opdef.adjoint_op import (
    ADJOINT,
    Back,
    Emit,
    component,
    differentiable_spec,
    fields_of,
    operands_read,
    zeros,
)
from structir.opdef.memo import memoize
from structir.opdef.reference import concrete, tree_value
from structir.projections.adjoint import NO_SLOPE, adjoint
from structir.projections.spec import IndexSpec

if TYPE_CHECKING:
    from structir.opdef.define import SignatureOpDefinition

NOTHING = Tuple(())


def adjoints(
    definition: SignatureOpDefinition, call: Call, result: Expr, back: Back, emit: Emit
) -> list[Back]:
    """For each argument of a call, what comes back to it when `back` comes back to its `result`.

    None where nothing does: to integers, to shapes, to tensors read only for their sizes or where
    the slope is zero. A DiagnosticError for an op without a gradient."""
    if not _has_cotangent(back) or not any(map(_is_real, fields_of(result.struct_info))):
        return [None] * len(call.args)
    if "no_gradient" in definition.hooks:
        return [None] * len(call.args)
    if "undifferentiable" in definition.hooks:
        raise _none(call, definition.hooks["undifferentiable"])
    rule = definition.hooks.get("gradient")
    if rule is not None:
        found = list(rule(call, result, back, emit))
        return found + [None] * (len(call.args) - len(found))
    parts = definition.decompose(call)
    if parts is not None:
        return _through(parts, call, result, back, emit)
    return DerivedAdjoint(call, memoize(partial_derivatives, call), result, back, emit).all()


def _none(call: Call, why: str) -> DiagnosticError:
    name = call.op.definition.name  # type: ignore[attr-defined]
    return DiagnosticError(Diagnostic(f"it has no gradient: {why}", call.span, name))


def _has_cotangent(back: Back) -> bool:
    return any(map(_has_cotangent, back)) if isinstance(back, tuple) else back is not None


def _is_real(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and (info.dtype is None or is_float(info.dtype))


def describe_gradient(definition: SignatureOpDefinition, call: Call) -> str | None:
    """Whether and how an op has a gradient, in words, from one of its calls; None where nothing is
    said of it."""
    hooks = definition.hooks
    if "undifferentiable" in hooks:
        return f"none: {hooks['undifferentiable']}"
    if "no_gradient" in hooks:
        return f"zero: {hooks['no_gradient']}"
    if not any(map(_is_real, fields_of(call.struct_info))):
        return "none: its results are no real numbers"
    if "gradient" in hooks:
        return "by a rule of its own"
    if definition.decompose(call) is not None:
        return "through its parts"
    spec = definition.index_spec(call)
    if spec is None or not spec.computes:
        return None
    slopes = [found for k in range(len(spec.operands)) if (found := adjoint(spec, k)) is not None]
    if any(found.spec.clauses for found in slopes):
        return "from its line and body"
    return "zero: nothing that it reads has a slope" if spec.operands else "none: it reads nothing"


# From the index spec.


@attrs.frozen(eq=False)
class PartialDerivative:
    """How a call's gradient by one of its operands is written: the tensors that it reads beside the
    call's arguments, and those of its parts."""

    path: tuple[int, ...]
    reads: tuple[str, ...] | None  # None where nothing comes back
    parts: Mapping[str, tuple[str, ...]] = attrs.Factory(dict)


def partial_derivatives(call: Call) -> tuple[PartialDerivative, ...]:
    """How a call has gradients by its operands, from its index spec."""
    spec = differentiable_spec(call)
    if spec is None or not spec.computes:
        raise _none(call, "its sizes are not known" if spec is None else "its body takes arrays")
    return tuple([_partial_derivative(call, spec, k) for k in range(len(spec.operands))])


def _partial_derivative(call: Call, spec: IndexSpec, k: int) -> PartialDerivative:
    found, own = adjoint(spec, k), spec.operands[k]
    if found is None:
        flat = any(clause.monoid in NO_SLOPE for clause in spec.clauses)
        if is_float(own.dtype or "float32") and not flat:
            text = f"how {own.name} is combined has no slope that its line tells"
            raise _none(call, text)
        return PartialDerivative(own.path, None)
    if not found.spec.clauses:
        return PartialDerivative(own.path, None)
    count = len(spec.operands)
    parts = {helper.name: tuple(operands_read(helper.spec, count)) for helper in found.helpers}
    return PartialDerivative(own.path, tuple(operands_read(found.spec, count)), parts)


@attrs.frozen(eq=False)
class DerivedAdjoint:
    """The adjoint of a call's spec, as calls."""

    call: Call
    slopes: tuple[PartialDerivative, ...]
    result: Expr
    back: Back
    emit: Emit
    made: dict[str, Expr] = attrs.Factory(dict)  # the tensors that calls read beside the operands

    def all(self) -> list[Back]:
        """What comes back to each argument."""
        found: list[Back] = [
            [None] * len(arg.fields) if isinstance(arg, Tuple) else None for arg in self.call.args
        ]
        for slope in self.slopes:
            made = None if slope.reads is None else self._call(slope, slope.reads, None)
            argument = slope.path[0]
            if len(slope.path) > 1:
                if not isinstance(found[argument], list):  # a tuple variable
                    found[argument] = [None] * _members(self.slopes, argument)
                found[argument][slope.path[1]] = made
            else:
                found[argument] = made
        return [tuple(b) if isinstance(b, list) else b for b in found]

    def _call(self, slope: PartialDerivative, reads: tuple[str, ...], part: str | None) -> Expr:
        read = [self._tensor(slope, name) for name in reads]
        definition: Any = ADJOINT.definition
        static = {**definition.attributes_for(self.call), "by": slope.path, "reads": reads}
        if part is not None:
            static["part"] = part
        made: Call = definition.bind((*self.call.args, *read), static, self.call.span)
        return self.emit(made)

    def _tensor(self, slope: PartialDerivative, name: str) -> Expr:
        """A result, what comes back to it, or a part, by its name in the adjoint."""
        kind, _, number = name.rpartition(" ")
        if kind not in ("result", "gradient"):
            return self._call(slope, slope.parts[name], name)
        if name not in self.made:
            self.made[name] = self._of_result(kind, int(number))
        return self.made[name]

    def _of_result(self, kind: str, number: int) -> Expr:
        back = component(self.back, number, self.emit) if kind == "gradient" else None
        if back is not None:
            return back  # type: ignore[no-any-return]
        own: Expr = component(self.result, number, self.emit)
        return own if kind == "result" else self.emit(zeros(own))


def _members(slopes: Sequence[PartialDerivative], argument: int) -> int:
    return 1 + max(slope.path[1] for slope in slopes if slope.path[0] == argument)


# Through the parts of a composite, backwards.


@attrs.frozen(eq=False)
class Tape:
    """The nodes of a tree as atoms, and what has come back to them."""

    emit: Emit
    atoms: dict[int, Expr] = attrs.Factory(dict)
    back: dict[int, Back] = attrs.Factory(dict)

    def add(self, expr: Expr, back: Back) -> None:
        """One more contribution to an expression."""
        self.back[id(expr)] = _sum(self.back.get(id(expr)), back, self.emit)

    def atom(self, expr: Expr) -> Expr:
        """The value of a node."""
        known = self.atoms.get(id(expr))
        if known is not None:
            return known
        made = self._made(expr)
        self.atoms[id(expr)] = made
        return made

    def _made(self, expr: Expr) -> Expr:
        match expr:
            case Call():
                return self.emit(self.call(expr))
            case Tuple(fields) if fields:  # the empty tuple stands for an operand left out
                return replace(expr, fields=tuple([self.atom(f) for f in fields]))
            case TupleGetItem(value, index):
                return self.emit(replace(expr, tuple_value=self.atom(value), index=index))
        return expr

    def call(self, call: Call) -> Call:
        """A call over atoms."""
        return replace(call, args=tuple([self.atom(arg) for arg in call.args]))


def _sum(a: Back, b: Back, emit: Emit) -> Back:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple) or isinstance(b, tuple):
        count = len(a if isinstance(a, tuple) else b)
        pairs = [(component(a, k, emit), component(b, k, emit)) for k in range(count)]
        return tuple([_sum(x, y, emit) for x, y in pairs])
    return emit(a + b)


def _through(parts: Expr, call: Call, result: Expr, back: Back, emit: Emit) -> list[Back]:
    tape = Tape(emit)
    nodes = list(_after_operands(parts, {id(arg) for arg in call.args}))
    _known(parts, result, tape)
    tape.add(parts, back)
    for expr in reversed(nodes):
        if id(expr) in tape.back and type(expr) in STEPS:
            STEPS[type(expr)](expr, tape)
    return [_collect(arg, tape) for arg in call.args]


def _known(parts: Expr, result: Expr, tape: Tape) -> None:
    """The result is there already: it is not computed again from the parts."""
    if isinstance(parts, Tuple):
        for k, field in enumerate(parts.fields):
            if isinstance(field, Call):
                tape.atoms[id(field)] = component(result, k, tape.emit)
    elif isinstance(parts, Call):
        tape.atoms[id(parts)] = result


def _collect(arg: Expr, tape: Tape) -> Back:
    own = tape.back.pop(id(arg), None)  # an operand that stands in two places gets it in one
    if not isinstance(arg, Tuple):
        return own
    fields = tuple([_collect(field, tape) for field in arg.fields])
    return _sum(own, fields if _has_cotangent(fields) else None, tape.emit)


def _after_operands(expr: Expr, leaves: set[int]) -> Iterator[Expr]:
    """Every expression of a tree once, operands first; leaves have none."""
    seen: set[int] = set()
    todo: list[tuple[Expr, bool]] = [(expr, False)]
    while todo:
        node, ready = todo.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            todo.append((node, True))
            todo += [(child, False) for child in _operands(node) if id(node) not in leaves]


def _operands(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Call():
            return expr.args
        case Tuple():
            return expr.fields
        case TupleGetItem():
            return (expr.tuple_value,)
    return ()


def _call_step(call: Call, tape: Tape) -> None:
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    back, result = tape.back[id(call)], tape.atom(call)
    for arg, found in zip(
        call.args, definition.adjoint(tape.call(call), result, back, tape.emit), strict=True
    ):
        tape.add(arg, found)


def _tuple_step(expr: Tuple, tape: Tape) -> None:
    back = tape.back[id(expr)]
    for k, field in enumerate(expr.fields):
        tape.add(field, component(back, k, tape.emit))


def _field_step(expr: TupleGetItem, tape: Tape) -> None:
    own = tape.atom(expr.tuple_value).struct_info
    back = [None] * len(fields_of(own))
    back[expr.index] = tape.back[id(expr)]
    tape.add(expr.tuple_value, tuple(back))


STEPS: dict[type, Callable[[Any, Tape], None]] = {
    Call: _call_step,
    Tuple: _tuple_step,
    TupleGetItem: _field_step,
}


# On values.


@attrs.frozen(eq=False)
class BoundValues:
    """What expressions are worth, bound as they come."""

    nothing: Call  # without arguments
    known: dict[int, Any] = attrs.Factory(dict)
    kept: list[Expr] = attrs.Factory(list)  # an id is only good while its expression lives

    def bound(self, value: Any, like: StructInfo | None) -> Back:
        """Variables that hold values."""
        if value is None:
            return None
        if isinstance(value, tuple):
            return tuple([self.bound(v, f) for v, f in zip(value, fields_of(like), strict=True)])
        return self.variable(value, TensorStructInfo(tuple(value.shape), value.dtype.name))

    def variable(self, value: Any, info: StructInfo) -> Var:
        """A variable that holds a value."""
        made = Var("value", info)
        self.known[id(made)] = value
        self.kept.append(made)
        return made

    def emit(self, expr: Expr) -> Expr:
        """Run an expression at once."""
        if isinstance(expr, Var):
            return expr
        self.kept.append(expr)
        return self.variable(self.value(expr), expr.struct_info or OBJECT)

    def value(self, expr: Back) -> Any:
        """What an expression is worth."""
        if expr is None:
            return None
        if isinstance(expr, tuple):
            return tuple([self.value(e) for e in expr])
        self.kept.append(expr)
        return tree_value(expr, self.nothing, (), self.known)


def gradients(
    definition: SignatureOpDefinition, call: Call, values: tuple[Any, ...], back: Any
) -> Sequence[Any]:
    """For each argument of a call at these values, the gradient of a number that has gradient
    `back` by the result; shaped like the value, None where there is none."""
    bare = concrete(definition, call, values)
    here = BoundValues(Call(call.op, ()))
    tree_value(NOTHING, bare, values, here.known)
    result = here.variable(definition.reference(bare, values), bare.struct_info or OBJECT)
    made = here.bound(back, bare.struct_info)
    return [here.value(b) for b in definition.adjoint(bare, result, made, here.emit)]
