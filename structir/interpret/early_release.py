"""An interpreter that releases the memory of values after their last use."""

from __future__ import annotations

import attrs

from structir.analysis.variables import variables_in, walk_values
from structir.interpret.interpreter import Frame, Interpreter
from structir.interpret.scope import Activation, Closure, Value
from structir.ir.expr import Binding, Function, SeqExpr, Var
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo

Dead = dict[int, tuple[Var, ...]]  # by the id of a binding, the variables that it uses last


@attrs.frozen(eq=False)
class ReleasingInterpreter(Interpreter):
    """Runs functions with the memory of live values only, which NumPy allocates again from cache.

    It keeps the values of variables that nested functions mention.
    """

    functions: dict[int, Function] = attrs.field(factory=dict, init=False)  # by id
    dead: Dead = attrs.field(factory=dict, init=False)  # in these functions

    def entered(self, closure: Closure, args: tuple[Value, ...]) -> Frame:
        """Returns the frame of a call."""
        function = closure.function
        if id(function) not in self.functions:
            self.dead.update(dead_variables(function))
            self.functions[id(function)] = function
        return super().entered(closure, args)

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        super()._bind(binding, value, scope)
        for var in self.dead.get(id(binding), ()):
            scope.values.pop(var, None)


def dead_variables(function: Function) -> Dead:
    """Returns the variables of a function that each binding uses last."""
    dead: Dead = {}
    for item in walk_values(function):
        if isinstance(item, SeqExpr):
            dead |= _dead_in(item)
    return dead


def _dead_in(seq: SeqExpr) -> Dead:
    bindings = seq.bindings()
    last = {binding.var: binding for binding in bindings}
    kept = set(variables_in(seq.body))
    for binding in bindings:
        used = variables_in((binding.value, getattr(binding, "struct_info", None)))
        last.update(dict.fromkeys([var for var in used if var in last], binding))
        functions = [n for n in walk_values(binding.value) if isinstance(n, Function)]
        kept |= variables_in(tuple(functions)).keys()
    dead: dict[int, list[Var]] = {}
    for var, binding in last.items():
        if var not in kept and isinstance(var.struct_info, TensorStructInfo | TupleStructInfo):
            dead.setdefault(id(binding), []).append(var)
    return {key: tuple(variables) for key, variables in dead.items()}
