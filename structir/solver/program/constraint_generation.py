"""A function of the IR, told to a solver binding by binding.

Ops are asked for their schemes, so nothing here knows any of them. Functions of the module are
solved before their callers and generalised; a recursive one says no more than its annotation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from structir.analysis.axes import axes_of
from structir.errors import Diagnostic, Span, warn
from structir.ir import dims
from structir.ir.axes import AnySize, Labelled, rows_in, size_in
from structir.ir.expr import (
    Call,
    Constant,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.ir.polynomial import Poly
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import (
    OBJECT,
    KernelStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.solver.constraints.assumptions import constraints_of_condition, non_negative
from structir.solver.constraints.constraint import DimEq
from structir.solver.constraints.scheme import Scheme
from structir.solver.constraints.signature import read_signature
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import Row, RowVar, row_vars, symbol_of, variables
from structir.solver.program.axis_conversion import as_labelled_row, as_row
from structir.solver.program.generalisation import generalise, loop_scheme
from structir.solver.program.kernel_schemes import kernel_scheme
from structir.solver.program.rank_cases import greatest_rank, possible_ranks, rank_case_schemes
from structir.solver.program.value_trees import (
    Tree,
    common_row,
    has_all_sizes,
    leaves,
    pairs,
    refine_info,
    tensors,
    values_of,
)
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.store import ANONYMOUS, NAMED, PARAMETER
from structir.solver.solver import Disjunction, Solver, Value

schemes = lazy_module("structir.opdef.constraint_schemes")


class ConstraintGenerator:
    """What one function says, and the values that its variables are."""

    def __init__(self, functions: Mapping[str, Scheme], least: int = 1) -> None:
        self.functions = functions
        self.least = least
        self.solver = Solver(least)
        self.trees: dict[Var, Tree] = {}
        self.shapes: dict[Var, Row] = {}  # of shape variables
        self.infos: dict[Var, StructInfo] = {}  # what is known inside branches when they end
        self.results: Tree = None
        self.params: list[Value] = []
        self.labelled = False  # whether some axis has a label
        self.waiting: list[_OpCall] = []
        self.order = 0

    # Functions and sequences

    def visit(self, function: Function) -> None:
        """Everything that a function says."""
        infos = [param.struct_info for param in function.params]
        infos += [b.var.struct_info for b in function.bindings()]
        axes = [axis for info in infos for part in tensors(info) for axis in part.axes or ()]
        self.labelled = any(type(axis) is Labelled for axis in axes)
        for param in function.params:
            origin = self._origin(param.name, "parameter", f"parameter `{param.name}`", param.span)
            self._prefer(param.struct_info, PARAMETER)
            self.trees[param] = tree = self._stated(param.name, param.struct_info, origin)
            self.params += leaves(tree)
        self._sequence(function.body)
        self.results = self._tree(function.body.body)
        origin = self._origin("annot:return", "annotation", "the annotation of the result", None)
        self._annotate(self.results, function.ret_struct_info, origin)
        self.revisit()

    def solve(self) -> None:
        """Solves all constraints, those included that ops add once more is known."""
        self.solver.solve()
        while self.extend():
            self.solver.solve()

    def name_open_sizes(self, params: Sequence[Var]) -> None:
        """Gives each axis that a parameter leaves open a variable, by which all else is solved: the
        parameter binds it, and a size such as `d + 2` could not be expressed."""
        values = [pair for p in params for pair in pairs(self.trees[p], p.struct_info)]
        open_ = [size for v, info in values for size in _open_sizes(self.solver.shape(v), info)]
        if not open_:
            return
        # those that the signature binds already, or one of these would be solved for
        self.solver.prefer_open([value for value, info in values if not rows_in(info.axes or ())])
        origin = self._origin("parameters", "parameter", "the parameters", None)
        for size in dict.fromkeys(open_):
            own = fresh()
            self.solver.prefer(variables(own), PARAMETER)
            self.solver.add(DimEq(own, size), origin)
        self.solve()

    @contextmanager
    def undone_if_impossible(self) -> Iterator[None]:
        """Takes back what is added inside where it contradicts the rest: it was only a choice."""
        mark, waiting = self.solver.push(), list(self.waiting)
        lines = [(use, use.line) for use in waiting]
        try:
            yield
        except Conflict:
            self.solver.pop(mark)
            self.waiting = waiting
            for use, line in lines:
                use.line = line

    @cached_property
    def occurrences(self) -> Counter[RowVar]:
        """In how many values each row variable stands, once all is solved."""
        values = {v: None for tree in self.trees.values() for v in leaves(tree)}
        return Counter([row for value in values for row in row_vars(self.solver.shape(value))])

    def scheme(self) -> Scheme:
        """What the function says, for its callers."""
        return generalise(self.solver, self.params, list(leaves(self.results)))

    def _origin(self, label: str, kind: str, text: str, span: Span | None) -> Origin:
        self.order += 1
        return Origin(label, kind, text, span, self.order)

    def _prefer(self, info: StructInfo, level: int = NAMED) -> None:
        for part in tensors(info):
            for size in map(size_in, axes_of(part) or ()):
                if type(size) is Poly:
                    self.solver.prefer(variables(size), level)

    def _sequence(self, body: SeqExpr) -> None:
        for binding in body.bindings():
            if isinstance(binding, MatchCast):
                self._facts(binding)
                tree = self._tree(binding.value)
                self.trees[binding.var] = tree
                origin = self._of_binding(binding.var, "annotation", binding.span)
                self._annotate(tree, binding.struct_info, origin)
                continue
            var, value = binding.var, binding.value
            self.trees[var] = self._value(var, value, binding.span)
            if value.struct_info is not var.struct_info and value.struct_info != var.struct_info:
                origin = self._of_binding(var, "annotation", var.span)
                self._annotate(self.trees[var], var.struct_info, origin)

    def _facts(self, binding: MatchCast) -> None:
        """What the program requires of its sizes."""
        for fact in conditions_of(binding):
            text = f"R.require({dims.text(fact)!r})"
            origin = self._origin(f"fact:{dims.text(fact)}", "fact", text, binding.span)
            self.solver.prefer(variables(fact))
            for constraint in constraints_of_condition(fact):
                self.solver.add(constraint, origin)

    def _of_binding(self, var: Var, kind: str, span: Span | None) -> Origin:
        label = var.name if kind == "op" else f"annot:{var.name}"
        text = f"`{var.name}` is bound" if kind == "op" else f"the annotation of `{var.name}`"
        return self._origin(label, kind, text, span or var.span)

    def visit_call(self, call: Call) -> Tree:
        """One call alone."""
        var = Var("result", call.struct_info or OBJECT)
        return self._value(var, call, call.span)

    # Values

    def _tree(self, expr: Expr) -> Tree:
        """What an operand stands for."""
        match expr:
            case Var() if expr in self.trees:
                return self.trees[expr]
            case Tuple(fields):
                return tuple([self._tree(field) for field in fields])
            case TupleGetItem(inner, index):
                tree = self._tree(inner)
                return tree[index] if isinstance(tree, tuple) else None
        origin = self._origin("constant", "fact", "a value from outside", expr.span)
        return self._stated("value", expr.struct_info, origin)

    def _value(self, var: Var, value: Expr, span: Span | None) -> Tree:
        origin = self._of_binding(var, "op", span or value.span)
        match value:
            case Call(op=Op()):
                return self._op_call(var, value, origin)
            case Call(op=ExternFunc(), attrs={"signature": str(signature)}):
                return self._applied(var, value, value.args, read_signature(signature), origin)
            case Call(op=GlobalVar(name)) if name in self.functions:
                return self._applied(var, value, value.args, self.functions[name], origin)
            case Call(op=GlobalVar(struct_info=KernelStructInfo() as kernel)):
                tree = self._applied(var, value, value.args, kernel_scheme(kernel), origin)
                self._annotate(tree, value.struct_info or OBJECT, origin)  # as it is stated
                return tree
            case Var() | Tuple() | TupleGetItem() | Constant():
                return self._tree(value)
            case If():
                return self._choice(var, value, origin)
        return self._stated(var.name, value.struct_info, origin)

    def _stated(self, name: str, info: StructInfo | None, origin: Origin) -> Tree:
        """New values of which their struct info is all that is known."""
        match info:
            case TensorStructInfo():
                value = Value(name)
                self._shaped(value, info, origin)
                return value
            case PrimStructInfo():
                value = Value(name)
                self.solver.shaped(value, (), origin)
                return value
            case TupleStructInfo(fields):
                return tuple([self._stated(name, field, origin) for field in fields])
        return None

    def _annotate(self, tree: Tree, info: StructInfo, origin: Origin) -> None:
        """A value has this struct info too."""
        self._prefer(info)
        for leaf, part in pairs(tree, info):
            if part.dims is not None or part.ndim is not None or part.axes is not None:
                self._shaped(leaf, part, origin)

    def _shaped(self, value: Value, info: TensorStructInfo, origin: Origin) -> None:
        """A value has the axes of this struct info."""
        axes = info.axes or info.dims
        for fact in non_negative(axes):
            self.solver.add(fact, origin)
        if not self.labelled or type(axes) is not tuple:
            self.solver.shaped(value, self.row_of(info), origin)
            return
        row, further = as_labelled_row(axes)
        for constraint in further:
            self.solver.add(constraint, origin)
        self.solver.shaped(value, row, origin)

    def row_of(self, info: TensorStructInfo) -> Row:
        """The row of a tensor of which this is known."""
        if info.axes is not None:
            return as_row(info.axes)
        if type(info.dims) is tuple:
            return info.dims
        if isinstance(info.dims, Var):
            return self._shape(info.dims)
        return self._unknown(info.ndim)

    def _unknown(self, ndim: int | None) -> Row:
        if ndim is None:
            return (RowVar(),)
        axes: Row = tuple([fresh() for _ in range(ndim)])
        self.solver.prefer([s for axis in axes for s in variables(axis)], ANONYMOUS)  # type: ignore[arg-type]
        return axes

    def _shape(self, var: Var) -> Row:
        if var not in self.shapes:
            info = var.struct_info
            known = info.dims if isinstance(info, ShapeStructInfo) else None
            ndim = info.ndim if isinstance(info, ShapeStructInfo) else None
            self.shapes[var] = self._unknown(ndim) if known is None else known
        return self.shapes[var]

    # Calls

    def _op_call(self, var: Var, call: Call, origin: Origin) -> Tree:
        loop = call.op.definition.hooks.get("loop")  # type: ignore[attr-defined]
        if loop is not None:
            body, states = loop(call)
            return self._loop(var, call, body, states, origin)
        results = values_of(var.name, call.struct_info)
        use = _OpCall(call, [self._tree(arg) for arg in call.args], list(leaves(results)), origin)
        if not self._use(use):
            return self._stated(var.name, call.struct_info, origin)
        return results

    def _use(self, use: _OpCall) -> bool:
        """Say what an op says of a call; whether it says anything."""
        infos = self._infos(use)
        try:
            told = self._only_way(use, infos) or schemes.scheme_of(use.call, infos)
        except schemes.InvalidCall as error:
            self.solver.store.begin(use.origin)
            for value in leaves(tuple(use.operands)):
                self.solver.store.row(self.solver.row(value))
            raise self.solver.store.conflict(error.message) from None
        if told is None or len(told.scheme.results) != len(use.results):
            return False
        if use.reads_ranks and any(not has_all_sizes(info) for info in infos if info is not None):
            self.waiting.append(use)
        if told.line == use.line:
            return True
        members = [_member(use.operands, path) for path in told.paths]
        operands = [member for member in members if isinstance(member, Value)]
        if len(operands) < len(members):
            return False
        use.line = told.line
        self.solver.apply(told.scheme, operands, use.results, use.origin)
        return True

    def _infos(self, use: _OpCall) -> list[StructInfo | None]:
        """What is known of the operands of a call."""
        both = zip(use.call.args, use.operands, strict=True)
        return [self._refined(arg.struct_info, tree) for arg, tree in both]

    def _only_way(self, use: _OpCall, infos: Sequence[StructInfo | None]) -> Any:
        """The scheme that holds whatever ranks the operands have, where there is only one."""
        if not use.reads_ranks or use.line is not None or not any(map(_rankless, infos)):
            return None
        found = self._ways(use, infos)
        return found[0] if len(found) == 1 else None

    def revisit(self) -> None:
        """Ops whose line depends on ranks say more once these are known."""
        for _ in range(ROUNDS):
            waiting, self.waiting = self.waiting, []
            said = len(self.solver.statements)
            for use in waiting:
                self._use(use)
            if len(self.solver.statements) == said:
                return

    def extend(self) -> bool:
        """Ask ops again, now that more is known; whether they have said more."""
        said = len(self.solver.statements)
        self.revisit()
        self.visit_ranks()
        return len(self.solver.statements) > said

    def visit_ranks(self) -> None:
        """Ops that wait for a rank: whichever rank it is, one of their lines holds."""
        waiting, self.waiting = self.waiting, []
        for use in waiting:
            found = self._ways(use, self._infos(use))
            if not found:
                self.waiting.append(use)
            else:
                operands = [_member(use.operands, path) for path in found[0].paths]
                values = [operand for operand in operands if isinstance(operand, Value)]
                if len(values) == len(operands):
                    choice = tuple([way.scheme for way in found])
                    self.solver.say(
                        Disjunction(use.origin, choice, tuple(values), tuple(use.results))
                    )

    def _ways(self, use: _OpCall, infos: Sequence[StructInfo | None]) -> Sequence[Any]:
        """The schemes of a call for all ranks that its operands can have."""
        options = {
            place: possible_ranks(self.solver, tree)
            for place, (info, tree) in enumerate(zip(infos, use.operands, strict=True))
            if _rankless(info) and isinstance(tree, Value)
        }
        most = greatest_rank(self.solver, use.results[0]) if use.results else None
        return rank_case_schemes(use.call, infos, options, len(use.results), most)

    def _refined(self, info: StructInfo | None, tree: Tree) -> StructInfo | None:
        """The struct info of an operand with what the solver knows of its rank and sizes."""
        if info is None or has_all_sizes(info):
            return info
        return refine_info(self.solver, info, tree)

    def _loop(self, var: Var, call: Call, body: Expr, states: int, origin: Origin) -> Tree:
        """A loop over a function of the module, of which so many parameters are states."""
        cell = self.functions.get(body.name) if isinstance(body, GlobalVar) else None
        if cell is None or min(len(cell.operands), len(cell.results)) <= states:
            return self._stated(var.name, call.struct_info, origin)
        return self._applied(var, call, call.args[1:], loop_scheme(cell, states), origin)

    def _applied(
        self, var: Var, call: Call, args: Sequence[Expr], scheme: Scheme, origin: Origin
    ) -> Tree:
        """A call that is all said by a scheme."""
        operands = [v for arg in args for v in leaves(self._tree(arg))]
        results = values_of(var.name, call.struct_info)
        made = list(leaves(results))
        if len(operands) != len(scheme.operands) or len(made) != len(scheme.results):
            return self._stated(var.name, call.struct_info, origin)
        self.solver.apply(scheme, operands, made, origin)
        return results

    # Branches

    def _choice(self, var: Var, choice: If, origin: Origin) -> Tree:
        """Each branch is heard on its own; what both results agree on is known of the result."""
        ends = [self._branch(b) for b in (choice.true_branch, choice.false_branch)]
        reached = [shapes for shapes in ends if shapes is not None]
        if not reached:
            self.solver.store.begin(origin)
            raise self.solver.store.conflict("neither branch can hold")
        results = values_of(var.name, choice.struct_info)
        columns = list(zip(*reached, strict=True)) if len({len(r) for r in reached}) == 1 else []
        for leaf, sides in zip(leaves(results), columns, strict=False):
            shapes = [shape for _, shape in sides]
            if len({value for value, _ in sides}) == 1 < len(sides):  # one value from around both
                shapes = [self.solver.shape(sides[0][0])]
            row = shapes[0] if len(shapes) == 1 else common_row(self.solver, shapes[0], shapes[1])
            self.solver.shaped(leaf, row, origin)
        return results

    def _branch(self, body: SeqExpr) -> list[tuple[Value, Row]] | None:
        """The values that a branch gives, with their shapes in it; None if it cannot be reached."""
        mark, waiting, heard = self.solver.push(), self.waiting, len(self.trees)
        store, self.waiting = self.solver.store, []
        least, store.least = store.least, 0  # nothing checks on entry what holds here alone
        levels = self.solver.prefer_open(self.params)  # what it binds itself has no name earlier
        try:
            self._sequence(body)
            self.revisit()
            self.solver.solve()
            for var in list(self.trees)[heard:]:
                self.infos[var] = refine_info(self.solver, var.struct_info, self.trees[var])
            return [(leaf, self.solver.shape(leaf)) for leaf in leaves(self._tree(body.body))]
        except Conflict as conflict:
            warn(Diagnostic(f"this branch can never run: {conflict.message}", body.span))
            return None
        finally:
            self.solver.pop(mark)
            self.waiting, store.least = waiting, least
            store.preference |= levels


def _open_sizes(shape: Row, info: TensorStructInfo) -> list[Any]:
    """The sizes of a parameter that are neither stated nor one variable."""
    stated = axes_of(info) or ()
    open_ = [type(size_in(axis)) is AnySize for axis in stated]
    if len(open_) != len(shape):
        open_ = [not stated] * len(shape)
    both = zip(shape, open_, strict=True)
    return [s for s, free in both if free and type(s) is Poly and symbol_of(s) is None]


ROUNDS = 8  # of asking ops again


def _rankless(info: StructInfo | None) -> bool:
    return isinstance(info, TensorStructInfo) and info.ndim is None


class _OpCall:
    """A call of an op, and the line that it was last heard by."""

    def __init__(
        self, call: Call, operands: list[Tree], results: list[Value], origin: Origin
    ) -> None:
        self.call = call
        self.operands = operands
        self.results = results
        self.origin = origin
        self.line: Any = None
        self.reads_ranks: bool = schemes.depends_on_ranks(call)


def _member(operands: Sequence[Tree], path: tuple[int, int | None]) -> Tree:
    tree = operands[path[0]]
    if path[1] is None or not isinstance(tree, tuple):
        return tree
    return tree[path[1]]
