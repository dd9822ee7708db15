"""Writes the StructInfo that a solver inferred back into a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.analysis.deduction import result_info
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
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
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.solver.domains.terms import RowVar, row_vars, sizes, symbol_of, variables
from structir.solver.program.axis_conversion import resolve_info
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.signature_policy import apply_policy, narrows
from structir.solver.program.value_trees import has_all_sizes, pairs, refine_info, tensors


class Rewriter:
    """Writes what a solver found back into a function."""

    def __init__(
        self, generator: ConstraintGenerator, functions: Mapping[str, StructInfo], learn: str
    ) -> None:
        self.generator = generator
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
        known = self._fill(info, self.generator.results)
        return known if self.learn == "refine" else apply_policy(info, known)

    # Parameters

    def _define(self, param: Var) -> None:
        """Sizes of a parameter that the user left open become symbolic variables."""
        for value, info in pairs(self.generator.trees[param], param.struct_info):
            shape = self.generator.solver.shape(value)
            if info.dims is not None:
                continue
            for row in row_vars(shape):
                if len(shape) > 1 or self.generator.occurrences[row] > 1:
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
        known = self._fill(info, self.generator.trees[param], new=True)
        return known if self.learn == "refine" else apply_policy(info, known)

    def _guards(self, function: Function, new: tuple[Var, ...]) -> list[Binding]:
        """Checks on entry for what was learnt of sizes that the signature keeps."""
        checks: list[Binding] = []
        if self.learn == "refine":  # then the signature says all of it, and is checked itself
            return checks
        there = list(_entry_checks(function))
        for param, made in zip(function.params, new, strict=True):
            known = self._fill(param.struct_info, self.generator.trees[param])
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
        info, known = var.struct_info, self.generator.infos.get(var)
        try:
            if known is not None:
                info = self._express_info(info, resolve_info(self.generator.solver, known))
            if known is None or not has_all_sizes(
                info
            ):  # a size of a branch may have a name around it
                info = self._fill(info, self.generator.trees.get(var))
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

    def _fill(self, info: StructInfo, tree: object, *, new: bool = False) -> StructInfo:
        known = refine_info(self.generator.solver, info, tree)  # type: ignore[arg-type]
        return self._express_info(info, known, new=new)

    def _express_info(
        self, info: StructInfo, known: StructInfo, *, new: bool = False
    ) -> StructInfo:
        """What is known in the program's variables; as it was where that cannot be said."""
        if known is info:
            return info
        if isinstance(known, TupleStructInfo) and isinstance(info, TupleStructInfo):
            parts = zip(info.fields, known.fields, strict=True)
            fields = tuple([self._express_info(a, b, new=new) for a, b in parts])
            return TupleStructInfo(fields)
        if not isinstance(info, TensorStructInfo) or not isinstance(known, TensorStructInfo):
            return info
        found = axes_of(known)
        if found is None:
            return info
        said = None if isinstance(info.dims, Var) else info.axes or info.dims
        if said is not None and _same_rows(said, found):
            both = zip(said, found, strict=True)
            return tensor(tuple([self._refine_axis(*pair, new) for pair in both]), info.dtype)
        axes = tuple([self._express_axis(axis, new) for axis in found])
        if None not in axes:
            return tensor(axes, info.dtype)
        unknown = info.dims is None and info.axes is None and not rows_in(found)
        return TensorStructInfo(None, info.dtype, len(axes)) if unknown else info

    def _refine_axis(self, said: Any, found: Any, new: bool) -> Any:
        """An axis as it was written, with the number and the label that it turned out to have."""
        size = size_in(found)
        if type(size) is not int:
            written = size_in(said)
            anonymous = type(written) is AnySize
            # inside a body, another name for the same size would tell nothing
            sharper = new or symbol_of(size) is None
            open_ = anonymous or (self.learn == "refine" and type(size) is Poly and sharper)
            known = self._express_axis(size, new and anonymous) if open_ else None
            kept = substitute(written, self.names) if type(written) is Poly else written
            size = kept if known is None else known
        label = getattr(found, "label", getattr(said, "label", None))
        return size if label is None else Labelled(size, label)

    def _express_axis(self, axis: Any, new: bool) -> Any:
        """An axis in the program's variables; None where it cannot be said."""
        if type(axis) is Labelled:
            size = self._express_axis(axis.size, new)
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


def count_entry_checks(function: Function) -> int:
    """Returns the number of checks of parameters that run before anything else."""
    return sum(1 for _ in _entry_checks(function))


def _prepend_checks(guards: tuple[Binding, ...], body: SeqExpr) -> SeqExpr:
    """A sequence that checks first; in its first block, where that is a plain one."""
    first, rest = body.blocks[:1], body.blocks[1:]
    if first and type(first[0]) is BindingBlock:
        block = replace(first[0], bindings=(*guards, *first[0].bindings))
        return replace(body, blocks=(block, *rest))
    return replace(body, blocks=(BindingBlock(guards), *body.blocks))
