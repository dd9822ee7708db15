"""Whether evaluating an expression has effects beyond its value."""

from __future__ import annotations

from structir.ir.expr import Call, Expr, Function, If, SeqExpr
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo

FORCE_PURE = "force_pure"  # says of a function that its effects are on memory of its own alone


def is_pure_call(call: Call) -> bool:
    """Whether a call has no effect: the op's own word, or the purity of the callee's type."""
    if isinstance(call.op, Op):
        return call.op.definition.pure
    info = call.op.struct_info
    return isinstance(info, FuncStructInfo) and info.purity


def is_pure_value(value: Expr) -> bool:
    """Whether binding this value has no effect; a function that is only named or made has none."""
    match value:
        case Call():
            return is_pure_call(value)
        case If():
            return is_pure(value.true_branch) and is_pure(value.false_branch)
        case _:
            return True


def is_pure(body: Function | SeqExpr) -> bool:
    """Whether every call that runs with the body is pure; bodies of nested functions do not run
    with it."""
    todo = [body.body if isinstance(body, Function) else body]
    while todo:
        for binding in todo.pop().bindings():
            value = binding.value
            if isinstance(value, If):
                todo += [value.true_branch, value.false_branch]
            elif isinstance(value, Call) and not is_pure_call(value):
                return False
    return True
