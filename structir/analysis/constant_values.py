"""The variables of a program that are bound to constants, and to tuples with constants."""

from __future__ import annotations

from structir.analysis.variables import walk_values
from structir.ir.expr import Call, Constant, Expr, MatchCast, Tuple, TupleGetItem, Var, VarBinding
from structir.ir.node import replace
from structir.ir.op import Op


def _parts_of_tuple(value: Expr) -> bool:
    """Whether a value is a tuple with a constant in it, or a field of a tuple as it is written."""
    if type(value) is Tuple:
        return Constant in map(type, value.fields)
    return type(value) is TupleGetItem and type(value.tuple_value) is Tuple


class ConstantValues:
    """Maps variables to the constants that they are bound to."""

    def __init__(self) -> None:
        self.values: dict[Expr, Expr] = {}

    @classmethod
    def of(cls, program: object) -> ConstantValues:
        """Returns the constants of a module or a function."""
        constants = cls()
        for node in walk_values(program):
            if isinstance(node, VarBinding | MatchCast):
                constants.bind(node.var, node.value)
        return constants

    def bind(self, var: Var, value: Expr) -> None:
        """Records the value of a variable if it is a constant, or a tuple with constants."""
        kind = type(value)
        if kind is Call or not (self.values or kind is Constant or _parts_of_tuple(value)):
            return
        resolved = self.resolve(value)
        if isinstance(resolved, Constant) or (
            isinstance(resolved, Tuple)
            and any(isinstance(self.resolve(field), Constant) for field in resolved.fields)
        ):
            self.values[var] = resolved

    def resolve(self, value: Expr) -> Expr:
        """Returns the expression that a value is bound to, or the value itself."""
        if isinstance(value, TupleGetItem):
            inner = self.resolve(value.tuple_value)
            return self.resolve(inner.fields[value.index]) if isinstance(inner, Tuple) else value
        return self.values.get(value, value) if isinstance(value, Var) else value

    def in_call(self, call: Call) -> Call:
        """Returns a call of an op that checks constant indices, with constants for variables."""
        definition = call.op.definition if isinstance(call.op, Op) else None
        return self.in_any_call(call) if getattr(definition, "reads_indices", False) else call

    def in_any_call(self, call: Call) -> Call:
        """Returns a call with constants for variables."""
        if not self.values:
            return call
        args = tuple(map(self._constant, call.args))
        same = all(a is b for a, b in zip(args, call.args, strict=True))
        return call if same else replace(call, args=args)

    def _constant(self, arg: Expr) -> Expr:
        """Returns the constant that an argument is, or a tuple of constants, or the argument."""
        resolved = self.resolve(arg)
        if not isinstance(resolved, Tuple):
            return resolved if isinstance(resolved, Constant) else arg
        fields = tuple(map(self._constant, resolved.fields))
        # other fields of a tuple that is bound to a variable may be out of scope
        visible = resolved is arg or all(isinstance(field, Constant) for field in fields)
        same = all(a is b for a, b in zip(fields, resolved.fields, strict=True))
        if not visible or (same and resolved is arg):
            return arg
        return Tuple(fields, resolved.names, arg.span)
