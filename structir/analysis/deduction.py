"""What is known of each expression that is no op call, and what an annotation may say of it.

Ops deduce from their own lines. The rest is here: calls of functions, tuples, branches, function
results, and the meeting of a user's annotation with what was deduced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import attrs

from structir.analysis.calls import contradicts, derive_call_ret_struct_info
from structir.analysis.kernel_calls import kernel_result
from structir.analysis.lattice import (
    FAIL_L0,
    PASS,
    base_check,
    erase,
    unify_to_lca,
)
from structir.analysis.variables import variables_in
from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError, warn
from structir.ir.binding_dims import bound_dims
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
    """The StructInfo of an expression whose parts are deduced; raises StructInfoError where it is
    wrong."""
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
            Diagnostic(f"{callee_name(call)} is not a function", call.span)
            .note(f"it is {info}", call.op.span)
            .note(f"the call is {call}")
        )
    if isinstance(info, KernelStructInfo):
        return _kernel_call(call, info)
    if info.params is None:
        derive = DERIVE_FUNCS.get(info.derive_func or "")
        return info.ret if derive is None else derive(call)
    return _derived(call, info)


def _derived(call: Call, info: FuncStructInfo) -> StructInfo:
    try:
        return derive_call_ret_struct_info(info, [deduce(a) for a in call.args])
    except DiagnosticError as error:
        name = callee_name(call)
        diagnostic = error.diagnostics[0]
        for argument in call.args:
            place = argument.name if isinstance(argument, Var) else str(argument)
            diagnostic = diagnostic.note(f"{place}: {argument.struct_info}", argument.span)
        message = Diagnostic(
            diagnostic.message,
            call.span,
            name,
            (*diagnostic.notes, *Diagnostic("").note(f"{name}: {info}").notes),
            "give the arguments that its parameters ask for, or match_cast a value known better",
            code=diagnostic.code,
        )
        raise StructInfoError(message) from None


def _kernel_call(call: Call, info: KernelStructInfo) -> StructInfo:
    name = callee_name(call)
    if not call.sinfo_args:
        hint = f"write R.call_kernel({name}, (x, y), out_sinfo=...)"
        message = "a kernel is called by R.call_kernel, which states its results"
        raise StructInfoError(Diagnostic(message, call.span, name, hint=hint).note(f"it is {info}"))
    try:
        return kernel_result(info, [deduce(a) for a in call.args], call.sinfo_args)
    except DiagnosticError as error:
        diagnostic = error.diagnostics[0].at(call.span)
        for argument in call.args:
            if isinstance(argument, Var):
                note = f"{argument.name}: {argument.struct_info}"
                diagnostic = diagnostic.note(note, argument.span)
        diagnostic = diagnostic.note(f"{name}: {info}")
        raise StructInfoError(attrs.evolve(diagnostic, op=name)) from None


def callee_name(call: Call) -> str:
    """What a call calls, as a reader would name it."""
    for field in ("name", "global_symbol"):
        name = getattr(call.op, field, None)
        if isinstance(name, str):
            return name
    return "the callee"


def declared_result(infos: tuple[StructInfo, ...]) -> StructInfo:
    """The result that a call of an opaque function states: one info, several as a tuple, or
    nothing."""
    if len(infos) == 1:
        return infos[0]
    return TupleStructInfo(infos) if infos else OBJECT


def _tuple(value: Tuple) -> StructInfo:
    return TupleStructInfo(tuple([deduce(f) for f in value.fields]))


def _item(value: TupleGetItem) -> StructInfo:
    info = deduce(value.tuple_value)
    if isinstance(info, ObjectStructInfo):
        return OBJECT
    if not isinstance(info, TupleStructInfo):
        raise StructInfoError(
            Diagnostic("only a tuple can be indexed", value.span, "TupleGetItem")
            .note(f"the value is {info}", value.tuple_value.span)
            .hinted("to take elements of a tensor use R.take or R.strided_slice")
        )
    if not -len(info.fields) <= value.index < len(info.fields):
        raise StructInfoError(
            Diagnostic(
                f"there is no field {value.index} in a tuple of {len(info.fields)}",
                value.span,
                "TupleGetItem",
                code="E0208",
            )
            .note(f"the tuple is {info}", value.tuple_value.span)
            .hinted("fields count from 0; -1 is the last")
        )
    return info.fields[value.index]


def _if(value: If) -> StructInfo:
    return unify_to_lca(_outside(value.true_branch), _outside(value.false_branch))


def _outside(branch: SeqExpr) -> StructInfo:
    return branch.struct_info or deduce(branch.body)


_RULES: dict[type, Callable[[Any], StructInfo]] = {
    Call: _call,
    Tuple: _tuple,
    TupleGetItem: _item,
    If: _if,
    SeqExpr: _outside,
    GlobalVar: lambda value: value.struct_info or OBJECT,
}


# ---- scopes ----------------------------------------------------------------------------------


def leave_scope(
    info: StructInfo, symbols: Collection[Sym], variables: Collection[Var]
) -> StructInfo:
    """What an info still says where these symbolic dims and variables are no longer in scope."""
    if not symbols and not variables:
        return info
    kept = {var: var for var in variables_in(info) if var not in variables}
    return erase(info, lambda sym: None if sym in symbols else sym, kept)


def leave_dataflow(info: StructInfo) -> StructInfo:
    """What an info still says after its dataflow block, whose own variables are gone."""
    local = [var for var in variables_in(info) if isinstance(var, DataflowVar)]
    return leave_scope(info, (), local) if local else info


def result_info(
    info: StructInfo, params: Iterable[Var], outside: Collection[Sym] = ()
) -> StructInfo:
    """What a caller may know of a function's result: the dims that its parameters bind, or that it
    sees from `outside`, stay; every other dim and every variable is forgotten."""
    seen = bound_dims([p.struct_info for p in params])
    return erase(info, lambda sym: sym if sym in seen or sym in outside else None)


# ---- annotations -----------------------------------------------------------------------------


def annotate(
    declared: StructInfo,
    deduced: StructInfo,
    what: str,
    span: Span | None,
    value: Expr | None = None,
) -> StructInfo:
    """The info that a value has when it is annotated.

    Nothing declared (Object): what was deduced. Equal or weaker: what was declared, but of a tuple
    written out no less is known than of its fields. Undecidable: what was declared, on trust, with
    a DiagnosticWarning. Provably different: a StructInfoError.
    """
    if declared == OBJECT:
        return deduced
    check = base_check(declared, deduced)
    if check is PASS:
        return deduced if type(value) is Tuple else declared
    if check is FAIL_L0 or contradicts(declared, deduced):
        place = value.span if value is not None else None
        op = callee_name(value) if isinstance(value, Call) else None
        raise StructInfoError(
            Diagnostic(f"the annotation of {what} contradicts its value", span, op, code="E0205")
            .note(f"declared: {declared}", span)
            .note(f"deduced:  {deduced}", place)
            .hinted(
                "correct the annotation, or leave it out: what can be deduced need not be written"
            )
        )
    warn(
        Diagnostic(
            f"the annotation of {what} cannot be decided and is taken on trust",
            span,
            hint="R.match_cast checks it when the program runs",
            severity="warning",
        )
        .note(f"declared: {declared}", span)
        .note(f"deduced:  {deduced}")
    )
    return declared


def are_disjoint(a: StructInfo, b: StructInfo) -> bool:
    """Whether no value can be described by both infos."""
    apart = base_check(a, b) is FAIL_L0 and base_check(b, a) is FAIL_L0
    return apart or contradicts(a, b)


# ---- the table that a test or a notebook asks for ----------------------------------------------


def binding_struct_infos(function: Function) -> dict[str, StructInfo]:
    """The StructInfo of every binding by its path: `x`, `r.then.x`, `r.then.r`, `inner.b`."""
    found: dict[str, StructInfo] = {}
    todo: list[tuple[str, SeqExpr]] = [("", function.body)]
    while todo:
        prefix, seq = todo.pop()
        for binding in seq.bindings():
            name = prefix + binding.var.name
            found[name] = binding.var.struct_info
            value = binding.value
            if isinstance(value, Function):
                todo.append((f"{name}.", value.body))
            elif isinstance(value, If):
                for side, branch in (("then", value.true_branch), ("else", value.false_branch)):
                    todo.append((f"{name}.{side}.", branch))
                    found.setdefault(f"{name}.{side}.{binding.var.name}", _outside_of(branch))
    return found


def _outside_of(branch: SeqExpr) -> StructInfo:
    info: StructInfo = branch.body.struct_info
    return info
