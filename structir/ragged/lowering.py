"""Expresses functions of ragged tensors with ops on the values and the rows of their operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.analysis.deduction import deduce
from structir.analysis.lattice import PASS, base_check
from structir.analysis.substitution import Substitution
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
from structir.ir.dims import Dim, as_sym, sym
from structir.ir.expr import (
    Binding,
    Call,
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
from structir.ir.module import IRModule
from structir.ir.node import rebuild, replace
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.opdef.batched_op import Path
from structir.ops.ragged import check_ragged, has_ragged_axis
from structir.ragged.flattening import DenseForm, flattened, operand_paths
from structir.ragged.parts import PartsScope, RaggedParts, with_all_sizes
from structir.ragged.reductions import reduced
from structir.ragged.row_calls import computed_row_by_row
from structir.ragged.rules import RULES

Value = Expr | RaggedParts


class RaggedLowering:
    """Rebuilds one function; its parameters and its result keep their StructInfo."""

    def __init__(self, module: IRModule) -> None:
        self.builder = BlockBuilder(module)
        self.scope = PartsScope(self.builder)
        self.substitution = Substitution()

    def function(self, name: str, function: Function) -> Function:
        """Returns a function without ops on ragged tensors, except for those on their parts."""
        options: dict[str, Any] = {"pure": function.is_pure, "attrs": function.attrs}
        with self.builder.function(name, function.params, **options):
            result = self.sequence(function.body)
            self.builder.emit_func_output(result)
        built: Any = self.builder.functions[name]
        info, span = function.ret_struct_info, function.span
        lowered: Function = replace(built, ret_struct_info=info, span=span)
        return lowered

    def sequence(self, seq: SeqExpr) -> Expr:
        """Emits the bindings of a sequence; returns its result."""
        for block in seq.blocks:
            for binding in block.bindings:
                self.binding(binding)
        return self.plain(seq.body)

    def plain(self, part: Any) -> Expr:
        """Returns an expression with the new variables, and ragged tensors as such."""
        value = self.substitution.part(part)
        if isinstance(value, RaggedParts):
            return self.scope.tensor(value)
        if isinstance(value, Var | Op) or not isinstance(value, Expr):
            return value
        return rebuild(value, self._tensors)

    def _tensors(self, part: Any) -> Any:
        if isinstance(part, RaggedParts):
            return self.scope.tensor(part)
        return rebuild(part, self._tensors) if isinstance(part, Tuple) else part

    # ---- bindings

    def binding(self, binding: Binding) -> None:
        """Emits one binding."""
        value = binding.value
        if isinstance(value, If):
            self.bind(binding, self.conditional(value))
        elif isinstance(binding, MatchCast):
            self.match_cast(binding)
        elif isinstance(value, Function):
            self.bind(binding, self.closure(value, binding.var.name))
        elif isinstance(value, Call) and isinstance(value.op, Op) and self.is_ragged(value):
            self.bind(binding, self.call(self.substitution.part(value), binding.var))
        elif isinstance(value, Var):
            self.substitution.variables[binding.var] = self.substitution.part(value)
        else:
            self.take(binding, self.plain(value))

    def take(self, binding: Binding, value: Expr) -> None:
        """Emits a binding with a new value, whose StructInfo is inferred again."""
        old, info = binding.var, self.substitution.info(binding.var.struct_info)
        if isinstance(value, Call):
            value = self.deduced(binding.value, value)
            inferred: Any = value.struct_info
            info = inferred if base_check(info, inferred) is PASS else info
        var = Var(old.name, info, old.span)
        self.substitution.variables[old] = var
        self.substitution.infos.clear()
        self.builder.take(VarBinding(var, value, binding.span))

    def deduced(self, call: Any, lowered: Call) -> Call:
        """Returns a lowered call with its StructInfo.

        Sizes that have names only since the lowering may leave it open whether an argument is one
        of its parameter. They are unknown in the call then, as they are in the program.
        """
        try:
            return replace(lowered, struct_info=deduce(lowered))
        except StructInfoError:
            pairs = zip(lowered.args, call.args, strict=True)
            args = tuple([self._as_known_before(*pair) for pair in pairs])
            lowered = replace(lowered, args=args)
            return replace(lowered, struct_info=deduce(lowered))

    def _as_known_before(self, arg: Expr, old: Expr) -> Expr:
        """Returns an argument with what the program knows of it."""
        info = old.struct_info
        if not isinstance(info, TensorStructInfo) or has_ragged_axis(info):
            return arg
        info = self.substitution.info(info)
        return arg if info == arg.struct_info else self.builder.match_cast(arg, info)

    def bind(self, binding: Binding, value: Value) -> None:
        """Makes a value that of the variable of a binding."""
        if isinstance(value, Expr) and not isinstance(value, Var):
            value = self.builder.emit(value, binding.var.name)
        self.substitution.variables[binding.var] = value

    def match_cast(self, binding: MatchCast) -> None:
        """Emits a match_cast; of a ragged tensor, those of its parts."""
        value = self.substitution.part(binding.value)
        info: Any = self.substitution.info(binding.struct_info)
        ragged = isinstance(value, RaggedParts) or has_ragged_axis(value.struct_info)
        if not ragged or not has_ragged_axis(info):
            old, plain = binding.var, self.plain(binding.value)
            var = Var(old.name, self.substitution.info(old.struct_info), old.span)
            self.substitution.variables[old] = var  # with what is known of the value besides
            self.substitution.infos.clear()
            self.builder.take(MatchCast(var, plain, info, binding.span))
            return
        parts = value if isinstance(value, RaggedParts) else self.scope.parts_of(value)
        position = check_ragged(info)
        leading, inner = info.axes[:position], info.axes[position + 1 :]
        dtype = info.element
        if all([as_sym(axis) is not None or type(axis) is int for axis in (*leading, *inner)]):
            rows = TensorStructInfo(leading, "int64")
            starts = self.builder.match_cast(parts.rows.starts, rows)
            limits = self.builder.match_cast(parts.rows.limits, rows)
            cast = TensorStructInfo((parts.rows.total, *inner), dtype)
            values = self.builder.match_cast(parts.values, cast)
            own = attrs.evolve(
                parts.rows,
                leading=leading,
                starts=starts,
                limits=limits,
                flat=None,
                lengths=None,
            )
            parts = RaggedParts(values, own)
        self.substitution.variables[binding.var] = parts

    def conditional(self, value: If) -> Expr:
        """Emits a conditional."""
        outer, variables = self.scope, dict(self.substitution.variables)

        def branch(seq: SeqExpr) -> Expr:
            self.scope = outer.copy()
            self.substitution.variables = dict(variables)
            try:
                return self.sequence(seq)
            finally:
                self.scope, self.substitution.variables = outer, variables

        return self.builder.if_else(
            self.plain(value.cond),
            lambda: branch(value.true_branch),
            lambda: branch(value.false_branch),
        )

    def closure(self, function: Function, name: str) -> Expr:
        """Emits a nested function."""
        outer, variables = self.scope, dict(self.substitution.variables)
        self.scope = outer.copy()
        params = tuple(
            [Var(p.name, self.substitution.info(p.struct_info)) for p in function.params]
        )
        self.substitution.variables = {
            **variables,
            **dict(zip(function.params, params, strict=True)),
        }
        try:
            return self.builder.local_function(params, lambda: self.sequence(function.body), name)
        finally:
            self.scope, self.substitution.variables = outer, variables

    # ---- calls of ops

    def is_ragged(self, call: Call) -> bool:
        """Whether an operand of a call, or its result, is a ragged tensor."""
        operands = [self.substitution.part(value) for _, value in operand_paths(call)]
        return any(map(_is_ragged, [call, *operands]))

    def call(self, call: Call, var: Var) -> Value:
        """Returns the value of a call with ragged operands or a ragged result."""
        span = call.span or var.span
        try:
            return self._lowered(call, var.name)
        except DiagnosticError as error:
            located = [
                attrs.evolve(d.at(span), op=d.op or call.op.name)  # type: ignore[attr-defined]
                for d in error.diagnostics
            ]
            raise type(error)(located) from None

    def _lowered(self, call: Call, name: str) -> Value:
        call = replace(call, args=tuple([self.as_fields(arg) for arg in call.args]))
        operands = dict(operand_paths(call))
        ragged: dict[Path, RaggedParts] = {}
        for path, value in operands.items():
            if isinstance(value, RaggedParts):
                ragged[path] = value
            elif has_ragged_axis(getattr(value, "struct_info", None)):
                ragged[path] = self.scope.parts_of(value)
        rule = RULES.get(call.op.name)  # type: ignore[attr-defined]
        if rule is not None:
            result = rule(call, operands, ragged, self.scope)
            if result is not None:
                return result
        return self.derived(call, ragged)

    def as_fields(self, arg: Any) -> Any:
        """Returns a tuple variable with ragged fields as a tuple of its fields.

        The unknown sizes of a dense operand become dims.
        """
        if isinstance(arg, Tuple):
            return Tuple(tuple(map(self.as_fields, arg.fields)))
        info = getattr(arg, "struct_info", None)
        if isinstance(info, TensorStructInfo) and isinstance(arg, Expr):
            sizes = with_all_sizes(info)
            return arg if sizes is info else self.builder.match_cast(arg, sizes)
        if not isinstance(info, TupleStructInfo):
            return arg
        count = len(info.fields) if any(map(has_ragged_axis, info.fields)) else 0
        fields = [self.builder.emit(TupleGetItem(arg, k)) for k in range(count)]
        return self.as_fields(Tuple(tuple(fields))) if count else arg

    def derived(self, call: Call, ragged: Mapping[Path, RaggedParts]) -> Value:
        """Returns a call over the values, a reduction of each row, or a lowered decomposition."""
        form = self.dense_form(call, ragged)
        if form is not None:
            flat = flattened(form, self.scope)
            if flat is not None:
                return self.with_rows(self.builder.emit(flat), form)
            result = reduced(form, self.scope)
            if result is not None:
                return result
        parts = self.decomposed(call, ragged)
        if parts is None and form is not None:
            parts = computed_row_by_row(form, self.scope)
        if parts is not None:
            return parts
        raise _unsupported(call, ragged)

    def with_rows(self, values: Expr, form: DenseForm) -> Value:
        """Returns the results of a call over the values as ragged tensors."""
        info = values.struct_info
        if isinstance(info, TensorStructInfo):
            return RaggedParts(values, form.rows)
        if not isinstance(info, TupleStructInfo):
            raise _unsupported(form.call, form.ragged)
        fields = [self.builder.emit(TupleGetItem(values, k)) for k in range(len(info.fields))]
        parts = [RaggedParts(field, form.rows) for field in fields]
        return Tuple(tuple([self.scope.tensor(each) for each in parts]))

    def dense_form(self, call: Call, ragged: Mapping[Path, RaggedParts]) -> DenseForm | None:
        """Returns the call with a dense axis in place of the ragged one."""
        if not ragged:
            return None
        where = f"{call.op.name}{'' if call.span is None else f' at {call.span}'}"  # type: ignore[attr-defined]
        rows = next(iter(ragged.values())).rows
        aligned = {path: self.scope.with_rows(p, rows, where) for path, p in ragged.items()}
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        if not hasattr(definition, "signature"):
            return None
        leading = tuple([sym(f"n{k}") for k in range(len(rows.leading))])
        error: StructInfoError | None = None
        for equal_rows in (False, True):
            args = _dense_args(call, aligned, leading, equal_rows)
            dense = replace(call, args=args, struct_info=None)
            try:
                dense = replace(dense, struct_info=definition.deduce(dense))
                spec = definition.index_spec(dense)
            except StructInfoError as failure:
                error = failure
                continue
            form = None if spec is None else DenseForm(dense, call, spec, aligned, rows, leading)
            if form is None or equal_rows or form.is_decided:
                return form
        raise _unsupported(call, ragged, error)

    def decomposed(self, call: Call, ragged: Mapping[Path, RaggedParts]) -> Value | None:
        """Returns the decomposition of a composite op, lowered."""
        args = list(call.args)
        for (first, *rest), parts in ragged.items():
            if rest:
                return None
            args[first] = self.scope.tensor(parts)
        whole = replace(call, args=tuple(args))
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        try:
            parts_expr = definition.decompose(whole)
        except (DiagnosticError, TypeError, AttributeError):
            return None
        return None if parts_expr is None else self.expression(parts_expr, {})

    def expression(self, expr: Expr, known: dict[int, Value]) -> Value:
        """Returns the value of a nested expression, each part of it computed once."""
        if not isinstance(expr, Call):
            return self.scope.parts.get(expr, expr)
        if id(expr) not in known:
            args = tuple([self.expression(arg, known) for arg in expr.args])
            ragged = any(map(_is_ragged, args))
            call = replace(expr, args=args)
            known[id(expr)] = self._lowered(call, "") if ragged else self.builder.emit(call)
        return known[id(expr)]


def _is_ragged(value: Any) -> bool:
    info = getattr(value, "struct_info", None)
    fields = info.fields if isinstance(info, TupleStructInfo) else ()
    return isinstance(value, RaggedParts) or any(map(has_ragged_axis, (info, *fields)))


def _dense_args(
    call: Call, ragged: Mapping[Path, RaggedParts], leading: tuple[Dim, ...], equal_rows: bool
) -> tuple[Expr, ...]:
    """Returns the arguments with dense axes; with `equal_rows`, dense operands have as many slices
    as there are rows, or one."""
    size = sym("length")
    operands: dict[Path, Expr] = {}
    rank = max([len(parts.struct_info.axes or ()) for parts in ragged.values()])
    for path, value in operand_paths(call):
        if path in ragged:
            operands[path] = Var("operand", ragged[path].dense_info((*leading, size)))
            continue
        info: Any = value.struct_info
        sizes = getattr(info, "dims", None)
        if equal_rows and type(info) is TensorStructInfo and type(sizes) is tuple:
            offset = rank - len(sizes)
            changed = [
                leading[k + offset] if 0 <= k + offset < len(leading) and dim != 1 else dim
                for k, dim in enumerate(sizes)
            ]
            operands[path] = Var("operand", TensorStructInfo(tuple(changed), info.element))
    return tuple([_dense_arg(k, arg, operands) for k, arg in enumerate(call.args)])


def _dense_arg(position: int, arg: Expr, operands: Mapping[Path, Expr]) -> Expr:
    if isinstance(arg, Tuple):
        fields = [operands.get((position, n), field) for n, field in enumerate(arg.fields)]
        return Tuple(tuple(fields))
    return operands.get((position,), arg)


def _unsupported(
    call: Call, ragged: Mapping[Path, RaggedParts], error: DiagnosticError | None = None
) -> StructInfoError:
    """Returns the error of an op that needs a dense axis."""
    op: Any = call.op
    definition = op.definition
    result = getattr(call.args[0].struct_info, "ret", None)
    if has_ragged_axis(result):
        message = f"expected a function with a dense result, found {result}"
        hint = "pad the rows of its result: `R.ragged.to_padded(result)`"
        return StructInfoError(Diagnostic(message, call.span, op.name, hint=hint, code="E0219"))
    if not ragged:  # coarse annotations hide which operand is ragged
        message = f"expected an operand with a ragged axis, found {call.args[0].struct_info}"
        hint = f"remove the annotation that is less precise than {call.struct_info}"
        return StructInfoError(Diagnostic(message, call.span, op.name, hint=hint, code="E0219"))
    path, parts = next(iter(ragged.items()))
    names = definition.argument_names
    name = names[path[0]] if path[0] < len(names) else "operand"
    axis = len(parts.rows.leading)
    message = f"expected a dense axis {axis} of {name}, found a ragged axis"
    if error is not None:
        message = f"{message}: {error.diagnostics[0].message}"
    shown = parts.tensor.name if isinstance(parts.tensor, Var) else name
    hint = f"pad the rows: `R.ragged.to_padded({shown})`"
    return StructInfoError(Diagnostic(message, call.span, call.op.name, hint=hint, code="E0219"))  # type: ignore[attr-defined]
