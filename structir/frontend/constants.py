"""Expressions that consist of constants, and their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.builder import NodeBuilder
from structir.interpret.interpreter import Interpreter
from structir.interpret.scope import Activation
from structir.ir.dims import Poly
from structir.ir.expr import Call, Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem
from structir.ir.module import IRModule


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


class ConstantFolder:
    """An importer that evaluates expressions of constants."""

    builder: NodeBuilder

    def fold_constant(self, value: Expr) -> Expr:
        """Returns the value of an expression of constants as a constant; other values unchanged."""
        if not all_constant(value):
            return value
        evaluated = Interpreter(IRModule({})).value(
            self.builder.aside(lambda: value), Activation({}, {})
        )
        return Constant(np.asarray(evaluated))
