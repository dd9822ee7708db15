"""Gradients of calls in NumPy, from the adjoints of their index specs or through their parts: what
every other gradient is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Call, Expr, Tuple, TupleGetItem
from structir.lazy import lazy_module
from structir.ops.clauses import index_spec
from structir.ops.reference import at_path, concrete, tree_value
from structir.projections.adjoint import adjoint
from structir.projections.run import run
from structir.projections.spec import IndexSpec

if TYPE_CHECKING:
    from structir.ops.define import OpDefinition

np = lazy_module("numpy")

Array = Any
Gradient = Any  # shaped like the value it belongs to: an array, a tuple of gradients, or None


def gradients(
    definition: OpDefinition, call: Call, values: tuple[Any, ...], back: Gradient
) -> list[Gradient]:
    """For each argument of a call, the gradient of a number that has gradient `back` by the result.

    None for arguments that have none: integers, shapes, tensors that are only read for their
    sizes."""
    bare = concrete(definition, call, values)
    parts = definition.decompose(bare)
    if parts is not None:
        return _through(parts, bare, values, back)
    spec = index_spec(definition, bare)
    if spec is None or not spec.computes:
        text = "it has no gradient: its body is no expression at one point"
        raise DiagnosticError(Diagnostic(text, call.span, definition.name))
    return _of_spec(spec, bare, values, back)


def _of_spec(
    spec: IndexSpec, call: Call, values: tuple[Any, ...], back: Gradient
) -> list[Gradient]:
    operands = [at_path(values, info.path) for info in spec.operands]
    returned = list(back) if isinstance(back, tuple) else [back]
    results = run(spec, operands)
    found: list[Gradient] = [_empty(arg) for arg in call.args]
    for k, info in enumerate(spec.operands):
        made = operand_gradient(spec, k, operands, results, returned)
        if len(info.path) > 1:
            found[info.path[0]][info.path[1]] = made
        else:
            found[info.path[0]] = made
    return [tuple(g) if isinstance(g, list) else g for g in found]


def _empty(arg: Expr) -> Gradient:
    return [None] * len(arg.fields) if isinstance(arg, Tuple) else None


def operand_gradient(
    spec: IndexSpec,
    operand: int,
    operands: Sequence[Array],
    results: Sequence[Array],
    back: Sequence[Array],
) -> Array | None:
    """The gradient by one operand of a spec, from those of its results."""
    found = adjoint(spec, operand)
    if found is None or any(g is None for g in back):
        return None
    helpers = [run(h.spec, [*operands, *results])[0] for h in found.helpers]
    return run(found.spec, [*operands, *results, *back, *helpers])[0]


# Composites: backwards over the tree of their parts.


@attrs.frozen(eq=False)
class Tape:
    """The values of a tree, and the gradients as they are handed back."""

    known: dict[int, Any]
    back: dict[int, Gradient]

    def add(self, expr: Expr, gradient: Gradient) -> None:
        """One more contribution to an expression."""
        self.back[id(expr)] = _sum(self.back.get(id(expr)), gradient)


def _sum(a: Gradient, b: Gradient) -> Gradient:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple([_sum(x, y) for x, y in zip(a, b, strict=True)])
    return a + b


def _through(parts: Expr, call: Call, values: tuple[Any, ...], back: Gradient) -> list[Gradient]:
    tape = Tape({}, {})
    tree_value(parts, call, values, tape.known)
    tape.add(parts, back)
    for expr in reversed(list(_after_operands(parts))):
        if id(expr) in tape.back and type(expr) in STEPS:
            STEPS[type(expr)](expr, tape)
    return [_collected(arg, tape) for arg in call.args]


def _collected(arg: Expr, tape: Tape) -> Gradient:
    own = tape.back.get(id(arg))
    if not isinstance(arg, Tuple) or own is not None:
        return own
    return tuple([_collected(field, tape) for field in arg.fields])


def _after_operands(expr: Expr) -> Iterator[Expr]:
    """Every expression of a tree once, operands first."""
    seen: set[int] = set()
    todo: list[tuple[Expr, bool]] = [(expr, False)]
    while todo:
        node, ready = todo.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            todo.append((node, True))
            todo += [(child, False) for child in _operands(node)]


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
    values = tuple([tape.known[id(arg)] for arg in call.args])
    for arg, gradient in zip(
        call.args, gradients(definition, call, values, tape.back[id(call)]), strict=True
    ):
        tape.add(arg, gradient)


def _tuple_step(expr: Tuple, tape: Tape) -> None:
    for field, gradient in zip(expr.fields, tape.back[id(expr)], strict=True):
        tape.add(field, gradient)


def _field_step(expr: TupleGetItem, tape: Tape) -> None:
    own = tape.known[id(expr.tuple_value)]
    back = [np.zeros_like(v) for v in own]
    back[expr.index] = tape.back[id(expr)]
    tape.add(expr.tuple_value, tuple(back))


STEPS: dict[type, Callable[[Any, Tape], None]] = {
    Call: _call_step,
    Tuple: _tuple_step,
    TupleGetItem: _field_step,
}
