"""Dtype inference: completes dtypes from operands, forward through ops and calls of functions.

A function whose parameters leave dtypes open is generalised: each call infers the dtypes of the
body for the dtypes of its arguments. A match_cast of a parameter also completes the parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from structir.analysis.erasure import with_fields
from structir.analysis.lattice import unify_to_lca
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
from structir.ir.expr import (
    Binding,
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
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import OBJECT, StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.program.value_trees import tensors


def complete_dtypes(module: IRModule, fixed: Collection[str] = ()) -> IRModule:
    """Returns the module with every dtype that follows from operands and match_casts.

    The functions `fixed` keep their signatures.
    """
    inference = _DtypeInference(module)
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and name not in fixed and _has_open_dtype(function):
            functions[name] = inference.complete(function)
    same = all(functions[name] is function for name, function in module.functions.items())
    return module if same else module.with_functions(functions)


def _has_open_dtype(function: Function) -> bool:
    infos = [param.struct_info for param in function.params]
    infos += [binding.var.struct_info for binding in function.bindings()]
    return any(map(_is_open, [*infos, function.ret_struct_info]))


def _is_open(info: StructInfo | None) -> bool:
    """Returns whether a tensor in a StructInfo has no dtype."""
    return any(part.dtype is None for part in tensors(info))


def _fill(info: Any, source: StructInfo | None) -> Any:
    """Returns a StructInfo with the dtypes that only `source` has."""
    if isinstance(info, TupleStructInfo) and isinstance(source, TupleStructInfo):
        if len(info.fields) != len(source.fields):
            return info
        pairs = zip(info.fields, source.fields, strict=True)
        fields = tuple([_fill(field, part) for field, part in pairs])
        same = all(a is b for a, b in zip(fields, info.fields, strict=True))
        return info if same else TupleStructInfo(fields)
    if not isinstance(info, TensorStructInfo) or not isinstance(source, TensorStructInfo):
        return info
    if info.dtype is not None or source.dtype is None:
        return info
    return with_fields(info, lambda name, _, value: source.dtype if name == "dtype" else value)


class _DtypeInference:
    """The dtypes of a module's functions at their calls, memoized."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.results: dict[Any, StructInfo] = {}
        self.active: set[str] = set()  # functions being evaluated, for recursive calls

    def complete(self, function: Function) -> Function:
        """Returns a function with completed dtypes."""
        casts = _casts(function)
        infos = [_fill(param.struct_info, casts.get(param)) for param in function.params]
        return _DtypeEvaluation(self).function(function, infos)

    def result(
        self, callee: GlobalVar, infos: Sequence[StructInfo], callees: Mapping[int, GlobalVar]
    ) -> StructInfo:
        """Returns the StructInfo of a call; `callees` are its arguments that are functions."""
        function = self.module.functions.get(callee.name)
        if (
            not isinstance(function, Function)
            or callee.name in self.active
            or len(infos) != len(function.params)
        ):
            return OBJECT
        key = (callee.name, tuple(infos), tuple([(k, v.name) for k, v in callees.items()]))
        if key not in self.results:
            self.active.add(callee.name)
            body = _DtypeEvaluation(self, {function.params[k]: v for k, v in callees.items()})
            params = [_fill(p.struct_info, i) for p, i in zip(function.params, infos, strict=True)]
            try:
                self.results[key] = body.function(function, params).ret_struct_info
            finally:
                self.active.remove(callee.name)
        return self.results[key]


def _casts(function: Function) -> dict[Expr, StructInfo]:
    """Returns the StructInfos to which every run of a function casts its parameters."""
    params = set(function.params)
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    casts = [b for b in bindings if isinstance(b, MatchCast) and isinstance(b.value, Var)]
    return {cast.value: cast.struct_info for cast in reversed(casts) if cast.value in params}


class _DtypeEvaluation:
    """One evaluation of a function's body."""

    def __init__(
        self, inference: _DtypeInference, callees: Mapping[Var, GlobalVar] | None = None
    ) -> None:
        self.inference = inference
        self.variables: dict[Var, Expr] = {}
        self.callees = dict(callees or {})  # variables that are functions of the module
        self.branches = 0  # depth of conditionals, which need not run

    def function(self, function: Function, infos: Iterable[StructInfo]) -> Function:
        """Returns the function with parameters of these StructInfos."""
        pairs = zip(function.params, infos, strict=True)
        params = tuple([self.variable(param, info) for param, info in pairs])
        body = self.sequence(function.body)
        result = _fill(function.ret_struct_info, body.body.struct_info)
        same = body is function.body and result is function.ret_struct_info
        if same and all(a is b for a, b in zip(params, function.params, strict=True)):
            return function
        return replace(function, params=params, body=body, ret_struct_info=result)

    def variable(self, var: Any, info: StructInfo) -> Any:
        """Defines a variable with a completed StructInfo."""
        if info is var.struct_info:
            return var
        self.variables[var] = completed = type(var)(var.name, info, var.span)
        if var in self.callees:
            self.callees[completed] = self.callees[var]
        return completed

    def sequence(self, body: SeqExpr) -> SeqExpr:
        """Returns a sequence with completed bindings."""
        blocks = tuple(
            [
                replace(block, bindings=tuple(map(self.binding, block.bindings)))
                for block in body.blocks
            ]
        )
        result = self.expr(body.body)
        same = all(
            a is b
            for new, old in zip(blocks, body.blocks, strict=True)
            for a, b in zip(new.bindings, old.bindings, strict=True)
        )
        if same and result is body.body:
            return body
        return replace(body, blocks=blocks, body=result, struct_info=result.struct_info)

    def binding(self, binding: Binding) -> Binding:
        """Returns a binding with a completed variable."""
        value = self.expr(binding.value)
        callee = self.callee(value)
        if callee is not None:
            self.callees[binding.var] = callee
        info = _fill(binding.var.struct_info, value.struct_info)
        var = self.variable(binding.var, info)
        if var is binding.var and value is binding.value:
            return binding
        return replace(binding, var=var, value=value)

    def callee(self, expr: Expr) -> GlobalVar | None:
        """Returns the function of the module that an expression is, or None."""
        if isinstance(expr, GlobalVar):
            return expr
        return self.callees.get(expr) if isinstance(expr, Var) else None

    # Expressions

    def expr(self, expr: Expr) -> Expr:
        """Returns an expression over the completed variables."""
        match expr:
            case Var():
                return self.variables.get(expr, expr)
            case Tuple(fields):
                completed = tuple(map(self.expr, fields))
                same = all(a is b for a, b in zip(completed, fields, strict=True))
                return expr if same else Tuple(completed, span=expr.span)
            case TupleGetItem(inner, index):
                return self.item(expr, self.expr(inner), index)
            case Call():
                return self.call(expr)
            case If():
                return self.conditional(expr)
            case Function() if self.variables:
                free: Expr = Substitution(self.variables).part(expr)
                return free
        return expr

    def item(self, expr: TupleGetItem, inner: Expr, index: int) -> Expr:
        """Returns a field of a completed tuple."""
        info = inner.struct_info
        field = info.fields[index] if isinstance(info, TupleStructInfo) else None
        if inner is expr.tuple_value:
            return expr
        return TupleGetItem(inner, index, _fill(expr.struct_info, field), expr.span)

    def conditional(self, expr: If) -> Expr:
        """Returns a conditional with completed branches."""
        self.branches += 1
        cond = self.expr(expr.cond)
        branches = [self.sequence(b) for b in (expr.true_branch, expr.false_branch)]
        self.branches -= 1
        infos = [_info(branch) for branch in branches]
        info = _fill(expr.struct_info, unify_to_lca(*infos))
        parts = (expr.cond, expr.true_branch, expr.false_branch)
        if all(a is b for a, b in zip((cond, *branches), parts, strict=True)):
            return expr
        return If(cond, branches[0], branches[1], info, expr.span)

    def call(self, call: Call) -> Expr:
        """Returns a call with the dtypes of its result."""
        args = tuple(map(self.expr, call.args))
        same = all(a is b for a, b in zip(args, call.args, strict=True))
        if same and not _is_open(call.struct_info):
            return call
        completed = call if same else replace(call, args=args)
        try:
            info = _fill(call.struct_info, self.result(completed))
        except DiagnosticError as error:
            if self.branches:  # it need not run
                return call if same else completed
            raise _at_call(error, call) from None
        return completed if info is call.struct_info else replace(completed, struct_info=info)

    def result(self, call: Call) -> StructInfo:
        """Returns the StructInfo of a call, of which only the dtypes are used."""
        if isinstance(call.op, Op):
            definition = call.op.definition
            loop = definition.hooks.get("loop")  # type: ignore[attr-defined]
            return self.loop(call, *loop(call)) if loop else definition.deduce(call)
        callee = self.callee(call.op)
        if callee is None:
            return OBJECT
        functions = {k: self.callee(arg) for k, arg in enumerate(call.args)}
        passed = {k: function for k, function in functions.items() if function is not None}
        return self.inference.result(callee, [_info(arg) for arg in call.args], passed)

    def loop(self, call: Call, body: Expr, count: int) -> StructInfo:
        """Returns the StructInfo of a loop: the states keep their dtypes."""
        callee, states, x = self.callee(body), _info(call.args[1]), _info(call.args[2])
        captured = _fields(_info(call.args[3])) if len(call.args) > 3 else ()
        if callee is None:
            return OBJECT
        element = TensorStructInfo(dtype=getattr(x, "dtype", None))
        infos = [*_fields(states), element, *captured]
        step = _fields(self.inference.result(callee, infos, {}))
        return TupleStructInfo((*_fields(states), *step[count:]))


def _info(expr: Expr) -> StructInfo:
    return expr.struct_info or OBJECT


def _fields(info: StructInfo) -> tuple[StructInfo, ...]:
    return info.fields if isinstance(info, TupleStructInfo) else ()


def _at_call(error: DiagnosticError, call: Call) -> StructInfoError:
    """Returns an error with a note at the call that determines the dtypes."""
    if isinstance(call.op, Op):
        return StructInfoError(error.diagnostics)
    first: Diagnostic = error.diagnostics[0]
    note = f"the dtypes follow from the call {call}"
    return StructInfoError([first.note(note, call.span), *error.diagnostics[1:]])
