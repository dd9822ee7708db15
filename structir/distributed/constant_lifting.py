"""Lifts large constants to parameters, so that a shard receives only its blocks of them."""

from __future__ import annotations

from typing import Any

from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    Function,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.node import rebuild, replace

SMALL = 16  # elements; smaller constants are copied to every shard
PROGRAM = (SeqExpr, BindingBlock, Binding, Call, Tuple, TupleGetItem, If)


def lift_constants(function: Function) -> tuple[Function, dict[str, Any]]:
    """Returns the function with large constants as additional parameters, and their arrays by name.

    Equal small constants become one node, as the printed program does not distinguish them.
    """
    used_names = {param.name for param in function.params}
    lifted: dict[int, Var] = {}
    arrays: dict[str, Any] = {}
    small: dict[Any, Constant] = {}

    def visit(part: Any) -> Any:
        if isinstance(part, Constant):
            data = part.data
            if data.size > SMALL:
                return parameter(part)
            return small.setdefault((str(data.dtype), data.shape, data.tobytes()), part)
        return rebuild(part, visit) if isinstance(part, PROGRAM) else part

    def parameter(constant: Constant) -> Var:
        if id(constant.data) not in lifted:
            name = f"constant{len(lifted)}"
            while name in used_names:
                name += "_"
            lifted[id(constant.data)] = Var(name, constant.struct_info)
            arrays[name] = constant.data
        return lifted[id(constant.data)]

    body = visit(function.body)
    return replace(function, params=(*function.params, *lifted.values()), body=body), arrays
