"""StructInfo deduction of expressions other than op calls, and checks of annotations.

Ops deduce from their index signatures. This module covers function calls, tuples, branches and
function results, and compares annotations with deduced StructInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import attrs

from structir.analysis.calls import derive_call_ret_struct_info
from structir.analysis.declaration import analysis
from structir.analysis.erasure import erase
from structir.analysis.kernel_calls import kernel_result
from structir.analysis.lattice import (
    FAIL_L0,
    PASS,
    base_check,
    unify_to_lca,
)
from structir.analysis.variables import variables_in
from structir.analysis.vdevices import with_vdevices_of
from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError, warn
from structir.ir.binding_dims import bound_dims
from structir.ir.dim_text import one_message
from structir.ir.dims import Sym
from structir.ir.expr import (
    Call,
    DataflowVar,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.ir.struct_info import (
    DERIVE_FUNCS,
    OBJECT,
    FuncStructInfo,
    KernelStructInfo,
    ObjectStructInfo,
    StructInfo,
    TupleStructInfo,
)


def deduce(value: Expr) -> StructInfo:
    """Returns the StructInfo of an expression with deduced parts.

    Raises StructInfoError if it is invalid.
    """
    rule = _RULES.get(type(value))
    if rule is not None:
        return rule(value)
    info: StructInfo | None = value.struct_info
    return OBJECT if info is None else info


def _call(call: Call) -> StructInfo:
    if isinstance(call.op, Op):
        return call.op.definition.deduce(call)
    info = call.op.struct_info
    if isinstance(call.op, ExternFunc) and getattr(info, "derive_func", None) is None:
        return declared_result(call.sinfo_args)
    if not isinstance(info, FuncStructInfo):
        if info is None or isinstance(info, ObjectStructInfo):
            return OBJECT
        raise StructInfoError(
            Diagnostic(
                f"{callee_name(call)} is not callable: it is {info}", call.span, code="E0211"
            )
            .note(f"defined as {info}", call.op.span)
            .note(f"in the call {call}")
        )
    if isinstance(info, KernelStructInfo):
        return _kernel_call(call, info)
    result = info.ret if info.params is None else _function_call(call, info)
    return DERIVE_FUNCS[info.derive_func](call) if info.derive_func else result


def _function_call(call: Call, info: FuncStructInfo) -> StructInfo:
    """Infers a call; a message names different dims differently."""
    try:
        return _infer_call(call, info)
    except DiagnosticError:
        pass  # a scope for names on success would slow each call
    with one_message(*[arg.struct_info for arg in call.args]):
        return _infer_call(call, info)


def _infer_call(call: Call, info: FuncStructInfo) -> StructInfo:
    try:
        return derive_call_ret_struct_info(info, [deduce(a) for a in call.args])
    except DiagnosticError as error:
        name = callee_name(call)
        diagnostic = error.diagnostics[0]
        for argument in dict.fromkeys(call.args):
            text = argument.name if isinstance(argument, Var) else str(argument)
            diagnostic = diagnostic.note(f"{text}: {argument.struct_info}", argument.span)
        message = Diagnostic(
            diagnostic.message,
            call.span,
            name,
            (*diagnostic.notes, *Diagnostic("").note(f"{name}: {info}").notes),
            diagnostic.hint or _call_hint(name, info),
            code=diagnostic.code,
        )
        raise StructInfoError(message) from None


def _call_hint(name: str, info: FuncStructInfo) -> str | None:
    """Returns the form of a call with one argument for each parameter."""
    if info.params is None or len(info.params) > len(LETTERS):
        return None
    arguments = ", ".join(LETTERS[: len(info.params)])
    return f"pass one argument for each parameter: `{name}({arguments})`"


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _kernel_call(call: Call, info: KernelStructInfo) -> StructInfo:
    name = callee_name(call)
    if not call.sinfo_args:
        args = ", ".join([str(arg) for arg in call.args]) + "," * (len(call.args) == 1)
        hint = f"`R.call_kernel(cls.{name}, ({args}), out_sinfo=...)`"
        diagnostic = Diagnostic("kernels are called with R.call_kernel", call.span, name, hint=hint)
        raise StructInfoError(diagnostic.note(f"{name}: {info}").coded("E0212"))
    with one_message():
        return _kernel_result(call, info, name)


def _kernel_result(call: Call, info: KernelStructInfo, name: str) -> StructInfo:
    try:
        return kernel_result(info, [deduce(a) for a in call.args], call.sinfo_args)
    except DiagnosticError as error:
        diagnostic = error.diagnostics[0].at(call.span)
        for argument in dict.fromkeys(call.args):
            if isinstance(argument, Var):
                note = f"{argument.name}: {argument.struct_info}"
                diagnostic = diagnostic.note(note, argument.span)
        diagnostic = diagnostic.note(f"{name}: {info}")
        raise StructInfoError(attrs.evolve(diagnostic, op=name)) from None


def callee_name(call: Call) -> str:
    """Returns the name of a call's callee for messages."""
    for field in ("name", "global_symbol"):
        name = getattr(call.op, field, None)
        if isinstance(name, str):
            return name
    return "the callee"


def declared_result(infos: tuple[StructInfo, ...]) -> StructInfo:
    """Returns the declared result of an opaque call: one StructInfo, a tuple, or Object."""
    if len(infos) == 1:
        return infos[0]
    return TupleStructInfo(infos) if infos else OBJECT


def _tuple(value: Tuple) -> StructInfo:
    return TupleStructInfo(tuple([deduce(f) for f in value.fields]), value.names)


def _item(value: TupleGetItem) -> StructInfo:
    info = deduce(value.tuple_value)
    if isinstance(info, ObjectStructInfo):
        return OBJECT
    if not isinstance(info, TupleStructInfo):
        name = getattr(value.tuple_value, "name", "x")
        hint = f"only tuples and tensors have parts: write `{name}`"
        raise StructInfoError(
            Diagnostic(f"cannot index: expected a tuple, found {info}", value.span, code="E0209")
            .note(f"the value is {info}", value.tuple_value.span)
            .hinted(hint)
        )
    if not -len(info.fields) <= value.index < len(info.fields):
        raise StructInfoError(
            Diagnostic(
                f"tuple index {value.index} out of range for a {len(info.fields)}-tuple",
                value.span,
                code="E0208",
            )
            .note(f"the tuple is {info}", value.tuple_value.span)
            .hinted(f"use an index from {-len(info.fields)} to {len(info.fields) - 1}")
        )
    return info.fields[value.index]


def _if(value: If) -> StructInfo:
    return unify_to_lca(_branch_info(value.true_branch), _branch_info(value.false_branch))


def _branch_info(branch: SeqExpr) -> StructInfo:
    return branch.struct_info or deduce(branch.body)


_RULES: dict[type, Callable[[Any], StructInfo]] = {
    Call: _call,
    Tuple: _tuple,
    TupleGetItem: _item,
    If: _if,
    SeqExpr: _branch_info,
    GlobalVar: lambda value: value.struct_info or OBJECT,
}


# Scopes


def leave_scope(
    info: StructInfo, symbols: Collection[Sym], variables: Collection[Var]
) -> StructInfo:
    """Returns a StructInfo with these dims and variables erased, as outside their scope."""
    if not symbols and not variables:
        return info
    hidden = set(variables)
    remaining = {var: var for var in variables_in(info) if var not in hidden}
    return erase(info, lambda sym: None if sym in symbols else sym, remaining)


def leave_dataflow(info: StructInfo) -> StructInfo:
    """Returns a StructInfo with dataflow variables erased, as outside their block."""
    local = [var for var in variables_in(info) if isinstance(var, DataflowVar)]
    return leave_scope(info, (), local) if local else info


def result_info(
    info: StructInfo, params: Iterable[Var], outside: Collection[Sym] = ()
) -> StructInfo:
    """Returns a function's result type for callers.

    Erases all variables, and the dims that neither parameters nor `outside` bind.
    """
    param_dims = bound_dims([p.struct_info for p in params])
    return erase(info, lambda sym: sym if sym in param_dims or sym in outside else None)


# Annotations


def annotate(
    declared: StructInfo,
    deduced: StructInfo,
    subject: str,
    span: Span | None,
    value: Expr | None = None,
    *,
    as_written: bool = False,
) -> StructInfo:
    """Returns the StructInfo of an annotated value.

    The result is the deduced StructInfo for tuple expressions unless `as_written`, else the
    annotation. An undecidable annotation is assumed, with a DiagnosticWarning.
    Raises StructInfoError if the annotation provably differs.
    """
    check = base_check(declared, deduced)
    if check is PASS:
        warn_of_names(declared, deduced, f"the annotation of {subject}", span)
        is_inferred = type(value) is Tuple and not as_written
        return _with_names(deduced, declared) if is_inferred else declared
    placed = with_vdevices_of(deduced, declared)
    if placed is not deduced and (base_check(declared, placed) is PASS):
        return declared  # an annotation chooses an unknown vdevice
    with one_message(deduced):
        return _reject_or_assume(declared, deduced, check, subject, span, value)


def warn_of_names(
    expected: StructInfo, actual: StructInfo, subject: str, span: Span | None
) -> None:
    """Warns where the fields of two tuples, which are matched by position, have different names."""
    if not isinstance(expected, TupleStructInfo) or not isinstance(actual, TupleStructInfo):
        return
    names, others = expected.names, actual.names
    if names is None or others is None or names == others:
        for field, other in zip(expected.fields, actual.fields, strict=False):
            warn_of_names(field, other, subject, span)
        return
    message = f"{subject}: expected the fields {', '.join(names)}, found {', '.join(others)}; "
    message += "fields are matched by position, not by name"
    hint = f"build the tuple in this order: `R.tuple({', '.join([f'{n}=...' for n in names])})`"
    warn(Diagnostic(message, span, hint=hint, severity="warning"))


def _with_names(info: StructInfo, declared: StructInfo) -> StructInfo:
    """Returns the StructInfo of a tuple with the names that an annotation gives its fields."""
    if not isinstance(info, TupleStructInfo) or not isinstance(declared, TupleStructInfo):
        return info
    fields = tuple(map(_with_names, info.fields, declared.fields))
    return TupleStructInfo(fields, declared.names or info.names)


def _reject_or_assume(
    declared: StructInfo,
    deduced: StructInfo,
    check: int,
    subject: str,
    span: Span | None,
    value: Expr | None,
) -> StructInfo:
    if check is FAIL_L0:
        value_span = value.span if value is not None else None
        op = callee_name(value) if isinstance(value, Call) else None
        message = f"the annotation of {subject} contradicts its value"
        diagnostic = Diagnostic(message, span, op, code="E0205", label=f"expected {declared}")
        hint = f"annotate with {deduced}, or omit the annotation"
        raise StructInfoError(diagnostic.note(f"found {deduced}", value_span).hinted(hint))
    message = f"cannot prove the annotation of {subject}; assuming it holds"
    hint = f"check it at run time: `R.match_cast(..., {declared})`"
    label = f"expected {declared}"
    diagnostic = Diagnostic(message, span, hint=hint, severity="warning", label=label)
    warn(diagnostic.note(f"found {deduced}", value.span if value is not None else None))
    return declared


def check_cast(
    value: Expr, info: StructInfo, span: Span | None, info_span: Span | None = None
) -> None:
    """Raises StructInfoError if no value can have both StructInfos of a match_cast."""
    inferred = deduce(value)
    if base_check(info, inferred) is FAIL_L0 and base_check(inferred, info) is FAIL_L0:
        name = getattr(value, "name", "value")
        message = f"StructInfo mismatch: expected {info}, found {inferred}"
        diagnostic = Diagnostic(message, span, "match_cast", code="E0206")
        if info_span is not None:
            diagnostic = diagnostic.note("expected", info_span)
        hint = f"convert the value with `R.astype` or `R.reshape`, or cast to {inferred}"
        raise StructInfoError(diagnostic.note(f"{name}: {inferred}", value.span).hinted(hint))


# StructInfo of all bindings


@analysis
def binding_struct_infos(function: Function) -> dict[str, StructInfo]:
    """Returns the StructInfo of every binding by its path: `x`, `r.then.x`, `inner.b`."""
    infos: dict[str, StructInfo] = {}
    todo: list[tuple[str, SeqExpr]] = [("", function.body)]
    while todo:
        prefix, seq = todo.pop()
        for binding in seq.bindings():
            name = prefix + binding.var.name
            infos[name] = binding.var.struct_info
            value = binding.value
            if isinstance(value, Function):
                todo.append((f"{name}.", value.body))
            elif isinstance(value, If):
                for side, branch in (("then", value.true_branch), ("else", value.false_branch)):
                    todo.append((f"{name}.{side}.", branch))
                    infos.setdefault(f"{name}.{side}.{binding.var.name}", _result_of_branch(branch))
    return infos


def _result_of_branch(branch: SeqExpr) -> StructInfo:
    info: StructInfo = branch.body.struct_info
    return info
