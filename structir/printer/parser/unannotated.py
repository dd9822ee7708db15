"""StructInfo of parameters without annotation, from the form of their uses in the body."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from structir.analysis.loop_view import LoopView
from structir.errors import DiagnosticError
from structir.ir.expr import Call, Var
from structir.ir.op import find_op
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.printer.parser.context import MAX_NESTING
from structir.printer.parser.values import path_of

UNKNOWN_TENSOR = TensorStructInfo()
MAX_NAMES = 512  # for one parameter: nested tuples grow exponentially through calls
# the targets of a statement, its value, and the names in both
Use: TypeAlias = tuple[list[ast.expr], ast.expr, set[str]]


def info_of_uses(
    name: str, function: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]
) -> StructInfo:
    """Returns the StructInfo that the body requires of a parameter without annotation.

    It is a tensor of unknown rank and dtype. Where the body unpacks the parameter, it is a tuple
    whose fields follow from their own uses. Where the body calls it, it is a function of the
    arguments and the result of the first call. Where the body passes it to one of `functions`,
    those of the module, it has the form of their parameter. Uses behind a rebinding of the name
    are of another value.
    """
    return _Uses(functions, {(function.name, name)}).info(name, [*_uses(function.body)])


@attrs.define
class _Uses:
    """Determines the StructInfo of names by their uses."""

    functions: Mapping[str, ast.FunctionDef]
    active: set[tuple[str, str]]  # names of functions and parameters: calls may be recursive
    remaining: int = MAX_NAMES
    depth: int = 0

    def info(self, name: str, uses: Sequence[Use]) -> StructInfo:
        """Returns the StructInfo that the first use with a form requires of a name."""
        if self.depth == MAX_NESTING or not self.remaining:
            return UNKNOWN_TENSOR
        self.remaining -= 1
        self.depth += 1
        info: StructInfo = UNKNOWN_TENSOR
        for index, (targets, value, names) in enumerate(uses):
            if name not in names:
                continue
            info = self.info_of_use(name, targets, value, uses[index + 1 :])
            if info != UNKNOWN_TENSOR or any(name in _names(target) for target in targets):
                break
        self.depth -= 1
        return info

    def info_of_use(
        self, name: str, targets: Sequence[ast.expr], value: ast.expr, later: Sequence[Use]
    ) -> StructInfo:
        """Returns the StructInfo that one statement requires of a name."""
        if isinstance(value, ast.Name) and value.id == name and targets:
            return self.info_of_target(targets[0], later)
        for call in _calls(value):
            if isinstance(call.func, ast.Name) and call.func.id == name:
                is_bound = bool(targets) and call is value
                result = self.info_of_target(targets[0], later) if is_bound else UNKNOWN_TENSOR
                return FuncStructInfo(tuple(map(_form, call.args)), result)
            body = _loop_body(name, call)
            if body is not None:
                is_bound = bool(targets) and call is value
                result = self.info_of_target(targets[0], later) if is_bound else UNKNOWN_TENSOR
                return body if result == UNKNOWN_TENSOR else FuncStructInfo(body.params, result)
            info = self.info_of_argument(name, call)
            if info != UNKNOWN_TENSOR:
                return info
        return UNKNOWN_TENSOR

    def info_of_target(self, target: ast.expr, later: Sequence[Use]) -> StructInfo:
        """Returns the StructInfo of a value that is bound to a name, or unpacked into names."""
        if isinstance(target, ast.Tuple | ast.List):
            return TupleStructInfo(tuple([self.info_of_target(t, later) for t in target.elts]))
        return self.info(target.id, later) if isinstance(target, ast.Name) else UNKNOWN_TENSOR

    def info_of_argument(self, name: str, call: ast.Call) -> StructInfo:
        """Returns the form of the parameter of a function of the module that takes a name."""
        callee = self.functions.get((path_of(call.func) or "").split(".")[-1])
        params = [] if callee is None else callee.args.args
        passed = [*zip(params, call.args, strict=False)]
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        passed += [(param, named[param.arg]) for param in params if param.arg in named]
        for param, argument in passed:
            if callee and isinstance(argument, ast.Name) and argument.id == name:
                info = self.info_of_param(callee, param)
                if info != UNKNOWN_TENSOR:
                    return info
        return UNKNOWN_TENSOR

    def info_of_param(self, callee: ast.FunctionDef, param: ast.arg) -> StructInfo:
        """Returns the form of a parameter of a function of the module."""
        if param.annotation is not None:
            return _form_of_annotation(param.annotation)
        key = callee.name, param.arg
        if key in self.active:
            return UNKNOWN_TENSOR
        self.active.add(key)
        info = self.info(param.arg, [*_uses(callee.body)])
        self.active.remove(key)
        return info


def _calls(value: ast.expr) -> list[ast.Call]:
    """Returns the calls in an expression, in the order of the text."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda node: (node.lineno, node.col_offset))


def _form(argument: ast.expr) -> StructInfo:
    """Returns the StructInfo of an argument: a tuple where it is written as one."""
    if isinstance(argument, ast.Tuple | ast.List):
        return TupleStructInfo(tuple(map(_form, argument.elts)))
    return UNKNOWN_TENSOR


def _loop_body(name: str, call: ast.Call) -> FuncStructInfo | None:
    """Returns the form of a function that a loop or a combinator applies to slices of operands;
    None for other calls. Its result has the form of that of the call."""
    if isinstance(call.func, ast.Call):  # `R.vmap(f)(x)`
        call = ast.Call(call.func.func, [*call.func.args, *call.args], [])
    path = path_of(call.func) or ""
    first = call.args[0] if call.args else None
    if not path.startswith("R.") or not isinstance(first, ast.Name) or first.id != name:
        return None
    op = find_op(path[2:])
    loop = getattr(op.definition, "hooks", {}).get("loop") if op is not None else None
    if op is None or loop is None:
        return None
    operands = Call(op, tuple([Var("operand", _form(arg)) for arg in call.args]))
    try:
        view: LoopView = loop(operands)
    except DiagnosticError:  # the call itself reports its operands
        return None
    params = tuple([s.of(operands) or UNKNOWN_TENSOR for s in view.operands])
    if any([len(s.path) > 1 for s in view.operands[: view.states]]):  # states, then outputs
        return FuncStructInfo(params, OBJECT)
    return FuncStructInfo(params, params[0] if view.states else UNKNOWN_TENSOR)


def _form_of_annotation(node: ast.expr) -> StructInfo:
    """Returns the StructInfo of an annotation with only the structure of tuples and functions."""
    args = node.args if isinstance(node, ast.Call) else []
    path = path_of(node.func if isinstance(node, ast.Call) else node)
    if path == "R.Tuple" and len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List):
        args = args[0].elts
    if path == "R.Tuple":
        return TupleStructInfo(tuple(map(_form_of_annotation, args)))
    if path == "R.Callable" and len(args) == 2 and isinstance(args[0], ast.Tuple | ast.List):
        params = tuple(map(_form_of_annotation, args[0].elts))
        return FuncStructInfo(params, _form_of_annotation(args[1]))
    return UNKNOWN_TENSOR


def _names(*nodes: ast.expr) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def _uses(body: Sequence[ast.stmt]) -> Iterator[Use]:
    """Yields the uses in source order, also of blocks, branches and unrolled loops."""
    pending = [*reversed(body)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Assign):
            yield node.targets, node.value, _names(*node.targets, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield [node.target], node.value, _names(node.target, node.value)
        elif isinstance(node, ast.Return | ast.Expr) and node.value is not None:
            yield [], node.value, _names(node.value)
        elif isinstance(node, ast.FunctionDef):  # rebinds the name
            yield [ast.Name(node.name)], ast.Constant(None), {node.name}
            inner = [*_uses(node.body)]
            own = {arg.arg for arg in node.args.args} | _names(
                *[t for use in inner for t in use[0]]
            )
            yield from [(targets, value, names - own) for targets, value, names in inner]
        elif isinstance(node, ast.With | ast.If | ast.For):
            pending += [*node.body, *getattr(node, "orelse", ())][::-1]
