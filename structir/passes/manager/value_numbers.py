"""Numbers the values of a program, so that equal numbers in two programs are equal expressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op

MOST_HASHED = 1 << 10  # elements of a constant


def value_numbers(module: IRModule, name: str) -> list[tuple[Call, int]]:
    """Returns each call of an op or of a function of the module that a function may run, with its
    number.

    A number is a hash of the op, its attributes and the numbers of its operands; a variable in a
    function is numbered by the position of the parameter and the name of the function.
    """
    numbering = _Numbering(module)
    numbering.global_function(name)
    return numbering.calls


def calls_differ(before: IRModule, after: IRModule, name: str) -> bool:
    """Whether one of two programs has a call that the other one has not."""
    numbers = [{number for _, number in value_numbers(m, name)} for m in (before, after)]
    return numbers[0] != numbers[1]


class _Numbering:
    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.numbers: dict[Var, int] = {}
        self.functions: dict[str, int] = {}
        self.calls: list[tuple[Call, int]] = []

    def global_function(self, name: str) -> int:
        """Returns the number of a function of the module; that of its name inside of itself."""
        if name not in self.functions:
            self.functions[name] = hash(name)
            function = self.module.functions.get(name)
            if isinstance(function, Function):
                self.functions[name] = hash((name, self.function(function, name)))
            elif isinstance(function, Kernel):
                self.functions[name] = hash(function.script())
        return self.functions[name]

    def function(self, function: Function, name: str) -> int:
        for index, param in enumerate(function.params):
            self.numbers[param] = hash((name, index))
        return self.sequence(function.body)

    def sequence(self, seq: SeqExpr) -> int:
        for binding in seq.bindings():
            number = self.value(binding.value)
            cast = str(binding.struct_info) if isinstance(binding, MatchCast) else ""
            self.numbers[binding.var] = hash((number, cast)) if cast else number
        return self.value(seq.body)

    def value(self, value: Expr) -> int:
        kind = type(value)
        if isinstance(value, Var):
            return self.numbers.get(value, 0)
        if kind is Call:
            return self._call(value)
        if isinstance(value, Constant):
            return _constant(value.data)
        if isinstance(value, Tuple):
            return hash(tuple([self.value(field) for field in value.fields]))
        if isinstance(value, TupleGetItem):
            return hash((self.value(value.tuple_value), value.index))
        if isinstance(value, If):
            branches = [self.sequence(b) for b in (value.true_branch, value.false_branch)]
            return hash((self.value(value.cond), *branches))
        if isinstance(value, Function):
            return self.function(value, "function")
        if isinstance(value, GlobalVar):
            return self.global_function(value.name)
        return hash(str(value.dims if isinstance(value, ShapeExpr) else value))

    def _call(self, call: Any) -> int:
        operands = tuple([self.value(arg) for arg in call.args])
        is_op = type(call.op) is Op
        callee = call.op.name if is_op else self.value(call.op)
        attributes = str(sorted(call.attrs.items())) if call.attrs else ""
        number = hash((callee, attributes, operands))
        if is_op or isinstance(call.op, GlobalVar):
            self.calls.append((call, number))
        return number


def _constant(data: Any) -> int:
    if np.size(data) > MOST_HASHED:
        return id(data)
    return hash((str(data.dtype), np.shape(data), np.asarray(data).tobytes()))
