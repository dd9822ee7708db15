"""Constraints of calls of functions, and of loops over them.

A call applies the scheme of its callee. Where that is not complete, since ops of the callee wait
for the ranks of operands or call a parameter, the call inlines a copy of the callee's body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from structir.analysis.loop_view import AxisList, LoopView, Sliced
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_symbols_in
from structir.ir.dims import Dim, as_dim
from structir.ir.dtype import DtypeVar
from structir.ir.expr import Binding, Call, Expr, Function, GlobalVar, SeqExpr, Var
from structir.ir.struct_info import OBJECT, FuncStructInfo, StructInfo
from structir.solver.constraints.constraint import Constraint
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.reasons import Origin
from structir.solver.domains.terms import RowVar
from structir.solver.program.generalisation import loop_scheme, type_scheme, with_axes
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
    labelled: bool

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
        self.closures: dict[str, tuple[Function, dict[Any, Any]]] = {}  # with the dims in scope
        self.inlining: list[str] = []
        self._dims: dict[Any, Any] = {}  # of the first `_visited` variables of the function
        self._visited = 0
        self.inlined = 0

    def callee(self, expr: Expr) -> GlobalVar | None:
        """Returns the solved function of the module that an expression is, or None."""
        if isinstance(expr, Var):
            return self.callees.get(expr)
        known = isinstance(expr, GlobalVar) and expr.name in self.generator.functions
        return expr if known else None  # type: ignore[return-value]

    def bind(self, binding: Binding) -> None:
        """Records a variable that is a function of the module."""
        if type(binding.value) is Function:
            name = f"closure {len(self.closures)}"
            self.closures[name] = binding.value, self._dims_in_scope()
            self.callees[binding.var] = GlobalVar(name, binding.value.struct_info)
            return
        callee = self.callee(binding.value)
        if callee is not None:
            self.callees[binding.var] = callee

    def _dims_in_scope(self) -> dict[Any, Any]:
        """Returns the dims of the function, which a copy of a closure does not rename."""
        trees = self.generator.trees
        for var in islice(trees, self._visited, None):
            for symbol in free_symbols_in(var.struct_info):
                if type(symbol) is not DtypeVar:
                    is_row = type(symbol) is RowVar
                    self._dims[symbol] = (symbol,) if is_row else as_dim(symbol)
        self._visited = len(trees)
        return dict(self._dims)

    def visit(self, var: Var, call: Call, origin: Origin) -> Tree:
        """Adds the constraints of a call of a function of the module; returns its result."""
        callee = self.callee(call.op)
        assert callee is not None
        function = self._body(callee, len(call.args))
        if function is None:
            scheme = self.generator.functions.get(callee.name)
            if scheme is None:  # a closure that calls itself, or is too large
                return self.generator.new_values(var.name, call.struct_info, origin)
            return self.generator.apply_scheme(var, call, call.args, scheme, origin)
        for param, arg in zip(function.params, call.args, strict=True):
            passed = self.callee(arg)
            if passed is not None:
                self.callees[param] = passed
        operands = tuple([self.generator.tree_of(arg) for arg in call.args])
        result = self._inline(callee.name, function, operands, origin)
        self.generator.annotate(result, call.struct_info or OBJECT, origin)
        return result

    def visit_loop(self, var: Var, call: Call, view: LoopView, origin: Origin) -> Tree:
        """Adds the constraints of a function that is applied to slices of operands."""
        generator, callee = self.generator, self.callee(view.body)
        operands = [tree_at(generator.tree_of(call.args[s.path[0]]), s) for s in view.operands]
        if None in operands:
            return generator.new_values(var.name, call.struct_info, origin)
        function = None if callee is None else self._body(callee, len(operands))
        if function is not None:
            tree = self._inline_loop(var, call, function, (view, operands), origin)
            if tree is not None:
                return tree
        states = list(leaves(tuple(operands[: view.states])))
        scheme = self._loop_scheme(callee, view, operands, len(states))
        results = values_of(var.name, call.struct_info)
        values = list(leaves(results))
        if scheme is not None and len(values) == len(scheme.results):
            generator.solver.apply(scheme, list(leaves(tuple(operands))), values, origin)
            return results
        results = generator.new_values(var.name, call.struct_info, origin)
        for value, state in zip(leaves(results), states, strict=False):
            generator.solver.assert_shape(value, generator.solver.row(state), origin)
        return results

    def _loop_scheme(
        self, callee: GlobalVar | None, view: LoopView, operands: Sequence[Tree], states: int
    ) -> Scheme | None:
        """Returns the scheme of a loop over a function, or over one of which the type is known."""
        info, cell = view.body.struct_info, None
        if callee is not None:
            cell = self.generator.functions.get(callee.name)
        elif isinstance(info, FuncStructInfo) and info.params is not None:
            cell = type_scheme(info, self.generator.labelled)
        pairs = zip(view.operands, operands, strict=True)
        axes = [sliced.axes for sliced, tree in pairs for _ in leaves(tree)]
        if cell is None or len(cell.operands) != len(axes) or len(cell.results) < states:
            return None
        return loop_scheme(cell, axes, states, view.stacked)

    def _body(self, callee: GlobalVar, count: int | None) -> Function | None:
        """Returns a copy of a callee to inline, or None if its scheme is applied."""
        function, scope = self.closures.get(callee.name, (self.bodies.get(callee.name), None))
        if function is None or callee.name in self.inlining:
            return None
        size = sum(1 for _ in function.bindings())
        if self.inlined + size > MAX_INLINED or count not in (None, len(function.params)):
            return None
        self.inlined += size
        copy: Function = Substitution(dims=scope, fresh=True).function(function)
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
            while len(generator.trees) > count:
                generator.trees.popitem()
            self._visited = min(self._visited, count)
        return result

    def _inline_loop(
        self,
        var: Var,
        call: Call,
        function: Function,
        operands: tuple[LoopView, Sequence[Tree]],
        origin: Origin,
    ) -> Tree:
        """Adds one step of a loop, whose states keep their rows; None if it does not fit."""
        solver = self.generator.solver
        (view, trees), results = operands, values_of(var.name, call.struct_info)
        sizes = tuple([fresh("steps") for _ in range(max([len(s.axes) for s in view.operands]))])
        slices = [
            self._slice(tree, s.axes, sizes, origin) if s.axes else tree
            for s, tree in zip(view.operands, trees, strict=True)
        ]
        step = self._inline(getattr(view.body, "name", "loop"), function, tuple(slices), origin)
        after, values = list(leaves(step)), list(leaves(results))
        before = list(leaves(tuple(trees[: view.states])))
        if not len(before) <= len(after) == len(values):
            return None
        for start, end, value in zip(before, after, values, strict=False):
            solver.assert_shape(end, solver.row(start), origin)
            solver.assert_shape(value, solver.row(start), origin)
        count = len(before)
        for end, value in zip(after[count:], values[count:], strict=True):
            self._assert_with_axes(value, end, view.stacked, sizes, origin)
        return results

    def _slice(self, tree: Tree, axes: AxisList, sizes: Sequence[Dim], origin: Origin) -> Tree:
        """Returns the values of slices of operands without these axes."""
        if tree is None or isinstance(tree, tuple):
            return tree and tuple([self._slice(t, axes, sizes, origin) for t in tree])
        element = Value("element")
        self.generator.solver.assert_shape(element, (RowVar("element"),), origin)
        self._assert_with_axes(tree, element, axes, sizes, origin)
        return element

    def _assert_with_axes(
        self, whole: Value, part: Value, axes: AxisList, sizes: Sequence[Dim], origin: Origin
    ) -> None:
        """Asserts that a value has the axes of another one and these."""
        solver, equations = self.generator.solver, list[Constraint]()
        row = with_axes(solver.row(part), axes, sizes, equations)
        for equation in equations:
            solver.add(equation, origin)
        if row is not None:
            solver.assert_shape(whole, row, origin)


def tree_at(tree: Tree, sliced: Sliced) -> Tree:
    """Returns the values of an operand of a loop; None where its structure is unknown."""
    for member in sliced.path[1:]:
        tree = tree[member] if isinstance(tree, tuple) and member < len(tree) else None
    return tree
