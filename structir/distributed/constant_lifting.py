"""Constants of a program as parameters, so that a shard receives only its blocks of them."""

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

SMALL = 16  # elements of a constant that every shard keeps, instead of receiving its block
PROGRAM = (SeqExpr, BindingBlock, Binding, Call, Tuple, TupleGetItem, If)


def lifted(function: Function) -> tuple[Function, dict[str, Any]]:
    """The function with every large constant a parameter after its own, and their arrays by
    name; small ones that are equal are one, as its text does not tell which were."""
    taken = {param.name for param in function.params}
    made: dict[int, Var] = {}
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
        if id(constant.data) not in made:
            name = f"constant{len(made)}"
            while name in taken:
                name += "_"
            made[id(constant.data)] = Var(name, constant.struct_info)
            arrays[name] = constant.data
        return made[id(constant.data)]

    body = visit(function.body)
    return replace(function, params=(*function.params, *made.values()), body=body), arrays
