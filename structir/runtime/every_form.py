"""Compiles functions with row or dtype variables once for each rank and dtype of a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np

from structir.analysis.arguments import arguments_of, default_values
from structir.analysis.donation import donated_of
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.interpret.argument_checks import match
from structir.interpret.argument_conversion import (
    argument_value,
    as_value,
    in_field_order,
    with_bound_dtypes,
)
from structir.interpret.scope import Activation
from structir.ir.axes import RowVar
from structir.ir.dtype import DtypeVar
from structir.ir.expr import Function, Var
from structir.ir.struct_info import PrimStructInfo, TupleStructInfo
from structir.runtime.function_forms import OfForm, form_variables, known
from structir.runtime.plans.plan import recording
from structir.solver.program.value_trees import elements

Value = Any
Form = tuple[int | str, ...]  # the number of axes or the dtype of each variable

FORM_OF = attrgetter("ndim", "dtype")
SAMPLE_RANKS = (2, 1, 3, 4, 0)  # most ops are valid at the first ones
SAMPLE_DTYPES = ("float32", "int64", "bool")


class EveryForm:
    """A function of any rank or dtype, with one compiled form for each of them."""

    def __init__(
        self,
        name: str,
        function: Function,
        general: Callable[..., Value],
        compiled: Callable[[Function], Any],
    ) -> None:
        self.name, self.function = name, function
        self.general = general  # runs at any rank and dtype, op by op
        self.compiled = compiled  # compiles one function to an executable
        self.variables = form_variables(self.function)
        self.has_dtypes = any([type(variable) is DtypeVar for variable in self.variables])
        infos = [part for p in self.function.params for part in elements(p.struct_info)]
        self.has_scalars = any([type(info) is PrimStructInfo for info in infos])
        self.is_repeatable = function.is_pure and not donated_of(function)
        self.defaults = partial(default_values, function)
        self.forms: dict[Form, Any] = {}  # by ranks and dtypes of variables; None if invalid
        self._form_keys: dict[Any, Form] = {}  # by the ranks and dtypes of the arguments
        self._entries: dict[Any, Callable[..., Value]] = {}  # by those of arrays

    @property
    def described(self) -> str:
        """The differences of forms, for messages."""
        has_rows = RowVar in map(type, self.variables)
        return " and ".join(["rank"] * has_rows + ["dtype"] * self.has_dtypes)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        try:  # attributes of other arguments than arrays are missing
            entry = None if names else self._entries.get(tuple(map(FORM_OF, args)))
        except (AttributeError, TypeError):
            entry = None
        if entry is not None and recording.get() is None:
            return self._run(entry, args)
        args = arguments_of(self.name, self.function.params, args, names, self.defaults)
        key = self._form_of(args)
        if key is None:
            return self.general(*args)
        if key not in self.forms:
            self.forms[key] = self._compiled_form(key)
        form = self.forms[key]
        if form is None:
            return self.general(*args)
        if self.has_scalars:
            bound = dict(zip(self.variables, key, strict=True))
            pairs = zip(self.function.params, args, strict=True)
            args = tuple([with_bound_dtypes(p.struct_info, a, bound) for p, a in pairs])
        if not recording.get() and all([type(a) is np.ndarray for a in args]):
            self._entries[tuple(map(FORM_OF, args))] = form[self.name]
        return self._run(form[self.name], args)

    def _run(self, compiled: Callable[..., Value], args: tuple[Value, ...]) -> Value:
        """Calls a form. Inference assumes more at a known rank, such as that no section of a split
        is empty; where this fails, the general function decides."""
        try:
            return compiled(*args)
        except ShapeMismatchError:
            if not self.is_repeatable:
                raise
        return self.general(*args)

    def _form_of(self, args: tuple[Value, ...]) -> Form | None:
        """Returns the number of axes of each row variable, and the dtype of each dtype variable.

        Returns None if the arguments do not determine them.
        """
        params = self.function.params
        key: tuple[Any, ...] = tuple([getattr(arg, "ndim", None) for arg in args])
        if self.has_dtypes:
            key += tuple([getattr(arg, "dtype", None) for arg in args])
        form = self._form_keys.get(key)
        if form is None:
            scope = Activation({}, {})
            pairs = zip(params, args, strict=True)
            values = [(p, argument_value(p, a, self.name, _shaped)) for p, a in pairs]
            match([(p.struct_info, value, self._where(p)) for p, value in values], scope)
            if any(variable not in scope.sizes for variable in self.variables):
                return None
            form = tuple([known(scope.sizes[variable]) for variable in self.variables])
            if None not in key:
                self._form_keys[key] = form
        return form

    def _where(self, param: Var) -> str:
        return f"{self.name}: parameter {param.name}"

    def _compiled_form(self, form: Form) -> Any:
        """Returns the executable for these ranks and dtypes; None if it is invalid for them."""
        function = self._of_form(form)  # if None, the op itself reports the error at run time
        return None if function is None else self.compiled(function)

    def _of_form(self, form: Form) -> Function | None:
        """Returns the function for these ranks and dtypes; None if it is invalid for them."""
        try:
            return OfForm(dict(zip(self.variables, form, strict=True))).instance(self.function)
        except DiagnosticError:
            return None

    def sample(self) -> Function | None:
        """Returns the function for ranks and dtypes for which it is valid; None without any."""
        dtypes = SAMPLE_DTYPES if self.has_dtypes else SAMPLE_DTYPES[:1]
        ranks = SAMPLE_RANKS if RowVar in map(type, self.variables) else SAMPLE_RANKS[:1]
        for dtype, rank in product(dtypes, ranks):
            is_dtype = [type(variable) is DtypeVar for variable in self.variables]
            function = self._of_form(tuple([dtype if each else rank for each in is_dtype]))
            if function is not None:
                return function
        return None


def _shaped(info: Any, value: Value) -> Value:
    """Returns a value with the shape and dtype of an argument, which may be on a device."""
    value = in_field_order(info, value)
    if isinstance(value, tuple) and isinstance(info, TupleStructInfo):
        return tuple([_shaped(*pair) for pair in zip(info.fields, value, strict=False)])
    dtype = getattr(value, "dtype", None)
    if isinstance(value, np.ndarray) or not isinstance(dtype, np.dtype):
        return as_value(info, value)
    return np.broadcast_to(np.zeros((), dtype), value.shape)
