"""Constraint generation: asserts a function of the IR on a solver, binding by binding.

Ops provide their own schemes, so nothing here depends on a particular op. Functions of the module
are solved and generalised before their callers; a recursive function contributes only its
annotation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from structir.analysis.axes import axes_of
from structir.analysis.constant_values import ConstantValues
from structir.errors import Diagnostic, Span, warn
from structir.ir import dims
from structir.ir.axes import rows_in, size_in
from structir.ir.binding_dims import row_size_of
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
    FuncStructInfo,
    KernelStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import provided_module
from structir.solver.constraints.assumptions import constraints_of_condition, non_negative
from structir.solver.constraints.constraint import DimEq
from structir.solver.constraints.scheme import Scheme
from structir.solver.constraints.signature import read_signature
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import Row, RowVar, row_vars, variables
from structir.solver.program.axis_conversion import as_labelled_row, as_row
from structir.solver.program.function_calls import NO_BODIES, FunctionCalls
from structir.solver.program.generalisation import generalise, type_scheme
from structir.solver.program.kernel_schemes import kernel_scheme
from structir.solver.program.op_uses import OpUse, operand_at
from structir.solver.program.rank_cases import greatest_rank, possible_ranks, rank_case_schemes
from structir.solver.program.value_trees import (
    Tree,
    aligned,
    common_row,
    has_unknown_rank,
    leaves,
    open_sizes,
    operands_of,
    pairs,
    refine_info,
    result_bounds,
    sized_parts,
    tensors,
    values_of,
)
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.store import ANONYMOUS, NAMED, PARAMETER
from structir.solver.solver import ConstraintSolver, Disjunction, Requirement, Value
from structir.system.locks import cached_property

schemes = provided_module("constraint schemes")


class ConstraintGenerator:
    """The constraints of one function, and the solver values of its variables."""

    def __init__(
        self,
        functions: Mapping[str, Scheme],
        least: int = 1,
        bodies: Mapping[str, Function] = NO_BODIES,
        labelled: bool = False,
    ) -> None:
        self.functions = functions
        self.calls = FunctionCalls(self, bodies)
        self.least = least
        self.solver = ConstraintSolver(least)
        self.trees: dict[Var, Tree] = {}
        self.shapes: dict[Var, Row] = {}  # rows of shape variables
        self.infos: dict[Var, StructInfo] = {}  # StructInfos of variables inside branches
        self.results: Tree = None
        self.params: list[Value] = []
        # whether an axis of the program has a label: then axes are unified, besides their sizes
        self.labelled = self.solver.store.labelled = labelled
        self.pending: list[OpUse] = []
        self.undecided: set[str] = set()  # values that defaulting left open
        self.order = 0
        self.constants = ConstantValues()

    # Functions and sequences

    def visit(self, function: Function) -> None:
        """Adds the constraints of a function."""
        for param in function.params:
            origin = self._origin(param.name, "parameter", f"parameter `{param.name}`", param.span)
            self._prefer(param.struct_info, PARAMETER)
            self.trees[param] = tree = self.new_values(param.name, param.struct_info, origin)
            self.params += leaves(tree)
        self.sequence(function.body)
        self.results = self.tree_of(function.body.body)
        origin = self._origin("annot:return", "annotation", "the annotation of the result", None)
        self.annotate(self.results, function.ret_struct_info, origin)
        self.revisit()

    def solve(self) -> None:
        """Solves all constraints, including those that pending ops add after others are solved."""
        self.solver.solve()
        while self.extend():
            self.solver.solve()

    def name_open_sizes(self, params: Sequence[Var]) -> None:
        """Defines a variable for each open axis of a parameter.

        The parameter binds the variable, and other sizes are solved for in terms of it. Otherwise
        the axis could be a size such as `d + 2`, which no parameter binds.
        """
        values = [pair for p in params for pair in pairs(self.trees[p], p.struct_info)]
        composite = [size for v, info in values for size in open_sizes(self.solver.shape(v), info)]
        if not composite:
            return
        # dims that the signature already binds, or one of them would be solved for
        self.solver.prefer_open([value for value, info in values if not rows_in(info.axes or ())])
        origin = self._origin("parameters", "parameter", "the parameters", None)
        for size in dict.fromkeys(composite):
            variable = fresh()
            self.solver.prefer(variables(variable), PARAMETER)
            self.solver.add(DimEq(variable, size), origin)
        self.solve()

    def snapshot(self) -> Any:
        """Starts a backtracking point."""
        states = [(use, use.signature, use.has_rank_cases) for use in self.pending]
        return self.solver.push(), states

    def restore(self, snapshot: Any) -> None:
        """Undoes every assertion since the snapshot."""
        mark, states = snapshot
        self.solver.pop(mark)
        self.pending = [use for use, _, _ in states]
        for use, signature, has_rank_cases in states:
            use.signature, use.has_rank_cases, use.shapes = signature, has_rank_cases, None

    @cached_property
    def occurrences(self) -> Counter[RowVar]:
        """The number of values in which each row variable occurs, after solving."""
        values = {v: None for tree in self.trees.values() for v in leaves(tree)}
        return Counter([row for value in values for row in row_vars(self.solver.shape(value))])

    @property
    def is_incomplete(self) -> bool:
        """Returns whether ops are pending: the scheme of the function does not constrain them."""
        unresolved = [u for u in self.pending if u.signature is None and not u.has_rank_cases]
        return bool(unresolved or self.solver.disjunctions)

    def scheme(self) -> Scheme:
        """Returns the scheme of the function, for its callers."""
        return generalise(self.solver, self.params, list(leaves(self.results)))

    def _origin(self, label: str, kind: str, text: str, span: Span | None) -> Origin:
        self.order += 1
        return Origin(label, kind, text, span, self.order)

    def _prefer(self, info: StructInfo, level: int = NAMED) -> None:
        if self.calls.inlining:  # the program cannot name the dims of a callee
            return
        for part in tensors(info):
            for size in map(size_in, axes_of(part) or ()):
                if type(size) is Poly:
                    self.solver.prefer(variables(size), level)

    def sequence(self, body: SeqExpr) -> None:
        for binding in body.bindings():
            self.constants.bind(binding.var, binding.value)
            if isinstance(binding, MatchCast):
                self._add_requirements(binding)
                tree = self.tree_of(binding.value)
                self.trees[binding.var] = tree
                self.calls.bind(binding)
                origin = self._binding_origin(binding.var, "annotation", binding.span)
                self.annotate(tree, binding.struct_info, origin)
                continue
            var, value = binding.var, binding.value
            self.trees[var] = self._value(var, value, binding.span)
            for bound in result_bounds(value):
                self.solver.add(bound, self._binding_origin(var, "op", binding.span or value.span))
            self.calls.bind(binding)
            if value.struct_info is not var.struct_info and value.struct_info != var.struct_info:
                origin = self._binding_origin(var, "annotation", var.span)
                self.annotate(self.trees[var], var.struct_info, origin)

    def _add_requirements(self, binding: MatchCast) -> None:
        """Adds the conditions on sizes that a match_cast requires."""
        for condition in conditions_of(binding):
            text = f"R.require({dims.text(condition)!r})"
            origin = self._origin(f"fact:{dims.text(condition)}", "fact", text, binding.span)
            self.solver.prefer([s for s in variables(condition) if row_size_of(s) is None])
            for constraint in constraints_of_condition(condition):
                self.solver.add(constraint, origin)

    def _binding_origin(self, var: Var, kind: str, span: Span | None) -> Origin:
        label = var.name if kind == "op" else f"annot:{var.name}"
        text = (
            f"`{var.name}` is defined here" if kind == "op" else f"the annotation of `{var.name}`"
        )
        return self._origin(label, kind, text, span or var.span)

    def visit_call(self, call: Call) -> Tree:
        """Adds the constraints of a single call; returns the values of its result."""
        var = Var("result", call.struct_info or OBJECT)
        return self._value(var, call, call.span)

    # Values

    def tree_of(self, expr: Expr) -> Tree:
        """Returns the values of an operand."""
        match expr:
            case Var() if expr in self.trees:
                return self.trees[expr]
            case Tuple(fields):
                return tuple([self.tree_of(field) for field in fields])
            case TupleGetItem(inner, index):
                tree = self.tree_of(inner)
                return tree[index] if isinstance(tree, tuple) else None
        origin = self._origin("constant", "fact", "a constant", expr.span)
        return self.new_values("value", expr.struct_info, origin)

    def _value(self, var: Var, value: Expr, span: Span | None) -> Tree:
        origin = self._binding_origin(var, "op", span or value.span)
        match value:
            case Call(op=Op()):
                return self._op_call(var, value, origin)
            case Call(op=ExternFunc(), attrs={"signature": str(signature)}):
                return self.apply_scheme(var, value, value.args, read_signature(signature), origin)
            case Call(op=GlobalVar() | Var() as op) if self.calls.callee(op) is not None:
                return self.calls.visit(var, value, origin)
            case Call(op=Var(struct_info=FuncStructInfo() as info)) if info.params is not None:
                scheme = type_scheme(info, self.labelled)
                return self.apply_scheme(var, value, value.args, scheme, origin)
            case Call(op=GlobalVar(struct_info=KernelStructInfo() as kernel)):
                tree = self.apply_scheme(
                    var, value, value.args, kernel_scheme(kernel, self.labelled), origin
                )
                self.annotate(tree, value.struct_info or OBJECT, origin)  # its declared result
                return tree
            case Var() | Tuple() | TupleGetItem() | Constant():
                return self.tree_of(value)
            case If():
                return self._if(var, value, origin)
        return self.new_values(var.name, value.struct_info, origin)

    def new_values(self, name: str, info: StructInfo | None, origin: Origin) -> Tree:
        """Creates values with the axes of a StructInfo and no further constraints."""
        match info:
            case TensorStructInfo():
                value = Value(name)
                self.assert_shape(value, info, origin)
                return value
            case PrimStructInfo():
                value = Value(name)
                self.solver.assert_shape(value, (), origin)
                return value
            case TupleStructInfo(fields):
                return tuple([self.new_values(name, field, origin) for field in fields])
        return None

    def annotate(self, tree: Tree, info: StructInfo, origin: Origin) -> None:
        """Asserts that a value has this StructInfo; sizes that it does not state may be 0."""
        self._prefer(info)
        for leaf, part in pairs(tree, info):
            if part.dims is not None or part.axes is not None:
                self.assert_shape(leaf, part, origin)
            elif part.ndim is not None:
                row = self._unknown_row(part.ndim)
                self.solver.allow_zero([s for axis in row for s in variables(axis)])  # type: ignore[arg-type]
                self._assert_row(leaf, row, origin)

    def assert_shape(self, value: Value, info: TensorStructInfo, origin: Origin) -> None:
        """Asserts that a value has the axes of this StructInfo."""
        axes = info.axes or info.dims
        for constraint in non_negative(axes):
            self.solver.add(constraint, origin)
        named = self.labelled and type(axes) is tuple
        self._assert_row(value, axes if named else self.row_of(info), origin)  # type: ignore[arg-type]

    def _assert_row(self, value: Value, row: Row, origin: Origin) -> None:
        """Asserts the sizes of a value, and the labels among its axes."""
        if self.labelled:
            row, constraints = as_labelled_row(row)
            for constraint in constraints:
                self.solver.add(constraint, origin)
        self.solver.assert_shape(value, row, origin)

    def row_of(self, info: TensorStructInfo) -> Row:
        """Returns the row of a tensor with this StructInfo."""
        if info.axes is not None:
            return as_row(info.axes)
        if type(info.dims) is tuple:
            return info.dims
        if isinstance(info.dims, Var):
            return self._shape_row(info.dims)
        return self._unknown_row(info.ndim)

    def _unknown_row(self, ndim: int | None) -> Row:
        if ndim is None:
            return (RowVar(),)
        axes: Row = tuple([fresh() for _ in range(ndim)])
        self.solver.prefer([s for axis in axes for s in variables(axis)], ANONYMOUS)  # type: ignore[arg-type]
        return axes

    def _shape_row(self, var: Var) -> Row:
        if var not in self.shapes:
            info = var.struct_info
            declared_dims = info.dims if isinstance(info, ShapeStructInfo) else None
            ndim = info.ndim if isinstance(info, ShapeStructInfo) else None
            self.shapes[var] = self._unknown_row(ndim) if declared_dims is None else declared_dims
        return self.shapes[var]

    # Calls

    def _op_call(self, var: Var, call: Call, origin: Origin) -> Tree:
        loop = call.op.definition.hooks.get("loop")  # type: ignore[attr-defined]
        if loop is not None:
            return self.calls.visit_loop(var, call, loop(call), origin)
        results = values_of(var.name, call.struct_info)
        operands = [self.tree_of(arg) for arg in call.args]
        use = OpUse(self.constants.in_call(call), operands, list(leaves(results)), origin)
        if not self._apply_op(use):
            return self.new_values(var.name, call.struct_info, origin)
        for value, info in sized_parts(results, call):
            if info.axes is not None or self.solver.row(value) != info.dims:
                self.assert_shape(value, info, origin)
        return results

    def _apply_op(self, use: OpUse) -> bool:
        """Adds the constraints of an op call; returns whether it has any."""
        infos = None if use.is_unchanged(self.solver) else use.infos(self.solver)
        if infos is None or (use.has_rank_cases and any(map(has_unknown_rank, infos))):
            self.pending.append(use)
            return True
        try:
            op_scheme = self._only_case(use, infos) or schemes.scheme_of(use.call, infos)
        except schemes.InvalidCall:
            values = tuple(leaves(tuple(use.operands)))
            self.solver.assert_(Requirement(use.origin, values, use.rejection))
            self.pending.append(use)  # accepted after a search
            return True
        if op_scheme is None or len(op_scheme.scheme.results) != len(use.results):
            return False
        if use.reads_ranks and any(not use.is_known(info) for info in infos if info is not None):
            self.pending.append(use)
        if op_scheme.index_signature == use.signature:
            return True
        members = [operand_at(use.operands, path) for path in op_scheme.paths]
        operands = [member for member in members if isinstance(member, Value)]
        if len(operands) < len(members):
            return False
        use.signature = op_scheme.index_signature
        if self.pending and self.pending[-1] is use:
            use.remember(self.solver)
        self.solver.apply(op_scheme.scheme, operands, use.results, use.origin)
        return True

    def _only_case(self, use: OpUse, infos: Sequence[StructInfo | None]) -> Any:
        """Returns the scheme of a call if it is the same for all ranks of its operands, or None."""
        is_open = any(map(has_unknown_rank, infos))
        if not is_open or not use.reads_ranks or use.signature is not None:
            return None
        cases = self._rank_case_schemes(use, infos)
        return cases[0] if len(cases) == 1 else None

    def revisit(self) -> None:
        """Revisits ops whose index signature depends on ranks, once these are known."""
        for _ in range(MAX_ROUNDS):
            pending, self.pending = self.pending, []
            count = len(self.solver.assertions)
            for use in pending:
                self._apply_op(use)
            if len(self.solver.assertions) == count:
                return

    def extend(self) -> bool:
        """Revisits pending ops after solving; returns whether they added constraints."""
        count = len(self.solver.assertions)
        self.revisit()
        self.add_rank_cases()
        return len(self.solver.assertions) > count

    def add_rank_cases(self) -> None:
        """Adds a disjunction over the possible ranks of each pending op."""
        for use in self.pending:
            if use.has_rank_cases:
                continue
            cases = self._rank_case_schemes(use, use.infos(self.solver))
            if cases:
                operands = [operand_at(use.operands, path) for path in cases[0].paths]
                values = [operand for operand in operands if isinstance(operand, Value)]
                use.has_rank_cases = True
                if len(values) == len(operands):
                    case_schemes = tuple([case.scheme for case in cases])
                    self.solver.assert_(
                        Disjunction(use.origin, case_schemes, tuple(values), tuple(use.results))
                    )

    def _rank_case_schemes(self, use: OpUse, infos: Sequence[StructInfo | None]) -> Sequence[Any]:
        """Returns the schemes of a call for all possible ranks of its operands."""
        ranks = {
            index: possible_ranks(self.solver, tree)
            for index, (info, tree) in enumerate(zip(infos, use.operands, strict=True))
            if has_unknown_rank(info) and isinstance(tree, Value)
        }
        most = greatest_rank(self.solver, use.results[0]) if use.results else None
        return rank_case_schemes(use.call, infos, ranks, len(use.results), most)

    def apply_scheme(
        self, var: Var, call: Call, args: Sequence[Expr], scheme: Scheme, origin: Origin
    ) -> Tree:
        """Adds a call that a scheme describes completely."""
        operands = list(operands_of(call.op, [self.tree_of(arg) for arg in args]))
        results = values_of(var.name, call.struct_info)
        result_values = list(leaves(results))
        if len(operands) != len(scheme.operands) or len(result_values) != len(scheme.results):
            return self.new_values(var.name, call.struct_info, origin)
        self.solver.apply(scheme, operands, result_values, origin)
        return results

    # Branches

    def _if(self, var: Var, conditional: If, origin: Origin) -> Tree:
        """Solves each branch separately, and joins the shapes of their results."""
        ends = [self._branch(b) for b in (conditional.true_branch, conditional.false_branch)]
        reachable = [end for end in ends if end is not None]
        if not reachable:
            self.solver.store.begin(origin)
            raise self.solver.store.conflict("both branches are unsatisfiable", "E0409")
        results = values_of(var.name, conditional.struct_info)
        for leaf, *sides in aligned(results, *[tree for tree, _ in reachable]):
            if len(set(sides)) == 1 < len(sides):  # both return an outer value
                self.solver.assert_shape(leaf, self.solver.row(sides[0]), origin)
                continue
            shapes = [shapes[side] for side, (_, shapes) in zip(sides, reachable, strict=True)]
            row = shapes[0] if len(shapes) == 1 else common_row(self.solver, shapes[0], shapes[1])
            self._assert_row(leaf, row, origin)
        return results

    def _branch(self, body: SeqExpr) -> tuple[Tree, dict[Value, Row]] | None:
        """Returns the result of a branch and the shapes of its values; None if it is
        unreachable."""
        mark, pending, count = self.solver.push(), self.pending, len(self.trees)
        store, self.pending = self.solver.store, []
        outer_least, store.least = store.least, 0  # facts of one branch are not checked on entry
        levels = self.solver.prefer_open(self.params)  # dims of the branch have a smaller scope
        try:
            self.sequence(body)
            self.revisit()
            self.solver.solve()
            for var in list(self.trees)[count:]:
                self.infos[var] = refine_info(self.solver, var.struct_info, self.trees[var])
            tree = self.tree_of(body.body)
            return tree, {leaf: self.solver.shape(leaf) for leaf in leaves(tree)}
        except Conflict as conflict:
            message = f"unreachable branch: {conflict.message}"
            warn(Diagnostic(message, body.span, severity="warning", code="E0409"))
            return None
        finally:
            self.solver.pop(mark)
            self.pending, store.least = pending, outer_least
            store.preference |= levels


MAX_ROUNDS = 8  # of revisits per call
