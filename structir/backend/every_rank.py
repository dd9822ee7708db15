"""Compiles functions with row variables once for each rank that they are called with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from structir.analysis.arguments import arguments_of, default_values
from structir.analysis.deduction import deduce
from structir.analysis.donation import donated_of
from structir.analysis.lattice import PASS, base_check
from structir.analysis.substitution import Substitution
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.interpret.argument_checks import as_value, in_field_order, match
from structir.interpret.scope import Activation
from structir.ir.axes import RowVar
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import sym
from structir.ir.expr import Binding, Call, Function, Var, VarBinding
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TupleStructInfo

Value = Any
Counts = tuple[int, ...]  # the number of axes of each row variable

SAMPLE_RANKS = (2, 1, 3, 4, 0)  # most ops are valid at the first ones


def rows_of(function: Function) -> list[RowVar]:
    """Returns the row variables that the parameters of a function bind."""
    bound = standing_alone([param.struct_info for param in function.params])
    return [row for row in bound if type(row) is RowVar]


class OfRank(Substitution):
    """Substitutes axes for row variables, and infers StructInfo again."""

    def __init__(self, rows: dict[RowVar, int]) -> None:
        axes = {r: tuple([sym(f"{r.name}{k}") for k in range(n)]) for r, n in rows.items()}
        super().__init__(dims=axes)

    def binding(self, binding: Binding) -> Binding:
        """Returns a binding whose StructInfo is inferred from its new operands."""
        if not isinstance(binding, VarBinding) or type(binding.value) is not Call:
            return super().binding(binding)
        value = self.part(binding.value)
        inferred = deduce(value)
        info = self._sharper(self.info(binding.var.struct_info), inferred)
        var = binding.var
        if info != var.struct_info:
            var = self.variables[binding.var] = type(var)(var.name, info, var.span)
            self.infos.clear()
        return VarBinding(var, replace(value, struct_info=inferred), binding.span)

    def _sharper(self, declared: StructInfo, inferred: StructInfo) -> StructInfo:
        return inferred if base_check(declared, inferred) is PASS else declared


class EveryRank:
    """A function of any rank, with one compiled form for each rank."""

    def __init__(
        self,
        name: str,
        function: Function,
        general: Callable[..., Value],
        compiled: Callable[[Function], Any],
    ) -> None:
        self.name, self.function = name, function
        self.general = general  # runs at any rank, op by op
        self.compiled = compiled  # compiles one function to an executable
        self.rows = rows_of(function)
        self.is_repeatable = function.is_pure and not donated_of(function)
        self.defaults = partial(default_values, function)
        self.forms: dict[Counts, Any] = {}  # by the ranks of row variables; None if invalid
        self._counts: dict[Any, Counts] = {}  # by the ranks of the arguments

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        args = arguments_of(self.name, self.function.params, args, names, self.defaults)
        counts = self._counts_of(args)
        if counts is None:
            return self.general(*args)
        if counts not in self.forms:
            self.forms[counts] = self._form(counts)
        form = self.forms[counts]
        return self.general(*args) if form is None else self._run(form[self.name], args)

    def _run(self, compiled: Callable[..., Value], args: tuple[Value, ...]) -> Value:
        """Calls a form. Inference assumes more at a known rank, such as that no section of a split
        is empty; where this fails, the general function decides."""
        try:
            return compiled(*args)
        except ShapeMismatchError:
            if not self.is_repeatable:
                raise
        return self.general(*args)

    def _counts_of(self, args: tuple[Value, ...]) -> Counts | None:
        """Returns the number of axes of each row variable; None if the arguments do not determine
        it."""
        params = self.function.params
        key = tuple([getattr(arg, "ndim", None) for arg in args])
        counts = self._counts.get(key)
        if counts is None:
            scope = Activation({}, {})
            pairs = zip(params, args, strict=True)
            match(
                [(p.struct_info, _shaped(p.struct_info, a), self._where(p)) for p, a in pairs],
                scope,
            )
            if any(row not in scope.sizes for row in self.rows):
                return None
            counts = tuple([len(scope.sizes[row]) for row in self.rows])
            if None not in key:
                self._counts[key] = counts
        return counts

    def _where(self, param: Var) -> str:
        return f"{self.name}: parameter {param.name}"

    def _form(self, counts: Counts) -> Any:
        """Returns the executable for these ranks; None if the program is invalid at them."""
        function = self._of_rank(counts)  # if None, the op itself reports the error at run time
        return None if function is None else self.compiled(function)

    def _of_rank(self, counts: Counts) -> Function | None:
        """Returns the function for these ranks; None if the program is invalid at them."""
        try:
            return OfRank(dict(zip(self.rows, counts, strict=True))).function(self.function)
        except DiagnosticError:
            return None

    def sample(self) -> Function | None:
        """Returns the function for some ranks at which the program is valid; None without any."""
        forms = (self._of_rank((count,) * len(self.rows)) for count in SAMPLE_RANKS)
        return next((form for form in forms if form is not None), None)


def _shaped(info: Any, value: Value) -> Value:
    """Returns a value with the shape and dtype of an argument, which may be on a device."""
    value = in_field_order(info, value)
    if isinstance(value, tuple) and isinstance(info, TupleStructInfo):
        return tuple([_shaped(*pair) for pair in zip(info.fields, value, strict=False)])
    dtype = getattr(value, "dtype", None)
    if isinstance(value, np.ndarray) or not isinstance(dtype, np.dtype):
        return as_value(info, value)
    return np.broadcast_to(np.zeros((), dtype), value.shape)
