"""Parses statements of kernels; an invalid statement does not end parsing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from structir.errors import DiagnosticError
from structir.ir.dtype import DtypeVar, is_dtype_var
from structir.ir.expr import Var
from structir.ir.kernel import (
    KERNEL_DTYPES,
    REGISTERS,
    SHARED,
    SYNCHRONIZED,
    VECTOR,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    For,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    Part,
    Prefetch,
    Scalar,
    Scratch,
    Sync,
    While,
)
from structir.ir.kernel_functions import LIBRARY
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.context import MISSING
from structir.printer.parser.forms import size_of, static_of
from structir.printer.parser.functions import is_declaration
from structir.printer.parser.kernel_advice import call_advice, loop_advice
from structir.printer.parser.kernel_scalars import (
    SYMBOLS,
    conversion_text,
    element,
    operation,
    read,
    resolve_dtype,
    scalar,
    test,
)
from structir.printer.parser.kernel_scope import LAUNCH_HINT, NEVER, KernelScope
from structir.printer.parser.kernel_unpacking import unpacked
from structir.printer.parser.values import construct_name, path_of
from structir.printer.syntax import EMPTY, NON_TEMPORAL, PART, PREFETCH, SYNC, ZEROS

HINTS: dict[type[ast.AST], str] = {
    ast.Return: "write results to the last parameters: `out[i] = ...`",
    ast.Import: "move imports out of the function",
    ast.ImportFrom: "move imports out of the function",
    ast.FunctionDef: "write the statements inline",
    ast.AnnAssign: "convert the value instead: `x = T.float32(...)`",
    ast.With: "use loops, branches and assignments",
    ast.Delete: "remove the statement",
    ast.Assert: 'state conditions on sizes in a function: `R.require("n % 4 == 0")`',
    ast.Try: "kernels raise no exceptions: use `if`",
    ast.Raise: "kernels raise no exceptions: use `if`",
    ast.Expr: "assign the value: `y = ...`, or remove the statement",
}
MAX_LOOPS = 16
MAX_REGISTER_ELEMENTS = 8192  # of one array: it may be on the stack
ALLOCATIONS = {
    f"T.{ZEROS}": "",
    f"T.{EMPTY}": "",
    f"T.{SHARED}": SHARED,
    f"T.{REGISTERS}": REGISTERS,
}
KINDS = {f"T.{kind}": kind for kind in (VECTOR, SYNCHRONIZED)}  # of loops, by function
PLAIN = "use assignments, `for i in range(n)`, `while`, `if`, `break` and `continue`"


def read_block(scope: KernelScope, nodes: Sequence[ast.stmt]) -> tuple[KernelStatement, ...]:
    """Parses statements in order; records errors and continues as if the statement were valid."""
    statements: list[KernelStatement] = []
    for node in _expand_runs(scope, nodes):
        try:
            if scope.bound is NEVER:
                hint = "remove the statement, or the `break` or `continue` before it"
                raise scope.wrong(node, "unreachable statement", hint)
            if not (is_nothing(node) or _is_dim_declaration(node)):
                statements += [_statement(scope, each) for each in unpacked(scope, node)]
        except DiagnosticError as error:
            scope.context.report(error, node)
            _assume_bound(scope, node)
    return tuple(statements)


def _expand_runs(scope: KernelScope, nodes: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields statements, those of long runs one chunk at a time.

    Of an `if` over values of Python, the statements of the branch taken are yielded.
    """
    for node in nodes:
        holds = scope.static_test(node.test) if isinstance(node, ast.If) else MISSING
        if isinstance(node, ast.If) and holds is not MISSING:
            yield from _expand_runs(scope, node.body if holds else node.orelse)
            continue
        value = node.value if isinstance(node, ast.Expr) else None
        is_placeholder = isinstance(value, ast.Constant) and value.value is ...
        run = scope.context.source_map.run_at(node) if is_placeholder else None
        if run is None:
            yield node
            continue
        for chunk, shift in run.chunks():
            with scope.context.source_map.shifted(shift):
                yield from chunk


def is_nothing(node: ast.stmt) -> bool:
    """Whether a statement is `pass` or a docstring."""
    value = node.value if isinstance(node, ast.Expr) else None
    docstring = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return docstring or isinstance(node, ast.Pass)


def _is_dim_declaration(node: ast.stmt) -> bool:
    """Whether a statement is `n = T.int64()`, which is parsed with the signature."""
    return isinstance(node, ast.Assign) and is_declaration(node.value)


def _assume_bound(scope: KernelScope, node: ast.stmt) -> None:
    """Marks the names that an invalid statement binds, so that their uses are not reported."""
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _stores(n)]
    scope.mark_bound(*[name for name in names if name in scope.locals])


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _statement(scope: KernelScope, node: ast.stmt) -> KernelStatement:
    rule = _STATEMENTS.get(type(node))
    if rule is None:
        raise scope.unsupported(node, HINTS.get(type(node), PLAIN))
    with scope.context.nested(node):
        return rule(scope, node)


# ---- assignments


def _assign(scope: KernelScope, node: ast.Assign) -> KernelStatement:
    target = node.targets[0]
    called = path_of(node.value.func) if isinstance(node.value, ast.Call) else None
    if called == f"T.{PART}":
        return _part(scope, node, target)
    if len(node.targets) != 1:
        message = "expected one element as the target of the assignment"
        raise scope.wrong(node, message, "write one assignment per target")
    if called in ALLOCATIONS:
        return _scratch(scope, node, target, ALLOCATIONS[called])
    if isinstance(target, ast.Name):
        scope.may_bind(target)
        local = scope.locals.get(target.id)
        value = _value_for(scope, node.value, None if local is None else local.dtype)
        if local is None and isinstance(value, Literal):
            scope.literals.add(target.id)
        return Assign(scope.bind(target, value.dtype), value, span=scope.span(node))
    element_target, stored = _target(scope, target), node.value
    non_temporal = called == f"T.{NON_TEMPORAL}"
    if isinstance(stored, ast.Call) and non_temporal:
        stored = _only_argument(scope, stored)
    value = scalar(scope, stored, element_target.dtype)
    return Assign(element_target, value, span=scope.span(node), non_temporal=non_temporal)


def _only_argument(scope: KernelScope, call: ast.Call) -> ast.expr:
    if len(call.args) == 1 and not call.keywords:
        return call.args[0]
    message = f"{ast.unparse(call.func)}: expected one value, found {len(call.args)} arguments"
    raise scope.wrong(call, message, "`out[i] = T.non_temporal(x[i])`", code="E0136")


def _value_for(scope: KernelScope, node: ast.expr, dtype: str | None) -> Scalar:
    """Parses the value assigned to a name; a literal takes the dtype of the name."""
    value = read(scope, node)
    if dtype is None or (value.dtype not in ("int", "float") and not scope.promotes):
        return scalar(scope, node)
    return resolve_dtype(scope, value, dtype, node)


def _target(scope: KernelScope, node: ast.expr) -> Element:
    """Parses the element that an assignment writes."""
    if not isinstance(node, ast.Subscript):
        message = f"cannot assign to {ast.unparse(node)}"
        hint = "assign to a name or to an element: `out[i] = ...`"
        raise scope.wrong(node, message, hint)
    return element(scope, node)


def _augmented(scope: KernelScope, node: ast.AugAssign) -> KernelStatement:
    symbol = SYMBOLS.get(type(node.op))
    if symbol is None:
        raise scope.unsupported(node, PLAIN)
    target: Local | Element
    if isinstance(node.target, ast.Name):
        scope.may_bind(node.target)
        local = scalar(scope, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        if not isinstance(local, Local):
            hint = f"bind it first: `{node.target.id} = ...`"
            message = f"cannot assign to `{node.target.id}`"
            raise scope.wrong(node, message, hint)
        target = local
    else:
        target = _target(scope, node.target)
    value = read(scope, node.value)
    result = operation(scope, node, symbol, target, value)
    if result.dtype != target.dtype:
        message = f"`{symbol}=`: expected {target.dtype}, found {result.dtype}"
        hint = f"convert the value: `{conversion_text(target.dtype, ast.unparse(node.value))}`"
        raise scope.wrong(node, message, hint, code="E0130")
    value = resolve_dtype(scope, value, target.dtype, node)
    return Assign(target, value, symbol, scope.span(node))


def _scratch(scope: KernelScope, node: ast.Assign, target: ast.expr, space: str) -> Scratch:
    """Parses `row = T.zeros((n, 4), "float32")` and `part = T.shared((256,), "float32")`."""
    call: Any = node.value
    if (space == SHARED) != scope.has_threads:
        hint = "in GPU kernels: `T.shared((256,), dtype)`; in CPU kernels: `T.zeros((n,), dtype)`"
        kind = "GPU" if scope.has_threads else "CPU"
        message = f"{ast.unparse(call.func)} is not available in {kind} kernels"
        raise scope.wrong(node, message, hint, code="E0131")
    if not isinstance(target, ast.Name) or len(call.args) != 2 or call.keywords:
        hint = '`row = T.zeros((n, 4), "float32")`'
        message = f"{ast.unparse(call.func)}: expected a shape and a dtype, bound to a name"
        raise scope.wrong(node, message, hint, code="E0136")
    scope.may_bind(target)
    shape, dtype = call.args[0], static_of(scope.context, call.args[1])
    dtype = scope.context.names.get(dtype) if is_dtype_var(dtype) else dtype
    is_known = type(dtype) is DtypeVar or dtype in KERNEL_DTYPES
    if not isinstance(shape, ast.Tuple | ast.List) or not is_known:
        hint = '`row = T.zeros((n, 4), "float32")`'
        message = f"expected a shape and a dtype of kernels, found {ast.unparse(call)}"
        raise scope.wrong(node, message, hint, code="E0136")
    if target.id in scope.locals:
        message = f"cannot bind an array to `{target.id}`: it is a scalar"
        raise scope.wrong(node, message, f"rename it: `{target.id}_1`", code="E0133")
    dims = tuple([size_of(scope.context, item) for item in shape.elts])
    if space and not all(isinstance(dim, int) for dim in dims):
        message = f"T.{space}: expected constant sizes, found symbolic dims"
        raise scope.wrong(node, message, f'`part = T.{space}((256,), "float32")`', code="E0131")
    if space == REGISTERS and prod(dims) > MAX_REGISTER_ELEMENTS:
        message = f"T.registers: expected at most {MAX_REGISTER_ELEMENTS} elements, found {dims}"
        hint = f'`{target.id} = T.empty({ast.unparse(shape)}, "{dtype}")`'
        raise scope.wrong(node, message, hint, code="E0131")
    array = Var(target.id, TensorStructInfo(dims, dtype), scope.span(target))
    scope.vars[target.id] = array
    scope.mark_bound(target.id)
    return Scratch(array, scope.span(node), path_of(call.func) == f"T.{ZEROS}", space)


def _part(scope: KernelScope, node: ast.Assign, target: ast.expr) -> Part:
    """Parses `low, high = T.part(n)`."""
    call: Any = node.value
    ends = target.elts if isinstance(target, ast.Tuple) else []
    names = [name for name in ends if isinstance(name, ast.Name)]
    plain = len(node.targets) == 1 and len(call.args) == 1 and not call.keywords
    if not plain or len(names) != 2 or len(ends) != 2:
        hint = "`low, high = T.part(n)`, then `for i in range(low, high):`"
        message = f"T.part: expected two names and one extent, found {ast.unparse(node)}"
        raise scope.wrong(node, message, hint, code="E0136")
    if scope.is_partitioned or scope.depth or scope.locals or scope.has_threads:
        hint = "move it before all statements but allocations (`T.zeros`); GPU kernels have none"
        message = "T.part must be the first statement of a CPU kernel"
        raise scope.wrong(node, message, hint, code="E0136")
    scope.is_partitioned = True
    extent = size_of(scope.context, call.args[0])
    for name in names:
        scope.may_bind(name)
    low, high = [scope.bind(name, "int64") for name in names]
    return Part(low, high, extent, scope.span(node))


def _library_call(scope: KernelScope, node: ast.Expr) -> LibraryCall | Sync | Prefetch:
    """Parses a library call such as `T.tiled_product(x.flat[i], ...)`, `T.prefetch(x[i])` or
    `T.sync_threads()`."""
    call = node.value
    name = (path_of(call.func) or "") if isinstance(call, ast.Call) else ""
    if name == f"T.{SYNC}":
        return _sync(scope, node)
    if name == f"T.{PREFETCH}":
        return _prefetch(scope, node)
    function = LIBRARY.get(name.removeprefix("T.")) if name.startswith("T.") else None
    if function is None or not isinstance(call, ast.Call) or scope.has_threads:
        advice = call_advice(call, LIBRARY) if isinstance(call, ast.Call) else HINTS[ast.Expr]
        raise scope.unsupported(node, advice)
    parameters = (*[f"{region}.flat[i]" for region in function.regions], *function.integers)
    hint = f"`{name}({', '.join(parameters)})`"
    if call.keywords or len(call.args) != len(parameters):
        message = f"{name}: expected {len(parameters)} arguments, found {len(call.args)}"
        raise scope.wrong(node, message, hint, code="E0136")
    count = len(function.regions)
    regions = [element(scope, a) for a in call.args[:count] if isinstance(a, ast.Subscript)]
    if len(regions) < count or not all(region.flat for region in regions):
        message = f"{name}: expected the first elements of arrays, such as `x.flat[i]`"
        raise scope.wrong(node, message, hint, code="E0136")
    dtypes = {
        region: str(element.array.struct_info.dtype)  # type: ignore[attr-defined]
        for region, element in zip(function.regions, regions, strict=True)
    }
    if {dtypes[table] for table in function.tables} - {"int64"}:
        message = f"{name}: expected {' and '.join(sorted(function.tables))} of int64"
        raise scope.wrong(node, message, hint, code="E0136")
    numbers = {dtype for region, dtype in dtypes.items() if region not in function.tables}
    if numbers not in ({"float32"}, {"float64"}):
        message = f"{name}: expected arrays of float32 or of float64"
        raise scope.wrong(node, message, hint, code="E0136")
    integers = [scalar(scope, a, "int64") for a in call.args[count:]]
    return LibraryCall(name.removeprefix("T."), (*regions, *integers), scope.span(node))


def _prefetch(scope: KernelScope, node: ast.Expr) -> Prefetch:
    """Parses `T.prefetch(x[i])`."""
    call: Any = node.value
    if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Subscript):
        message = f"T.{PREFETCH}: expected one element of an array"
        raise scope.wrong(node, message, f"`T.{PREFETCH}(x[i])`", code="E0136")
    read = element(scope, call.args[0])
    return Prefetch(read.array, read.indices, read.flat, scope.span(node))


def _sync(scope: KernelScope, node: ast.Expr) -> Sync:
    """Parses `T.sync_threads()`."""
    call: Any = node.value
    if not scope.has_threads or call.args or call.keywords:
        message = "T.sync_threads is only available in GPU kernels"
        raise scope.wrong(node, message, LAUNCH_HINT, code="E0131")
    return Sync(scope.span(node))


# ---- loops and branches


def _for(scope: KernelScope, node: ast.For) -> For:
    call, target = node.iter, node.target
    function = path_of(call.func) if isinstance(call, ast.Call) else None
    ranged = function == "range" or (function in KINDS and not scope.has_threads)
    _check_no_else(scope, node)
    if not ranged or not isinstance(target, ast.Name):
        message = f"expected a loop over `range`, found {ast.unparse(node.iter)}"
        raise scope.wrong(node.iter, message, loop_advice(node.iter))
    start, stop, step = _range(scope, call)  # type: ignore[arg-type]
    if target.id in scope.loop_vars:
        message = f"`{target.id}` is already the variable of an enclosing loop"
        raise scope.wrong(target, message, f"rename it: `{target.id}_1`", code="E0133")
    scope.may_bind(target)
    before = scope.bound
    variable = scope.bind(target, "int64")
    scope.loop_vars.append(target.id)
    body = _body(scope, node.body)
    scope.loop_vars.pop()
    scope.bound = before
    return For(variable, start, stop, step, body, scope.span(node), KINDS.get(function or "", ""))


def _check_no_else(scope: KernelScope, node: ast.For | ast.While) -> None:
    if node.orelse:
        message = "`else` of a loop is not supported in @I.kernel"
        hint = "set a flag before the `break`, and test it after the loop"
        raise scope.wrong(node.orelse[0], message, hint, code="E0103")


def _body(scope: KernelScope, nodes: Sequence[ast.stmt]) -> tuple[KernelStatement, ...]:
    if scope.depth == MAX_LOOPS:
        hint = "move the inner loops into another kernel"
        message = f"loops are nested deeper than {MAX_LOOPS}"
        raise scope.wrong(nodes[0], message, hint)
    scope.depth += 1
    body = read_block(scope, nodes)
    scope.depth -= 1
    return body


def _range(scope: KernelScope, call: ast.Call) -> tuple[Scalar, Scalar, int]:
    if not 1 <= len(call.args) <= 3 or call.keywords:
        message = f"range: expected 1 to 3 integers, found {len(call.args)} arguments"
        raise scope.wrong(call, message, "`range(start, stop)`")
    bounds = [scalar(scope, item, "int64") for item in call.args[:2]]
    if len(bounds) == 1:
        bounds.insert(0, Literal(0, "int64"))
    step = read(scope, call.args[2]) if len(call.args) == 3 else Literal(1, "int")
    if not isinstance(step, Literal) or step.dtype != "int" or step.value == 0:
        message = f"range: expected a constant step other than 0, found {ast.unparse(call.args[2])}"
        raise scope.wrong(call, message, "for other steps, write a `while` loop")
    if abs(step.value) >= 2**63:
        message = f"range: expected a step of int64, found {step.value}"
        raise scope.wrong(call, message, "write a step of less than 2**63")
    return bounds[0], bounds[1], int(step.value)


def _while(scope: KernelScope, node: ast.While) -> While:
    _check_no_else(scope, node)
    condition = test(scope, node.test)
    before = scope.bound
    body = _body(scope, node.body)
    scope.bound = before
    return While(condition, body, scope.span(node))


def _if(scope: KernelScope, node: ast.If) -> Branch:
    condition = test(scope, node.test)
    before = scope.bound
    then = read_block(scope, node.body)
    first, scope.bound = scope.bound, before
    otherwise = read_block(scope, node.orelse)
    scope.join_branches([first, scope.bound])
    return Branch(condition, then, otherwise, scope.span(node))


def _jump(statement: type[Break] | type[Continue]) -> Callable[[KernelScope, Any], KernelStatement]:
    def jump(scope: KernelScope, node: ast.stmt) -> KernelStatement:
        if not scope.depth:
            message = f"{construct_name(node)} outside of a loop"
            raise scope.wrong(node, message, "move it into a loop")
        scope.bound = NEVER
        return statement(scope.span(node))

    return jump


_STATEMENTS: dict[type[ast.AST], Callable[[KernelScope, Any], KernelStatement]] = {
    ast.Assign: _assign,
    ast.Expr: _library_call,
    ast.AugAssign: _augmented,
    ast.For: _for,
    ast.While: _while,
    ast.If: _if,
    ast.Break: _jump(Break),
    ast.Continue: _jump(Continue),
}
