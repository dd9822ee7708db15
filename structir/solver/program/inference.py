"""`structir.infer`: a module with every StructInfo completed, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.analysis.axes import axes_of, tensor
from structir.analysis.deduction import result_info
from structir.analysis.substitution import Substitution
from structir.analysis.variables import walk
from structir.analysis.well_formed import well_formed
from structir.errors import Diagnostic, DiagnosticError, StructInfoError, StructIRError
from structir.ir.axes import AnySize, Axes, Labelled, rows_in, size_in
from structir.ir.binding_dims import bound_dims, standing_alone
from structir.ir.dims import Dim, Poly, Sym, as_dim, substitute
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
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
from structir.ir.module import IRModule, as_module
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.solver.constraints.assumptions import may_be_empty
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.reasons import Conflict
from structir.solver.domains.terms import RowVar, row_vars, sizes, symbol_of, variables
from structir.solver.program import defaulting
from structir.solver.program.axis_conversion import resolve_info
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.learn_policy import POLICIES, policy_of
from structir.solver.program.signature_policy import apply_policy, narrows
from structir.solver.program.unsat_core import UnsatCore, explain
from structir.solver.program.value_trees import has_all_sizes, leaves, pairs, refine_info, tensors


def infer(module: IRModule, *, learn: str | None = None, close: bool = False) -> IRModule:
    """The module with every StructInfo completed from annotations, operands and results.

    `learn` says what a proof about a named size does to a signature: `guard` keeps the signature
    and checks the fact on entry, `refine` rewrites the signature, `strict` refuses. Without it each
    function's own `R.function(learn=...)` holds; else a private one is refined, others guarded.
    `close` gives parameters of which too little is known the least shape that their uses allow: a
    choice.
    """
    if learn is not None and learn not in POLICIES:
        raise StructIRError(f"learn is one of {', '.join(POLICIES)}, not {learn!r}")
    module = as_module(module, "structir.infer")
    completed = _complete_twice(module, learn, close)
    if _may_hold_dead_code(module) and not well_formed(completed):
        # what can never run contradicts what was found around it: signatures stay
        return _complete_twice(module, "guard", close)
    return completed


def _may_hold_dead_code(module: IRModule) -> bool:
    """Whether some of it need not run: branches and closures."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    return any(isinstance(b.value, If | Function) for f in functions for b in f.bindings())


def _complete_twice(module: IRModule, learn: str | None, close: bool) -> IRModule:
    completed, more = _complete_module(module, learn, close)
    # what is checked on entry, or chosen, is stated from there on, and more may follow from it
    return _complete_module(completed, learn, close)[0] if more else completed


def _complete_module(module: IRModule, learn: str | None, close: bool) -> tuple[IRModule, bool]:
    """What one hearing gives, and whether a second one may give more: functions check more on entry
    than they did, or parameters have shapes that were chosen or ranks that were unknown."""
    heard = generate_constraints(module, close=close)
    functions = dict(module.functions)
    globals_: dict[str, StructInfo] = {}
    more = False
    for name, hearing in heard.items():
        rewriter = Rewriter(hearing, globals_, learn or policy_of(module[name]))
        made = rewriter.function(module[name])
        functions[name] = made
        globals_[name] = made.struct_info
        more |= _checks(made) > _checks(module[name])
        both = zip(made.params, module[name].params, strict=True)
        changed = [(new, old) for new, old in both if new is not old]
        more |= any(
            close or _has_more_ranks(new.struct_info, old.struct_info) for new, old in changed
        )
    return module.with_functions(functions), more


def _has_more_ranks(new: StructInfo, old: StructInfo) -> bool:
    """Whether the rank of some tensor is known in one StructInfo and not in another."""
    both = zip(tensors(new), tensors(old), strict=True)
    return any(a.ndim is not None and b.ndim is None for a, b in both)


def generate_constraints(
    module: IRModule, *, close: bool = False
) -> dict[str, ConstraintGenerator]:
    """Every function of a module heard and solved, callees before callers.

    Closing is for the functions that no other calls: a helper serves the shapes of its callers.
    """
    heard: dict[str, ConstraintGenerator] = {}
    schemes: dict[str, Scheme] = {}
    calls = _calls(module)
    for name in _callees_first(calls):
        heard[name] = hearing = solve_function(module[name], schemes)
        schemes[name] = hearing.scheme()
    if close:
        called = {callee for callees in calls.values() for callee in callees}
        for name in [name for name in heard if name not in called]:
            _default_params(module[name], heard[name])
    return heard


def _default_params(function: Function, hearing: ConstraintGenerator) -> None:
    """Choose shapes for the parameters whose annotation leaves something open."""
    incomplete = [param for param in function.params if not has_all_sizes(param.struct_info)]
    values = [value for param in incomplete for value in leaves(hearing.trees[param])]
    with hearing.undone_if_impossible():
        defaulting.close(hearing.solver, values)
        hearing.solve()


def solve_function(function: Function, schemes: Mapping[str, Scheme]) -> ConstraintGenerator:
    """A function heard and solved; an impossible one is an error that says why."""
    try:
        return _generate(function, schemes, 0 if _may_be_empty(function) else 1)
    except _FunctionUnsatisfiable as first:
        try:
            return _generate(function, schemes, 0)  # sizes may be 0 after all
        except _FunctionUnsatisfiable:
            raise Unsatisfiable(explain(first.hearing.solver, first.conflict)) from None


def _may_be_empty(function: Function) -> bool:
    """Whether a function says of some size on entry that it may be 0, or is."""
    checked = [b.struct_info for b in function.bindings() if isinstance(b, MatchCast)]
    known = [p.struct_info for p in function.params] + checked
    if any(type(i.dims) is tuple and 0 in i.dims for info in known for i in tensors(info)):
        return True
    return any(map(may_be_empty, [f for b in function.bindings() for f in conditions_of(b)]))


class Unsatisfiable(StructInfoError):
    """No run of a function can be clean; `explanation` tells which statements see to that."""

    def __init__(self, explanation: UnsatCore) -> None:
        super().__init__(explanation.diagnostic())
        self.explanation = explanation


@attrs.frozen(eq=False)
class _FunctionUnsatisfiable(Exception):
    hearing: ConstraintGenerator
    conflict: Conflict


def _generate(function: Function, schemes: Mapping[str, Scheme], least: int) -> ConstraintGenerator:
    hearing = ConstraintGenerator(schemes, least)
    try:
        hearing.visit(function)
        hearing.solve()
        hearing.name_open_sizes(function.params)
    except Conflict as conflict:
        raise _FunctionUnsatisfiable(hearing, conflict) from None
    return hearing


def _calls(module: IRModule) -> dict[str, list[str]]:
    """The functions of a module that each of them calls."""
    return {
        name: [
            part.name
            for part in walk(function)
            if isinstance(part, GlobalVar) and part.name in module.functions
        ]
        for name, function in module.functions.items()
        if isinstance(function, Function)
    }


def _callees_first(calls: Mapping[str, list[str]]) -> Iterator[str]:
    """Functions, callees before callers where there is no cycle."""
    done: set[str] = set()
    for root in calls:
        stack = [(root, iter(calls[root]))]
        on_way = {root}
        while stack:
            name, below = stack[-1]
            following = next((c for c in below if c in calls and c not in done | on_way), None)
            if following is not None:
                on_way.add(following)
                stack.append((following, iter(calls[following])))
                continue
            stack.pop()
            if name not in done:
                done.add(name)
                yield name


class Rewriter:
    """Writes what a solver found back into a function."""

    def __init__(
        self, hearing: ConstraintGenerator, functions: Mapping[str, StructInfo], learn: str
    ) -> None:
        self.hearing = hearing
        self.functions = functions
        self.learn = learn
        self.variables: dict[Var, Var] = {}
        self.names: dict[Sym, Dim] = {}  # the solver's own variables, as the program's
        self.rows: dict[RowVar, RowVar] = {}
        self.defined: set[Sym] = set()
        self.cast_dims: frozenset[Any] = frozenset()  # that match_casts of the body bind
        self.branches = 0  # around what is being written

    def function(self, function: Function) -> Function:
        """The function with every StructInfo completed."""
        self.cast_dims = bound_dims(
            [b.struct_info for b in function.bindings() if isinstance(b, MatchCast)]
        )
        for param in function.params:
            self.defined.update(s for info in tensors(param.struct_info) for s in _plain_dims(info))
        for param in function.params:
            self._define(param)
        params = tuple([self._param(param) for param in function.params])
        guards = self._guards(function, params)
        body = self._sequence(function.body)
        if guards:
            body = _prepend_checks(tuple(guards), body)
        result = self._result(function.ret_struct_info)
        made = replace(function, params=params, body=body, ret_struct_info=result)
        made = _drop_undefined_dims(made, function)
        result = result_info(made.ret_struct_info, made.params)
        return replace(made, ret_struct_info=result)

    def _result(self, info: StructInfo) -> StructInfo:
        """What callers are told: of a size that the signature keeps, no more than its name."""
        known = self._filled(info, self.hearing.results)
        return known if self.learn == "refine" else apply_policy(info, known)

    # Parameters

    def _define(self, param: Var) -> None:
        """Sizes of a parameter that the user left open become symbolic variables."""
        for value, info in pairs(self.hearing.trees[param], param.struct_info):
            shape = self.hearing.solver.shape(value)
            if info.dims is not None:
                continue
            for row in row_vars(shape):
                if len(shape) > 1 or self.hearing.occurrences[row] > 1:
                    self.rows.setdefault(row, row if row.name else RowVar(f"r{len(self.rows)}"))
            for dim in sizes(shape):
                symbol = symbol_of(dim)
                if symbol is not None and symbol not in self.defined:
                    self.defined.add(symbol)
                    if symbol in self.cast_dims:  # a match_cast of the body binds it as it is
                        continue
                    name = symbol.name or f"d{len(self.names)}"
                    self.names.setdefault(symbol, as_dim(Sym(name)))

    def _param(self, param: Var) -> Var:
        info = self._signature(param.struct_info, param)
        made = param if info == param.struct_info else type(param)(param.name, info, param.span)
        self.variables[param] = made
        return made

    def _signature(self, info: StructInfo, param: Var) -> StructInfo:
        known = self._filled(info, self.hearing.trees[param], new=True)
        return known if self.learn == "refine" else apply_policy(info, known)

    def _guards(self, function: Function, new: tuple[Var, ...]) -> list[Binding]:
        """Checks on entry for what was learnt of sizes that the signature keeps."""
        checks: list[Binding] = []
        if self.learn == "refine":  # then the signature says all of it, and is checked itself
            return checks
        there = list(_entry_checks(function))
        for param, made in zip(function.params, new, strict=True):
            known = self._filled(param.struct_info, self.hearing.trees[param])
            if not narrows(made.struct_info, known) or (param, known) in there:
                continue
            if self.learn == "strict":
                self._refuse(param, known)
            checks.append(MatchCast(Var(f"{param.name}_checked", known), made, known))
        return checks

    def _refuse(self, param: Var, known: StructInfo) -> None:
        message = f"the body narrows `{param.name}`: {param.struct_info} is {known}"
        raise StructInfoError(Diagnostic(message, param.span))

    # Bodies

    def _sequence(self, body: SeqExpr) -> SeqExpr:
        blocks = tuple([self._block(block) for block in body.blocks])
        result = self._expr(body.body)
        return replace(body, blocks=blocks, body=result, struct_info=result.struct_info)

    def _block(self, block: BindingBlock) -> BindingBlock:
        return replace(block, bindings=tuple([self._binding(b) for b in block.bindings]))

    def _binding(self, binding: Binding) -> Binding:
        var = binding.var
        if isinstance(binding, MatchCast):
            self.defined.update(
                s for info in tensors(binding.struct_info) for s in _plain_dims(info)
            )
            if isinstance(binding.struct_info, ShapeStructInfo):
                dims = binding.struct_info.dims or ()
                self.defined.update(s for dim in dims if (s := symbol_of(dim)) is not None)
        value = self._expr(binding.value)
        info = self._known(var)
        if info == var.struct_info:
            self.variables[var] = var
            return binding if value is binding.value else replace(binding, value=value)
        self.variables[var] = made = type(var)(var.name, info, var.span)
        return replace(binding, var=made, value=value)

    def _known(self, var: Var) -> StructInfo:
        """What is known of a variable; as it was where a size would be negative: no run gets so
        far."""
        info, known = var.struct_info, self.hearing.infos.get(var)
        try:
            if known is not None:
                info = self._expressed_info(info, resolve_info(self.hearing.solver, known))
            if known is None or not has_all_sizes(
                info
            ):  # a size of a branch may have a name around it
                info = self._filled(info, self.hearing.trees.get(var))
        except DiagnosticError:
            return var.struct_info
        return info

    def _expr(self, expr: Expr) -> Expr:
        """An expression over the new variables, what follows from them deduced anew."""
        match expr:
            case If():
                self.branches += 1
                branches = [self._sequence(b) for b in (expr.true_branch, expr.false_branch)]
                self.branches -= 1
                cond = self._expr(expr.cond)
                return replace(expr, cond=cond, true_branch=branches[0], false_branch=branches[1])
            case Function():
                return self._closure(expr)
            case Var():
                return self.variables.get(expr, expr)
            case GlobalVar(name) if name in self.functions:
                return GlobalVar(name, self.functions[name], expr.span)
            case Tuple(fields):
                made = tuple([self._expr(field) for field in fields])
                if all(a is b for a, b in zip(made, fields, strict=True)):
                    return expr
                return Tuple(made, span=expr.span)
            case TupleGetItem(inner, index):
                value = self._expr(inner)
                info = value.struct_info
                part = info.fields[index] if isinstance(info, TupleStructInfo) else None
                return expr if value is inner else TupleGetItem(value, index, part, expr.span)
            case Call():
                return self._call(expr)
        return expr

    def _closure(self, function: Function) -> Expr:
        """A function inside the function: what it reads from around it has new names."""
        renamed: dict[Var, Expr] = {
            old: new for old, new in self.variables.items() if new is not old
        }
        made: Expr = Substitution(renamed).part(function) if renamed else function
        return made

    def _call(self, call: Call) -> Call:
        made = replace(call, args=tuple([self._expr(arg) for arg in call.args]))
        if not isinstance(call.op, Op):
            made = replace(made, op=self._expr(call.op))
        same = all(a is b for a, b in zip(made.args, call.args, strict=True))
        if same and made.op is call.op:
            return call
        if isinstance(call.op, Op):
            try:
                return replace(made, struct_info=call.op.definition.deduce(made))
            except DiagnosticError as error:
                if not self.branches:  # it is always come to
                    raise StructInfoError(error.diagnostics) from None
        return made

    # StructInfo

    def _filled(self, info: StructInfo, tree: object, *, new: bool = False) -> StructInfo:
        known = refine_info(self.hearing.solver, info, tree)  # type: ignore[arg-type]
        return self._expressed_info(info, known, new=new)

    def _expressed_info(
        self, info: StructInfo, known: StructInfo, *, new: bool = False
    ) -> StructInfo:
        """What is known in the program's variables; as it was where that cannot be said."""
        if known is info:
            return info
        if isinstance(known, TupleStructInfo) and isinstance(info, TupleStructInfo):
            parts = zip(info.fields, known.fields, strict=True)
            fields = tuple([self._expressed_info(a, b, new=new) for a, b in parts])
            return TupleStructInfo(fields)
        if not isinstance(info, TensorStructInfo) or not isinstance(known, TensorStructInfo):
            return info
        found = axes_of(known)
        if found is None:
            return info
        said = None if isinstance(info.dims, Var) else info.axes or info.dims
        if said is not None and _same_rows(said, found):
            both = zip(said, found, strict=True)
            return tensor(tuple([self._sharpened(*pair, new) for pair in both]), info.dtype)
        axes = tuple([self._expressed(axis, new) for axis in found])
        if None not in axes:
            return tensor(axes, info.dtype)
        unknown = info.dims is None and info.axes is None and not rows_in(found)
        return TensorStructInfo(None, info.dtype, len(axes)) if unknown else info

    def _sharpened(self, said: Any, found: Any, new: bool) -> Any:
        """An axis as it was written, with the number and the label that it turned out to have."""
        size = size_in(found)
        if type(size) is not int:
            written = size_in(said)
            anonymous = type(written) is AnySize
            # inside a body, another name for the same size would tell nothing
            sharper = new or symbol_of(size) is None
            open_ = anonymous or (self.learn == "refine" and type(size) is Poly and sharper)
            known = self._expressed(size, new and anonymous) if open_ else None
            kept = substitute(written, self.names) if type(written) is Poly else written
            size = kept if known is None else known
        label = getattr(found, "label", getattr(said, "label", None))
        return size if label is None else Labelled(size, label)

    def _expressed(self, axis: Any, new: bool) -> Any:
        """An axis in the program's variables; None where it cannot be said."""
        if type(axis) is Labelled:
            size = self._expressed(axis.size, new)
            return None if size is None else Labelled(size, axis.label)
        if type(axis) is RowVar:
            return self.rows.get(axis)
        if type(axis) is not Poly:
            return axis
        if all(symbol in self.defined for symbol in variables(axis)):
            return substitute(axis, self.names)
        return as_dim(Sym(f"d{len(self.names)}")) if new else None


def _same_rows(said: Axes, found: Axes) -> bool:
    """Whether each axis stands for one, and each row for one."""
    return [type(axis) is RowVar for axis in said] == [type(axis) is RowVar for axis in found]


def _plain_dims(info: TensorStructInfo) -> Iterator[Sym]:
    """The variables that a struct info defines: those that are a size of their own."""
    for bound in standing_alone([info]):
        if type(bound) is Sym:
            yield bound


def _drop_undefined_dims(made: Function, function: Function) -> Function:
    """A function whose signature has been refined, all of it over what became of the sizes that the
    signature names no more."""
    told = bound_dims([param.struct_info for param in made.params])
    became: dict[Any, Dim] = {}
    for old, new in zip(function.params, made.params, strict=True):
        for before, after in zip(tensors(old.struct_info), tensors(new.struct_info), strict=True):
            if type(before.dims) is tuple and type(after.dims) is tuple:
                sizes_ = zip(before.dims, after.dims, strict=True)
                became |= {s: b for a, b in sizes_ if (s := symbol_of(a)) is not None and a != b}
    lost = {symbol: size for symbol, size in became.items() if symbol not in told}
    return Substitution(dims=lost).function(made) if lost else made


def _entry_checks(function: Function) -> Iterator[tuple[Expr, StructInfo]]:
    """What a function checks of its parameters before it does anything else."""
    for binding in function.bindings():
        if not isinstance(binding, MatchCast):
            return
        yield binding.value, binding.struct_info


def _checks(function: Function) -> int:
    return sum(1 for _ in _entry_checks(function))


def _prepend_checks(guards: tuple[Binding, ...], body: SeqExpr) -> SeqExpr:
    """A sequence that checks first; in its first block, where that is a plain one."""
    first, rest = body.blocks[:1], body.blocks[1:]
    if first and type(first[0]) is BindingBlock:
        block = replace(first[0], bindings=(*guards, *first[0].bindings))
        return replace(body, blocks=(block, *rest))
    return replace(body, blocks=(BindingBlock(guards), *body.blocks))
