"""Constraints of calls of functions, and of loops over them.

A call applies the scheme of its callee. Where that is not complete, since ops of the callee wait
for the ranks of operands or call a parameter, the call inlines a copy of the callee's body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from structir.analysis.substitution import Substitution
from structir.ir.expr import Binding, Call, Expr, Function, GlobalVar, SeqExpr, Var
from structir.ir.struct_info import OBJECT, StructInfo
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.reasons import Origin
from structir.solver.domains.terms import RowVar
from structir.solver.program.generalisation import loop_scheme
from structir.solver.program.value_trees import Tree, leaves, values_of
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import ConstraintSolver, Value

NO_BODIES: Mapping[str, Function] = {}
MAX_INLINED = 1024  # bindings per function


class Generator(Protocol):
    """The constraint generator of the function that contains the calls."""

    solver: ConstraintSolver
    functions: Mapping[str, Scheme]
    trees: dict[Var, Tree]

    def tree_of(self, expr: Expr) -> Tree:
        """Returns the values of an operand."""

    def new_values(self, name: str, info: StructInfo | None, origin: Origin) -> Tree:
        """Creates values with the axes of a StructInfo."""

    def annotate(self, tree: Tree, info: StructInfo, origin: Origin) -> None:
        """Asserts that a value has this StructInfo."""

    def sequence(self, body: SeqExpr) -> None:
        """Adds the constraints of the bindings of a sequence."""

    def apply_scheme(
        self, var: Var, call: Call, args: Sequence[Expr], scheme: Scheme, origin: Origin
    ) -> Tree:
        """Adds a call that a scheme describes completely."""


class FunctionCalls:
    """The calls of one function."""

    def __init__(self, generator: Generator, bodies: Mapping[str, Function]) -> None:
        self.generator = generator
        self.bodies = bodies  # of the functions with incomplete schemes
        self.callees: dict[Var, GlobalVar] = {}  # variables that are functions of the module
        self.inlining: list[str] = []
        self.inlined = 0

    def callee(self, expr: Expr) -> GlobalVar | None:
        """Returns the solved function of the module that an expression is, or None."""
        if isinstance(expr, Var):
            return self.callees.get(expr)
        known = isinstance(expr, GlobalVar) and expr.name in self.generator.functions
        return expr if known else None  # type: ignore[return-value]

    def bind(self, binding: Binding) -> None:
        """Records a variable that is a function of the module."""
        callee = self.callee(binding.value)
        if callee is not None:
            self.callees[binding.var] = callee

    def visit(self, var: Var, call: Call, origin: Origin) -> Tree:
        """Adds the constraints of a call of a function of the module; returns its result."""
        callee = self.callee(call.op)
        assert callee is not None
        function = self._body(callee, len(call.args))
        if function is None:
            scheme = self.generator.functions[callee.name]
            return self.generator.apply_scheme(var, call, call.args, scheme, origin)
        for param, arg in zip(function.params, call.args, strict=True):
            passed = self.callee(arg)
            if passed is not None:
                self.callees[param] = passed
        operands = tuple([self.generator.tree_of(arg) for arg in call.args])
        result = self._inline(callee.name, function, operands, origin)
        self.generator.annotate(result, call.struct_info or OBJECT, origin)
        return result

    def visit_loop(self, var: Var, call: Call, body: Expr, states: int, origin: Origin) -> Tree:
        """Adds the constraints of a loop over a function whose first parameters are states."""
        generator, callee = self.generator, self.callee(body)
        if callee is None:
            return generator.new_values(var.name, call.struct_info, origin)
        before = generator.tree_of(call.args[1])
        function = self._body(callee, None)
        if function is not None and isinstance(before, tuple):
            tree = self._inline_loop(var, call, function, before, origin)
            if tree is not None:
                return tree
        scheme = generator.functions[callee.name]
        count = len(list(leaves(before))) if isinstance(before, tuple) else states
        if min(len(scheme.operands), len(scheme.results)) <= count:
            return generator.new_values(var.name, call.struct_info, origin)
        return generator.apply_scheme(var, call, call.args[1:], loop_scheme(scheme, count), origin)

    def _body(self, callee: GlobalVar, count: int | None) -> Function | None:
        """Returns a copy of a callee to inline, or None if its scheme is applied."""
        function = self.bodies.get(callee.name)
        if function is None or callee.name in self.inlining:
            return None
        size = sum(1 for _ in function.bindings())
        if self.inlined + size > MAX_INLINED or count not in (None, len(function.params)):
            return None
        self.inlined += size
        copy: Function = Substitution(fresh=True).function(function)
        return copy

    def _inline(
        self, name: str, function: Function, operands: tuple[Tree, ...], origin: Origin
    ) -> Tree:
        """Adds the constraints of a body for these operands; returns the values of its result."""
        generator = self.generator
        count = len(generator.trees)
        self.inlining.append(name)
        try:
            for param, tree in zip(function.params, operands, strict=True):
                generator.trees[param] = tree
                generator.annotate(tree, param.struct_info, origin)
            generator.sequence(function.body)
            result = generator.tree_of(function.body.body)
            generator.annotate(result, function.ret_struct_info, origin)
        finally:
            self.inlining.pop()
            for var in list(generator.trees)[count:]:
                del generator.trees[var]
        return result

    def _inline_loop(
        self, var: Var, call: Call, function: Function, before: tuple[Tree, ...], origin: Origin
    ) -> Tree:
        """Adds one step of a loop, whose states keep their rows; None if it does not fit."""
        generator, solver = self.generator, self.generator.solver
        x = generator.tree_of(call.args[2])
        captured = generator.tree_of(call.args[3]) if len(call.args) > 3 else ()
        results = values_of(var.name, call.struct_info)
        if not isinstance(x, Value) or not isinstance(captured, tuple):
            return None
        steps, row, element = fresh("steps"), RowVar("element"), Value("element")
        operands = (*before, element, *captured)
        if len(operands) != len(function.params) or not isinstance(results, tuple):
            return None
        solver.assert_shape(x, (steps, row), origin)
        solver.assert_shape(element, (row,), origin)
        step = self._inline(getattr(call.args[0], "name", "loop"), function, operands, origin)
        if not isinstance(step, tuple) or len(step) != len(results):
            return None
        count = len(before)
        for value, after in zip(leaves(before), leaves(step[:count]), strict=True):
            solver.assert_shape(after, solver.row(value), origin)
        for value, output in zip(leaves(results[count:]), leaves(step[count:]), strict=True):
            solver.assert_shape(value, (steps, *solver.row(output)), origin)
        return (*before, *results[count:])
