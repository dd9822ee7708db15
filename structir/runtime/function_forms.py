"""Functions of any rank or dtype, at known ones."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import partial
from itertools import count
from typing import Any

from structir.analysis.deduction import deduce, result_info
from structir.analysis.erasure import erase, walk_dims
from structir.analysis.lattice import PASS, base_check, greatest_lower_bound
from structir.analysis.substitution import Substitution
from structir.analysis.variables import variables_in
from structir.interpret.argument_checks import BoundDtype
from structir.ir.axes import RowVar
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Poly, Sym, as_sym, sym
from structir.ir.dtype import DtypeVar
from structir.ir.expr import (
    Binding,
    Call,
    DataflowVar,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.program.result_refinement import with_result

DEDUCED = (Call, If, TupleGetItem)  # values whose StructInfo is inferred again
INFERRED = (*DEDUCED, Tuple, Var, DataflowVar)


def form_variables(function: Function) -> list[RowVar | DtypeVar]:
    """Returns the row variables and dtype variables that the parameters of a function bind."""
    bound = standing_alone([param.struct_info for param in function.params])
    return [variable for variable in bound if type(variable) in (RowVar, DtypeVar)]


def known(bound: Any) -> int | str:
    """Returns the dtype of a dtype variable, the number of axes of a row variable, or a size."""
    if isinstance(bound, int):
        return bound
    return bound.dtype if isinstance(bound, BoundDtype) else len(bound)


class OfForm(Substitution):
    """Substitutes axes for row variables, dtypes for dtype variables and numbers for sizes; infers
    again."""

    def __init__(self, form: Mapping[Any, int | str]) -> None:
        super().__init__(dims={v: _replacement(v, known) for v, known in form.items()})
        self.bound_before: set[Any] = set()  # by parameters and casts

    def function(self, function: Function) -> Function:
        """Returns a function with replacements."""
        self.bound_before.update(standing_alone([p.struct_info for p in function.params]))
        return super().function(function)

    def part(self, part: Any) -> Any:
        """Returns any part of a program with replacements; functions have the results that their
        new bodies have."""
        new = super().part(part)
        if type(part) is not Function or new.body.struct_info is None:
            return new
        casts = [b.struct_info for b in new.body.bindings() if isinstance(b, MatchCast)]
        inside = standing_alone(casts)
        result = erase(new.body.struct_info, lambda s: None if s in inside else s)
        info = self._sharper(new.ret_struct_info, result)
        return new if info == new.ret_struct_info else replace(new, ret_struct_info=info)

    def closure(self, binding: Any, value: Expr) -> Var | None:
        """Returns the variable of a rebuilt function with the sharper StructInfo of the new one."""
        new = super().closure(binding, value)
        if new is not None or type(value) is not Function or value is binding.value:
            return new
        declared = self.info(binding.var.struct_info)
        info = self._sharper(declared, value.struct_info)
        if info == declared or binding.var in variables_in(value):
            return None
        var: Var = type(binding.var)(binding.var.name, info, binding.var.span)
        self.variables[binding.var] = var
        return var

    def cast(self, binding: MatchCast) -> Binding:
        """Returns a match_cast; the variables that it binds to known sizes and dtypes are these."""
        new = standing_alone([binding.struct_info]).keys() - self.bound_before
        actual = self.part(binding.value).struct_info
        pattern = self.info(binding.struct_info)
        if actual is not None:
            walk_dims(pattern, actual, partial(self._bind, new), self.dims)
        self.bound_before |= new
        self.infos.clear()
        cast: Any = super().binding(binding)
        info = self._sharper(cast.struct_info, actual)
        if info == cast.struct_info:
            return cast  # type: ignore[no-any-return]
        var: Var = type(cast.var)(cast.var.name, info, cast.var.span)
        self.variables[binding.var] = var
        return MatchCast(var, cast.value, info, cast.span)

    def _bind(self, new: Set[Any], pattern: Any, value: Any) -> None:
        """Adds the value of a new variable that is a size, a row or a dtype by itself."""
        variable = as_sym(pattern) if type(pattern) is Poly else pattern
        if variable in new and value is not None:
            self.dims.setdefault(variable, value)

    def binding(self, binding: Binding) -> Binding:
        """Returns a binding whose StructInfo is inferred from its new operands."""
        if isinstance(binding, MatchCast):
            return self.cast(binding)
        if not isinstance(binding, VarBinding) or type(binding.value) not in INFERRED:
            return super().binding(binding)
        value = self.part(binding.value)
        declared = self.info(binding.var.struct_info)
        if type(value) in DEDUCED:
            value = with_result(replace(value, struct_info=deduce(value)), declared, of_form=True)
        info = self._sharper(declared, value.struct_info)
        var = binding.var
        if info != var.struct_info:
            var = self.variables[binding.var] = type(var)(var.name, info, var.span)
            self.infos.clear()
        return VarBinding(var, value, binding.span)

    def sequence(self, sequence: SeqExpr) -> SeqExpr:
        """Returns a sequence with the StructInfo of its new result."""
        new = super().sequence(sequence)
        return replace(new, struct_info=new.body.struct_info)

    def instance(self, function: Function) -> Function:
        """Returns a function of this form, with the result that its new body has."""
        new = self.function(function)
        result = new.body.struct_info
        if result is None:
            return new
        result = self._sharper(new.ret_struct_info, result_info(result, new.params))
        return replace(new, ret_struct_info=result)

    def _sharper(self, declared: StructInfo, inferred: StructInfo) -> StructInfo:
        if base_check(declared, inferred) is PASS:
            return inferred
        return greatest_lower_bound(declared, inferred) or declared


def _replacement(variable: RowVar | DtypeVar | Sym, known: int | str) -> Any:
    """Returns new axes for a row variable of a known rank, the dtype of a dtype variable, or the
    number for a size."""
    if isinstance(known, str) or not isinstance(variable, RowVar):
        return known
    return tuple([sym(f"{variable.name}{k}") for k in range(known)])


def with_form_variables(function: Function) -> Function:
    """Returns a function whose parameters have variables for unknown ranks, sizes and dtypes.

    The StructInfo of its body is that of before: `OfForm` infers it.
    """
    named = partial(_with_variables, numbers=count())
    params = [type(p)(p.name, named(p.struct_info), p.span) for p in function.params]
    changed = {
        old: new
        for old, new in zip(function.params, params, strict=True)
        if new.struct_info != old.struct_info
    }
    if not changed:
        return function
    body = Substitution(changed).part(function.body)
    return replace(function, params=tuple([changed.get(p, p) for p in function.params]), body=body)


def _with_variables(info: StructInfo, numbers: count[int]) -> StructInfo:
    """Returns the StructInfo of a parameter with variables for unknown ranks and dtypes."""
    if isinstance(info, TupleStructInfo):
        return replace(info, fields=tuple([_with_variables(f, numbers) for f in info.fields]))
    if not isinstance(info, TensorStructInfo):
        return info
    if info.axes is info.dims is None:
        row = (RowVar(f"r{next(numbers)}"),)
        dims = tuple([sym(f"d{next(numbers)}") for _ in range(info.ndim or 0)])
        info = replace(info, axes=row) if info.ndim is None else replace(info, dims=dims)
    if info.element is None:
        info = replace(info, dtype_var=DtypeVar(f"D{next(numbers)}"))
    return info


def call_of_ranks(call: Call, result: StructInfo, sizes: Mapping[Any, Any]) -> Call | None:
    """Returns a call with the ranks of axis packs that `sizes` of row variables determine; None if
    the StructInfos of operands and result have no row variables, or these determine no rank."""
    infos = [*[arg.struct_info for arg in call.args], result]
    rows = [variable for variable in standing_alone(infos) if type(variable) is RowVar]
    if not rows or not {*rows} <= sizes.keys():
        return None
    of_form = OfForm({row: known(sizes[row]) for row in rows})
    ranked = replace(call, args=tuple([_ranked(arg, of_form) for arg in call.args]))
    ranked = replace(ranked, struct_info=deduce(ranked))
    completed = with_result(ranked, of_form.info(result), of_form=True)
    return None if completed is ranked else replace(completed, args=call.args)  # type: ignore[return-value]


def _ranked(operand: Expr, of_form: OfForm) -> Expr:
    if isinstance(operand, Tuple):
        return replace(operand, fields=tuple([_ranked(field, of_form) for field in operand.fields]))
    return Var("operand", of_form.info(operand.struct_info))
