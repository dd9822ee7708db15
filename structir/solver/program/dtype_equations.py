"""Dtype equations: the dtypes of parameters that every run of a function requires.

Each tensor and scalar of a function has a dtype cell. Ops, casts and annotations equate cells or
fix them; a call copies the cells of its callee. Branches and closures add nothing: they need not
run. Open cells that several parameters and results share are a dtype variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from structir.analysis.loop_view import LoopView, Path
from structir.analysis.variables import free_vars
from structir.ir.dtype import DtypeVar, Element
from structir.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import (
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import provided_module

rules = provided_module("dtype rules")


class DtypeCell:
    """The dtype of a tensor, equal to that of every cell with the same root."""

    __slots__ = ("dtype", "parent", "variable")

    def __init__(self, dtype: str | None = None, variable: DtypeVar | None = None) -> None:
        self.dtype = dtype
        self.variable = variable  # of the function; the first one if it equates several
        self.parent: DtypeCell | None = None

    def root(self) -> DtypeCell:
        """Returns the representative of all equal cells."""
        cell = self
        while (parent := cell.parent) is not None:
            cell.parent = parent.parent or parent  # half the path, for the next call
            cell = parent
        return cell

    def equate(self, other: DtypeCell) -> None:
        """Equates two cells, unless their dtypes differ: an op then reports the first of them."""
        first, second = self.root(), other.root()
        if first is second or (first.dtype and second.dtype and first.dtype != second.dtype):
            return
        first.parent, second.dtype = second, first.dtype or second.dtype
        second.variable = second.variable or first.variable


LETTERS = "TUVWSXYZ"  # names of inferred dtype variables
Passed: TypeAlias = tuple[tuple[int, str], ...]  # indices of arguments, names of functions
Cells: TypeAlias = "DtypeCell | tuple[Cells, ...] | None"  # structured as a StructInfo


def info_of(cells: Cells) -> StructInfo | None:
    """Returns a StructInfo with only the dtypes and dtype variables of cells; None for no
    tensors."""
    if isinstance(cells, tuple):
        fields = [info_of(field) for field in cells]
        return None if None in fields else TupleStructInfo(tuple(fields))  # type: ignore[arg-type]
    if cells is None:
        return None
    root = cells.root()
    dtype: Element = root.dtype or root.variable
    return TensorStructInfo(dtype=dtype)


def dtypes_only(info: StructInfo) -> StructInfo:
    """Returns tensors of unknown rank with the dtypes of a StructInfo."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(map(dtypes_only, info.fields)))
    return TensorStructInfo(dtype=info.element) if isinstance(info, TensorStructInfo) else info


def leaves(cells: Cells) -> Iterator[DtypeCell]:
    """Yields the representatives of the cells of a value."""
    if isinstance(cells, DtypeCell):
        yield cells.root()
    for field in cells if isinstance(cells, tuple) else ():
        yield from leaves(field)


def equate(first: Cells, second: Cells) -> None:
    """Equates the cells at the same positions."""
    if isinstance(first, DtypeCell) and isinstance(second, DtypeCell):
        first.equate(second)
    elif isinstance(first, tuple) and isinstance(second, tuple):
        for a, b in zip(first, second, strict=False):
            equate(a, b)


class DtypeEquations:
    """The cells of the parameters and results of a module's functions, memoized."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.signatures: dict[Any, tuple[Sequence[Cells], Cells] | None] = {}

    def params(self, name: str) -> list[StructInfo | None]:
        """Returns the dtypes of the parameters of a function."""
        signature = self.signature(name)
        return [] if signature is None else [info_of(cells) for cells in signature[0]]

    def signature(self, name: str, passed: Passed = ()) -> tuple[Sequence[Cells], Cells] | None:
        """Returns the cells of a function; None while it is evaluated, and for other globals.

        `passed` are its arguments that are functions of the module.
        """
        if (name, passed) not in self.signatures:
            self.signatures[name, passed] = None  # for recursive calls
            function = self.module.functions.get(name)
            if isinstance(function, Kernel):
                self.signatures[name, passed] = _FunctionCells(self, {}).kernel(function)
            if isinstance(function, Function):
                callees = {function.params[k]: callee for k, callee in passed}
                self.signatures[name, passed] = _FunctionCells(self, callees).visit(function)
        return self.signatures[name, passed]


class _FunctionCells:
    """The cells of the variables of one function."""

    def __init__(self, equations: DtypeEquations, callees: Mapping[Var, str]) -> None:
        self.equations = equations
        self.callees = callees  # parameters that are functions of the module
        self.cells: dict[Expr, Cells] = {}
        self.variables: dict[DtypeVar, DtypeCell] = {}
        self.closures: dict[Var, Function] = {}
        self.active: list[Function] = []  # closures that are evaluated: calls may be recursive

    def new(self, info: StructInfo | None) -> Cells:
        """Returns the cells of a StructInfo: one for each dtype variable, new ones for others.

        The cells of a closure's variables have no variable: its scope is the closure.
        """
        if isinstance(info, TupleStructInfo):
            return tuple(map(self.new, info.fields))
        if not isinstance(info, TensorStructInfo | PrimStructInfo):
            return None
        variable = info.dtype_var
        if variable is None:
            return DtypeCell(info.dtype)
        cell = DtypeCell(None, None if self.active else variable)
        return self.variables.setdefault(variable, cell)

    def visit(self, function: Function) -> tuple[Sequence[Cells], Cells]:
        """Adds the equations of a function; returns the cells of its parameters and result."""
        params = [self.new(param.struct_info) for param in function.params]
        result = self.body(function, params)
        self.name_shared_cells(params, result)
        return params, result

    def kernel(self, kernel: Kernel) -> tuple[Sequence[Cells], Cells]:
        """Returns the cells of the operands and the results of a kernel."""
        operands = [self.new(param.struct_info) for param in kernel.operands]
        results = tuple([self.new(param.struct_info) for param in kernel.results])
        return operands, results[0] if len(results) == 1 else results

    def body(self, function: Function, params: Sequence[Cells]) -> Cells:
        """Adds the equations of a body for these parameters; returns the cells of its result."""
        self.cells.update(zip(function.params, params, strict=True))
        result = self.sequence(function.body)
        equate(result, self.new(function.ret_struct_info))
        return result

    def sequence(self, body: SeqExpr) -> Cells:
        """Adds the equations of a sequence; returns the cells of its result."""
        for binding in body.bindings():
            if isinstance(binding.value, Function):
                self.closures[binding.var] = binding.value
            value = self.of(binding.value)
            equate(value, self.new(binding.var.struct_info))
            if isinstance(binding, MatchCast):
                equate(value, self.new(binding.struct_info))
            self.cells[binding.var] = value
        return self.of(body.body)

    def name_shared_cells(self, params: Sequence[Cells], result: Cells) -> None:
        """Adds a dtype variable to each open cell that parameters share among them or with the
        result."""
        roots = [root for param in params for root in leaves(param)]
        uses = Counter([*roots, *leaves(result)])
        names = {variable.name for variable in self.variables}
        letters = (letter for letter in LETTERS if letter not in names)
        for root in dict.fromkeys(roots):
            if root.dtype is None and root.variable is None and uses[root] > 1:
                root.variable = DtypeVar(next(letters, LETTERS[0]))

    def of(self, expr: Expr) -> Cells:
        """Returns the cells of an expression."""
        match expr:
            case Var() | Constant() if expr in self.cells:
                return self.cells[expr]
            case Tuple(fields):
                return tuple(map(self.of, fields))
            case TupleGetItem(inner, index):
                cells = self.of(inner)
                return cells[index] if isinstance(cells, tuple) else self.new(expr.struct_info)
            case Call(op=Op()):
                return self._op(expr)
            case Call(op=callee):
                return self._call(expr, callee)
            case If():
                return self._conditional(expr)
        return self.new(expr.struct_info)

    def _op(self, call: Call) -> Cells:
        loop = call.op.definition.hooks.get("loop")  # type: ignore[attr-defined]
        if loop is not None:
            return self._loop(call, loop(call))
        results = self.new(call.struct_info)
        rule = rules.dtype_rule(call)
        if rule is None:
            return results
        terms: dict[Any, DtypeCell] = {}
        args = list(map(self.of, call.args))
        pairs = [(_member(args, path), term) for path, term in rule.operands]
        columns = results if isinstance(results, tuple) else (results,)
        if len(columns) == len(rule.results):
            pairs += zip(columns, rule.results, strict=True)
        for cell, term in pairs:
            if term is not None:
                dtype = None if term.is_variable else term.name
                equate(cell, terms.setdefault(term, DtypeCell(dtype)))
        return results

    def _loop(self, call: Call, view: LoopView) -> Cells:
        """Adds the equations of a loop: each step receives and returns states of equal dtypes."""
        args = list(map(self.of, call.args))
        operands = [_cells_at(args, s.path) for s in view.operands]
        results = self.new(call.struct_info)
        self._apply(view.body, operands, results)
        starts = operands[: view.states]
        for start, end in zip(leaves(tuple(starts)), leaves(results), strict=False):
            start.equate(end)
        return results

    def _call(self, call: Call, callee: Expr) -> Cells:
        results = self.new(call.struct_info)
        functions = enumerate(map(self._function_name, call.args))
        passed = tuple([(index, name) for index, name in functions if name is not None])
        self._apply(callee, [self.of(arg) for arg in call.args], results, passed)
        return results

    def _function_name(self, expr: Expr) -> str | None:
        """Returns the name of the function of the module that an expression is, or None."""
        if isinstance(expr, GlobalVar):
            return expr.name
        return self.callees.get(expr) if isinstance(expr, Var) else None

    def _apply(
        self, callee: Expr, args: Sequence[Cells], results: Cells, passed: Passed = ()
    ) -> None:
        """Equates arguments and results with copies of the callee's cells."""
        closure = self.closures.get(callee) if isinstance(callee, Var) else None
        if closure is not None:
            self._apply_closure(closure, args, results)
            return
        name = self._function_name(callee)
        signature = None if name is None else self.equations.signature(name, passed)
        if signature is None or len(args) != len(signature[0]):
            return
        copies: dict[DtypeCell, DtypeCell] = {}
        for arg, cells in zip(args, signature[0], strict=False):
            equate(arg, _copied(cells, copies))
        equate(results, _copied(signature[1], copies))

    def _apply_closure(self, closure: Function, args: Sequence[Cells], results: Cells) -> None:
        """Adds the equations of the body of a closure for one call."""
        if closure in self.active or len(args) != len(closure.params):
            return
        self.active.append(closure)
        variables = dict(self.variables)
        params = [self.new(param.struct_info) for param in closure.params]
        for param, arg in zip(params, args, strict=True):
            equate(param, arg)
        equate(results, self.body(closure, params))
        self.variables = variables  # each call instantiates those of the closure
        self.active.pop()

    def _conditional(self, expr: If) -> Cells:
        """Returns the cells of a conditional: an outer one where both branches return its dtype.

        A branch need not run, so its equations hold for copies of the cells.
        """
        sides = [self._branch(branch) for branch in (expr.true_branch, expr.false_branch)]
        results = self.new(expr.struct_info)
        equate(results, _common(*sides))
        return results

    def _branch(self, body: SeqExpr) -> Any:
        """Returns for each tensor of a branch the outer cells that have its dtype."""
        state = self.cells, self.variables, self.closures
        copies: dict[DtypeCell, DtypeCell] = {}
        self.cells = dict(self.cells)
        for var in free_vars(body):
            if var in self.cells:
                self.cells[var] = _copied(self.cells[var], copies)
        self.variables, self.closures = dict(self.variables), dict(self.closures)
        result = self.sequence(body)
        self.cells, self.variables, self.closures = state
        return _outer_cells(result, copies)


def _outer_cells(cells: Cells, copies: Mapping[DtypeCell, DtypeCell]) -> Any:
    """Returns the cells whose copies are equated with these."""
    if isinstance(cells, tuple):
        return tuple([_outer_cells(field, copies) for field in cells])
    root = None if cells is None else cells.root()
    return [outer for outer, copy in copies.items() if copy.root() is root]


def _common(first: Any, second: Any) -> Cells:
    """Returns the first cell that two branches share, for each tensor."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return tuple([_common(a, b) for a, b in zip(first, second, strict=False)])
    shared = [] if tuple in (type(first), type(second)) else [c for c in first if c in second]
    return shared[0] if shared else None


def _cells_at(args: Sequence[Cells], path: Path) -> Cells:
    """Returns the cells of an operand of a loop."""
    cells = args[path[0]]
    for member in path[1:]:
        cells = cells[member] if isinstance(cells, tuple) and member < len(cells) else None
    return cells


def _member(args: Sequence[Cells], path: tuple[int, int | None]) -> Cells:
    index, member = path
    cells = args[index] if index < len(args) else None
    if member is None:
        return cells
    return cells[member] if isinstance(cells, tuple) and member < len(cells) else None


def _copied(cells: Cells, copies: dict[DtypeCell, DtypeCell]) -> Cells:
    """Returns cells with the same dtypes and equalities, independent of the others."""
    if isinstance(cells, tuple):
        return tuple([_copied(field, copies) for field in cells])
    if cells is None:
        return None
    root = cells.root()
    return copies.setdefault(root, DtypeCell(root.dtype))
