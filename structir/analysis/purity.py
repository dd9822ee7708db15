"""Purity: whether evaluating an expression has side effects."""

from __future__ import annotations

from structir.analysis.declaration import analysis
from structir.ir.expr import Call, Expr, Function, If, SeqExpr
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo

FORCE_PURE = "force_pure"  # attribute: effects of the function are local to it


def is_pure_call(call: Call) -> bool:
    """Returns whether a call has no side effect, by the op's definition or the callee's type."""
    if isinstance(call.op, Op):
        return call.op.definition.pure
    info = call.op.struct_info
    return isinstance(info, FuncStructInfo) and info.purity


@analysis
def is_pure_value(value: Expr) -> bool:
    """Returns whether evaluating a bound value has no side effect; a function value has none."""
    match value:
        case Call():
            return is_pure_call(value)
        case If():
            return is_pure(value.true_branch) and is_pure(value.false_branch)
        case _:
            return True


@analysis
def is_pure(body: Function | SeqExpr) -> bool:
    """Returns whether all calls of a body are pure; bodies of nested functions are not included."""
    todo = [body.body if isinstance(body, Function) else body]
    while todo:
        for binding in todo.pop().bindings():
            value = binding.value
            if isinstance(value, If):
                todo += [value.true_branch, value.false_branch]
            elif isinstance(value, Call) and not is_pure_call(value):
                return False
    return True
