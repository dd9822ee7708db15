"""A predicate for expressions that consist of constants."""

from __future__ import annotations

from typing import Any

from structir.ir.dims import Poly
from structir.ir.expr import Call, Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem


def all_constant(value: Expr) -> bool:
    """Returns whether an expression depends on constants only."""
    todo: list[Any] = [value]
    while todo:
        part = todo.pop()
        match part:
            case Call():
                todo += part.args
            case Tuple():
                todo += part.fields
            case TupleGetItem():
                todo.append(part.tuple_value)
            case PrimValue(value=Poly()):
                return False
            case ShapeExpr():
                if any(isinstance(d, Poly) for d in part.dims):
                    return False
            case Constant() | PrimValue():
                pass
            case _:
                return False
    return True
