"""Builds adjoints of op calls as calls of other ops.

`definition.adjoint(call, result, cotangent, emit)` calls `adjoints`. The adjoint of a call is built
by the first of these that applies: the op's `gradient` hook; reverse mode over the decomposition of
a composite; the adjoint of the index spec, as calls of `grad.adjoint`. `gradients` evaluates
adjoints on NumPy values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import is_float
from structir.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from structir.ir.node import replace
from structir.ir.struct_info import OBJECT, PrimStructInfo, StructInfo, TensorStructInfo
from structir.opdef.adjoint_op import (
    ADJOINT,
    Cotangent,
    Emit,
    component,
    fields_of,
    operands_read,
    zeros,
)
from structir.opdef.derived_op import differentiable_spec
from structir.opdef.memo import memoize
from structir.opdef.rank_instances import has_known_ranks, instances, is_of_scalars
from structir.opdef.reference import concrete, tree_value
from structir.projections.adjoint import NON_DIFFERENTIABLE, adjoint
from structir.projections.spec import IndexSpec

if TYPE_CHECKING:
    from structir.opdef.define import SignatureOpDefinition

EMPTY_TUPLE = Tuple(())


def adjoints(
    definition: SignatureOpDefinition, call: Call, result: Expr, cotangent: Cotangent, emit: Emit
) -> list[Cotangent]:
    """Returns the cotangent of each argument of a call for a cotangent of its `result`.

    A zero cotangent is None: for integers, shapes, tensors of which only the sizes are read, and
    zero partial derivatives. Raises DiagnosticError for an op without a gradient.
    """
    if not _has_cotangent(cotangent) or not any(map(_is_real, fields_of(result.struct_info))):
        return [None] * len(call.args)
    if "no_gradient" in definition.hooks:
        return [None] * len(call.args)
    if "non_differentiable" in definition.hooks:
        raise _no_gradient(call, definition.hooks["non_differentiable"])
    try:
        cotangents = _declared_adjoints(definition, call, result, cotangent, emit)
    except (TypeError, AttributeError):  # a rule that computes with sizes, which are None
        if has_known_ranks(call):
            raise
        raise _no_gradient(call, NEEDS_RANK) from None
    if cotangents is not None:
        return cotangents
    return DerivedAdjoint(call, memoize(partial_derivatives, call), result, cotangent, emit).all()


NEEDS_RANK = 'its gradient needs operands of known rank, such as `R.Tensor(("n", 4), "float32")`'


def _declared_adjoints(
    definition: SignatureOpDefinition, call: Call, result: Expr, cotangent: Cotangent, emit: Emit
) -> list[Cotangent] | None:
    """Returns the cotangents by the gradient hook or the decomposition of an op, if it has one."""
    rule = definition.hooks.get("gradient")
    if rule is not None:
        cotangents = list(rule(call, result, cotangent, emit))
        return cotangents + [None] * (len(call.args) - len(cotangents))
    parts = definition.decompose(call)
    return None if parts is None else _decomposed_adjoints(parts, call, result, cotangent, emit)


def _no_gradient(call: Call, reason: str) -> DiagnosticError:
    name = call.op.definition.name  # type: ignore[attr-defined]
    hint = f"stop the gradient before it: `R.grad.no_grad({_shown(call)})`"
    message = f"not differentiable: {reason}"
    return DiagnosticError(Diagnostic(message, call.span, name, hint=hint, code="E0307"))


def _shown(call: Call) -> str:
    first = call.args[0] if call.args else None
    return first.name if isinstance(first, Var) else "..."


def _has_cotangent(cotangent: Cotangent) -> bool:
    return (
        any(map(_has_cotangent, cotangent))
        if isinstance(cotangent, tuple)
        else cotangent is not None
    )


def _is_real(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and (info.dtype is None or is_float(info.dtype))


def describe_gradient(definition: SignatureOpDefinition, call: Call) -> str | None:
    """Returns a description of the gradient of an op at a call, or None where unknown."""
    hooks = definition.hooks
    if "non_differentiable" in hooks:
        return f"none: {hooks['non_differentiable']}"
    if "no_gradient" in hooks:
        return f"zero: {hooks['no_gradient']}"
    if not any(map(_is_real, fields_of(call.struct_info))):
        return "none: its results are not floating-point"
    if "gradient" in hooks:
        return "hand-written rule"
    if definition.decompose(call) is not None:
        return "through its decomposition"
    spec = definition.index_spec(call)
    if spec is None or not spec.computes:
        return None
    derived = [adjoint(spec, k) for k in range(len(spec.operands))]
    if any(candidate is not None and candidate.spec.statements for candidate in derived):
        return "derived from signature and body"
    return "zero: its partial derivatives are zero" if spec.operands else "none: it has no operand"


@attrs.frozen(eq=False)
class PartialDerivative:
    """The derived adjoint of one operand.

    `reads` are the names of the tensors that it reads in addition to the forward arguments, and
    `parts` those of its parts.
    """

    path: tuple[int, ...]
    reads: tuple[str, ...] | None  # None for a zero cotangent
    parts: Mapping[str, tuple[str, ...]] = attrs.Factory(dict)


def partial_derivatives(call: Call) -> tuple[PartialDerivative, ...]:
    """Derives the adjoint of each operand of a call from its index spec."""
    spec = differentiable_spec(call)
    if spec is None:
        return _derivatives_at_any_rank(call)
    if not spec.computes:
        raise _no_gradient(call, "its body operates on arrays")
    return tuple([_partial_derivative(call, spec, k) for k in range(len(spec.operands))])


def _derivatives_at_any_rank(call: Call) -> tuple[PartialDerivative, ...]:
    """Returns the derivatives of a call of unknown rank: those of its instances at small ranks.

    The call of the adjoint derives its loops where the ranks are known. Here only the tensors that
    it reads matter, and these depend on the body, not on the rank.
    """
    derivatives: dict[Any, tuple[PartialDerivative, ...]] = {}
    scalars: tuple[PartialDerivative, ...] | None = None
    for instance in instances(call):
        if differentiable_spec(instance) is not None:
            own = partial_derivatives(instance)
            if is_of_scalars(instance):
                scalars = own
                continue
            derivatives[tuple([(d.path, d.reads, tuple(d.parts.items())) for d in own])] = own
    if len(derivatives) == 1:
        return next(iter(derivatives.values()))
    if derivatives:
        raise _no_gradient(call, "its dims are unknown, and its derivatives differ by rank")
    if scalars is not None:
        return scalars
    raise _no_gradient(call, NEEDS_RANK)


def _partial_derivative(call: Call, spec: IndexSpec, k: int) -> PartialDerivative:
    operand = spec.operands[k]
    if isinstance(call.args[operand.path[0]].struct_info, PrimStructInfo):
        return PartialDerivative(operand.path, None)  # only tensors have cotangents
    derived = adjoint(spec, k)
    if derived is None:
        is_constant = any(statement.monoid in NON_DIFFERENTIABLE for statement in spec.statements)
        if is_float(operand.dtype or "float32") and not is_constant:
            reason = f"the reduction over {operand.name} has no derived partial derivative"
            raise _no_gradient(call, reason)
        return PartialDerivative(operand.path, None)
    if not derived.spec.statements:
        return PartialDerivative(operand.path, None)
    count = len(spec.operands)
    parts = {
        helper.name: tuple(operands_read(helper.spec, count))
        for helper in derived.auxiliary_tensors
    }
    return PartialDerivative(operand.path, tuple(operands_read(derived.spec, count)), parts)


@attrs.frozen(eq=False)
class DerivedAdjoint:
    """The calls of `grad.adjoint` for the operands of one forward call."""

    call: Call
    derivatives: tuple[PartialDerivative, ...]
    result: Expr
    cotangent: Cotangent
    emit: Emit
    tensors: dict[str, Expr] = attrs.Factory(dict)  # results and their cotangents, by name

    def all(self) -> list[Cotangent]:
        """Returns the cotangent of each argument."""
        cotangents: list[Cotangent] = [
            [None] * len(arg.fields) if isinstance(arg, Tuple) else None for arg in self.call.args
        ]
        for derivative in self.derivatives:
            value = (
                None if derivative.reads is None else self._call(derivative, derivative.reads, None)
            )
            argument = derivative.path[0]
            if len(derivative.path) > 1:
                if not isinstance(cotangents[argument], list):  # a tuple variable
                    cotangents[argument] = [None] * _members(self.derivatives, argument)
                cotangents[argument][derivative.path[1]] = value
            else:
                cotangents[argument] = value
        return [tuple(b) if isinstance(b, list) else b for b in cotangents]

    def _call(
        self, derivative: PartialDerivative, reads: tuple[str, ...], part: str | None
    ) -> Expr:
        read = [self._tensor(derivative, name) for name in reads]
        definition: Any = ADJOINT.definition
        static = {**definition.attributes_for(self.call), "by": derivative.path, "reads": reads}
        if part is not None:
            static["part"] = part
        call: Call = definition.bind((*self.call.args, *read), static, self.call.span)
        return self.emit(call)

    def _tensor(self, derivative: PartialDerivative, name: str) -> Expr:
        """Returns a result, its cotangent, or a part, by its name in the adjoint."""
        kind, _, number = name.rpartition(" ")
        if kind not in ("result", "gradient"):
            return self._call(derivative, derivative.parts[name], name)
        if name not in self.tensors:
            self.tensors[name] = self._of_result(kind, int(number))
        return self.tensors[name]

    def _of_result(self, kind: str, number: int) -> Expr:
        cotangent = component(self.cotangent, number, self.emit) if kind == "gradient" else None
        if cotangent is not None:
            return cotangent  # type: ignore[no-any-return]
        value: Expr = component(self.result, number, self.emit)
        return value if kind == "result" else self.emit(zeros(value))


def _members(derivatives: Sequence[PartialDerivative], argument: int) -> int:
    return 1 + max(
        derivative.path[1] for derivative in derivatives if derivative.path[0] == argument
    )


@attrs.frozen(eq=False)
class Tape:
    """Reverse mode over an expression tree: the value and the cotangent of each node, by id."""

    emit: Emit
    atoms: dict[int, Expr] = attrs.Factory(dict)
    cotangents: dict[int, Cotangent] = attrs.Factory(dict)

    def add(self, expr: Expr, cotangent: Cotangent) -> None:
        """Accumulates a cotangent of an expression."""
        self.cotangents[id(expr)] = _sum(self.cotangents.get(id(expr)), cotangent, self.emit)

    def atom(self, expr: Expr) -> Expr:
        """Returns the bound value of a node."""
        bound = self.atoms.get(id(expr))
        if bound is not None:
            return bound
        value = self._bind(expr)
        self.atoms[id(expr)] = value
        return value

    def _bind(self, expr: Expr) -> Expr:
        match expr:
            case Call():
                return self.emit(self.call(expr))
            case Tuple(fields) if fields:  # an empty tuple is an omitted operand
                return replace(expr, fields=tuple([self.atom(f) for f in fields]))
            case TupleGetItem(value, index):
                return self.emit(replace(expr, tuple_value=self.atom(value), index=index))
        return expr

    def call(self, call: Call) -> Call:
        """Returns a call over bound values."""
        return replace(call, args=tuple([self.atom(arg) for arg in call.args]))


def _sum(a: Cotangent, b: Cotangent, emit: Emit) -> Cotangent:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple) or isinstance(b, tuple):
        count = len(a if isinstance(a, tuple) else b)
        pairs = [(component(a, k, emit), component(b, k, emit)) for k in range(count)]
        return tuple([_sum(x, y, emit) for x, y in pairs])
    return emit(a + b)


def _decomposed_adjoints(
    parts: Expr, call: Call, result: Expr, cotangent: Cotangent, emit: Emit
) -> list[Cotangent]:
    tape = Tape(emit)
    nodes = list(_after_operands(parts, {id(arg) for arg in call.args}))
    _bind_results(parts, result, tape)
    tape.add(parts, cotangent)
    for expr in reversed(nodes):
        if id(expr) in tape.cotangents and type(expr) in STEPS:
            STEPS[type(expr)](expr, tape)
    return [_collect(arg, tape) for arg in call.args]


def _bind_results(parts: Expr, result: Expr, tape: Tape) -> None:
    """Binds the results of the call, so that the decomposition does not recompute them."""
    if isinstance(parts, Tuple):
        for k, field in enumerate(parts.fields):
            if isinstance(field, Call):
                tape.atoms[id(field)] = component(result, k, tape.emit)
    elif isinstance(parts, Call):
        tape.atoms[id(parts)] = result


def _collect(arg: Expr, tape: Tape) -> Cotangent:
    total = tape.cotangents.pop(
        id(arg), None
    )  # an operand that occurs twice gets its cotangent once
    if not isinstance(arg, Tuple):
        return total
    fields = tuple([_collect(field, tape) for field in arg.fields])
    return _sum(total, fields if _has_cotangent(fields) else None, tape.emit)


def _after_operands(expr: Expr, leaves: set[int]) -> Iterator[Expr]:
    """Yields every expression of a tree once, in post-order, without the children of `leaves`."""
    visited: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, is_visited = stack.pop()
        if is_visited:
            yield node
        elif id(node) not in visited:
            visited.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in _operands(node) if id(node) not in leaves]


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
    cotangent, result = tape.cotangents[id(call)], tape.atom(call)
    cotangents = definition.adjoint(tape.call(call), result, cotangent, tape.emit)
    for arg, value in zip(call.args, cotangents, strict=True):
        tape.add(arg, value)


def _tuple_step(expr: Tuple, tape: Tape) -> None:
    cotangent = tape.cotangents[id(expr)]
    for k, field in enumerate(expr.fields):
        tape.add(field, component(cotangent, k, tape.emit))


def _field_step(expr: TupleGetItem, tape: Tape) -> None:
    info = tape.atom(expr.tuple_value).struct_info
    cotangent = [None] * len(fields_of(info))
    cotangent[expr.index] = tape.cotangents[id(expr)]
    tape.add(expr.tuple_value, tuple(cotangent))


STEPS: dict[type, Callable[[Any, Tape], None]] = {
    Call: _call_step,
    Tuple: _tuple_step,
    TupleGetItem: _field_step,
}


@attrs.frozen(eq=False)
class BoundValues:
    """An eager evaluator: binds variables to the values of expressions."""

    empty_call: Call  # a call without arguments
    values: dict[int, Any] = attrs.Factory(dict)
    alive: list[Expr] = attrs.Factory(list)  # prevents reuse of ids, which are the keys of `values`

    def bind(self, value: Any, like: StructInfo | None) -> Cotangent:
        """Binds a value, or a tuple of values, to new variables."""
        if value is None:
            return None
        if isinstance(value, tuple):
            return tuple([self.bind(v, f) for v, f in zip(value, fields_of(like), strict=True)])
        return self.variable(value, TensorStructInfo(tuple(value.shape), value.dtype.name))

    def variable(self, value: Any, info: StructInfo) -> Var:
        """Binds a value to a new variable."""
        var = Var("value", info)
        self.values[id(var)] = value
        self.alive.append(var)
        return var

    def emit(self, expr: Expr) -> Expr:
        """Evaluates an expression and binds the value to a variable."""
        if isinstance(expr, Var):
            return expr
        self.alive.append(expr)
        return self.variable(self.value(expr), expr.struct_info or OBJECT)

    def value(self, expr: Cotangent) -> Any:
        """Evaluates an expression."""
        if expr is None:
            return None
        if isinstance(expr, tuple):
            return tuple([self.value(e) for e in expr])
        self.alive.append(expr)
        return tree_value(expr, self.empty_call, (), self.values)


def gradients(
    definition: SignatureOpDefinition, call: Call, values: tuple[Any, ...], cotangent: Any
) -> Sequence[Any]:
    """Returns the cotangent of each argument of a call at `values` for a cotangent of its result.

    Each has the shape of the argument's value; a zero cotangent is None.
    """
    concrete_call = concrete(definition, call, values)
    evaluator = BoundValues(Call(call.op, ()))
    tree_value(EMPTY_TUPLE, concrete_call, values, evaluator.values)
    result = evaluator.variable(
        definition.reference(concrete_call, values), concrete_call.struct_info or OBJECT
    )
    variables = evaluator.bind(cotangent, concrete_call.struct_info)
    return [
        evaluator.value(b)
        for b in definition.adjoint(concrete_call, result, variables, evaluator.emit)
    ]
