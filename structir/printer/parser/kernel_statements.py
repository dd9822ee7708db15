"""From the `ast` of statements in kernels to their nodes; a wrong one is reported, and reading goes
on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from structir.errors import DiagnosticError
from structir.ir.expr import Var
from structir.ir.kernel import (
    KERNEL_DTYPES,
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
    Scalar,
    Scratch,
    Sync,
    While,
)
from structir.ir.kernel_functions import LIBRARY
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.forms import size_of, static_of
from structir.printer.parser.functions import is_declaration
from structir.printer.parser.kernel_scalars import (
    SYMBOLS,
    element,
    operation,
    read,
    scalar,
    resolve_dtype,
    test,
)
from structir.printer.parser.kernel_scope import LAUNCH_HINT, NEVER, KernelScope
from structir.printer.parser.values import path_of
from structir.printer.syntax import EMPTY, PART, SHARED, SYNC, ZEROS

HINTS: dict[type[ast.AST], str] = {
    ast.Return: "a kernel gives nothing back: it writes to its last parameters",
    ast.Import: "imports stand outside of functions",
    ast.ImportFrom: "imports stand outside of functions",
    ast.FunctionDef: "a kernel holds no functions: write the steps out",
    ast.AnnAssign: "a number has the dtype of its value: write x = T.float32(...)",
    ast.With: "a kernel has loops, branches and assignments",
    ast.Delete: "values are never deleted",
    ast.Assert: "what must hold of sizes stands in the parameters' StructInfo",
    ast.Try: "nothing is raised in a kernel",
    ast.Raise: "nothing is raised in a kernel",
    ast.Expr: "a value that nothing names does nothing",
}
MAX_LOOPS = 16
PLAIN = "a kernel has assignments, for i in range(n), while, if, break and continue"


def read_block(scope: KernelScope, nodes: Sequence[ast.stmt]) -> tuple[KernelStatement, ...]:
    """Statements in order. An error is kept; the rest is read as if the statement were right."""
    found: list[KernelStatement] = []
    for node in _expand_runs(scope, nodes):
        try:
            if scope.bound is NEVER:
                raise scope.wrong(node, "this is never reached", "take it out, or the jump before")
            if not (is_nothing(node) or _is_dim_declaration(node)):
                found.append(_statement(scope, node))
        except DiagnosticError as error:
            scope.context.report(error, node)
            _assume_bound(scope, node)
    return tuple(found)


def _expand_runs(scope: KernelScope, nodes: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, and those of long runs a piece at a time."""
    for node in nodes:
        value = node.value if isinstance(node, ast.Expr) else None
        held = isinstance(value, ast.Constant) and value.value is ...
        run = scope.context.source_map.run_at(node) if held else None
        if run is None:
            yield node
            continue
        for piece, shift in run.pieces():
            with scope.context.source_map.shifted(shift):
                yield from piece


def is_nothing(node: ast.stmt) -> bool:
    """`pass`, or a docstring."""
    value = node.value if isinstance(node, ast.Expr) else None
    docstring = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return docstring or isinstance(node, ast.Pass)


def _is_dim_declaration(node: ast.stmt) -> bool:
    """`n = T.int64()`, which the signature has read."""
    return isinstance(node, ast.Assign) and is_declaration(node.value)


def _assume_bound(scope: KernelScope, node: ast.stmt) -> None:
    """What a wrong statement binds is not reported again where it is used."""
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
    if len(node.targets) != 1 or isinstance(target, ast.Tuple | ast.List):
        raise scope.unsupported(node, "one name, or one element, is assigned at a time")
    if called in (f"T.{ZEROS}", f"T.{EMPTY}", f"T.{SHARED}"):
        return _scratch(scope, node, target, called == f"T.{SHARED}")
    if isinstance(target, ast.Name):
        scope.may_bind(target)
        known = scope.locals.get(target.id)
        value = _value_for(scope, node.value, None if known is None else known.dtype)
        return Assign(scope.bind(target, value.dtype), value, span=scope.span(node))
    place = _target(scope, target)
    value = scalar(scope, node.value, place.dtype)
    return Assign(place, value, span=scope.span(node))


def _value_for(scope: KernelScope, node: ast.expr, dtype: str | None) -> Scalar:
    """The value of a name: a number that is written takes the dtype that the name has already."""
    found = read(scope, node)
    if dtype is None or found.dtype not in ("int", "float"):
        return scalar(scope, node)
    return resolve_dtype(scope, found, dtype, node)


def _target(scope: KernelScope, node: ast.expr) -> Element:
    """An element that may be written to."""
    if not isinstance(node, ast.Subscript):
        hint = "assign to a name, or to an element: out[i] = ..."
        raise scope.unsupported(node, hint)
    return element(scope, node)


def _augmented(scope: KernelScope, node: ast.AugAssign) -> KernelStatement:
    symbol = SYMBOLS.get(type(node.op))
    if symbol is None:
        raise scope.unsupported(node, PLAIN)
    target: Local | Element
    if isinstance(node.target, ast.Name):
        scope.may_bind(node.target)
        found = scalar(scope, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        if not isinstance(found, Local):
            raise scope.wrong(node, f"{node.target.id} cannot be assigned to", PLAIN)
        target = found
    else:
        target = _target(scope, node.target)
    value = read(scope, node.value)
    result = operation(scope, node, symbol, target, value)
    if result.dtype != target.dtype:
        raise scope.wrong(node, f"{symbol}= gives {made.dtype}, not {target.dtype}", PLAIN)
    value = resolve_dtype(scope, value, target.dtype, node)
    return Assign(target, value, symbol, scope.span(node))


def _scratch(scope: KernelScope, node: ast.Assign, target: ast.expr, shared: bool) -> Scratch:
    """`row = T.zeros((n, 4), "float32")`, `part = T.shared((256,), "float32")`."""
    call: Any = node.value
    if shared != scope.has_threads:
        hint = "threads share T.shared((256,), ...); kernels without threads have T.zeros"
        raise scope.wrong(node, f"{ast.unparse(call.func)} is not part of this kernel", hint)
    if not isinstance(target, ast.Name) or len(call.args) != 2 or call.keywords:
        hint = 'write row = T.zeros((n, 4), "float32")'
        raise scope.wrong(node, "an array of the kernel's own has a name, sizes and a dtype", hint)
    scope.may_bind(target)
    shape, dtype = call.args[0], static_of(scope.context, call.args[1])
    if not isinstance(shape, ast.Tuple | ast.List) or dtype not in KERNEL_DTYPES:
        hint = 'sizes are symbolic dims or numbers: row = T.zeros((n, 4), "float32")'
        raise scope.wrong(node, f"{ast.unparse(call)} is no array of a kernel", hint)
    if target.id in scope.locals:
        message = f"{target.id} is a number already"
        raise scope.wrong(node, message, "use another name")
    dims = tuple([size_of(scope.context, item) for item in shape.elts])
    if shared and not all(isinstance(dim, int) for dim in dims):
        raise scope.wrong(node, "what threads share has sizes that are numbers", "write them out")
    array = Var(target.id, TensorStructInfo(dims, dtype), scope.span(target))
    scope.vars[target.id] = array
    scope.mark_bound(target.id)
    return Scratch(array, scope.span(node), path_of(call.func) == f"T.{ZEROS}", shared)


def _part(scope: KernelScope, node: ast.Assign, target: ast.expr) -> Part:
    """`low, high = T.part(n)`."""
    call: Any = node.value
    ends = target.elts if isinstance(target, ast.Tuple) else []
    names = [name for name in ends if isinstance(name, ast.Name)]
    plain = len(node.targets) == 1 and len(call.args) == 1 and not call.keywords
    if not plain or len(names) != 2 or len(ends) != 2:
        hint = "write low, high = T.part(n), then loops from low to high"
        raise scope.wrong(node, "a part has two ends, of an extent", hint)
    if scope.is_partitioned or scope.depth or scope.locals or scope.has_threads:
        hint = "it stands before all other statements, after arrays of the kernel's own"
        raise scope.wrong(node, "a kernel runs in parts as a whole", hint)
    scope.is_partitioned = True
    extent = size_of(scope.context, call.args[0])
    for name in names:
        scope.may_bind(name)
    low, high = [scope.bind(name, "int64") for name in names]
    return Part(low, high, extent, scope.span(node))


def _library_call(scope: KernelScope, node: ast.Expr) -> LibraryCall | Sync:
    """`T.tiled_product(x.flat[i], ...)`."""
    call = node.value
    name = (path_of(call.func) or "") if isinstance(call, ast.Call) else ""
    if name == f"T.{SYNC}":
        return _sync(scope, node)
    function = LIBRARY.get(name.removeprefix("T.")) if name.startswith("T.") else None
    if function is None or not isinstance(call, ast.Call) or scope.has_threads:
        raise scope.unsupported(node, HINTS[ast.Expr])
    words = (*[f"{place}.flat[i]" for place in function.places], *function.integers)
    hint = f"write {name}({', '.join(words)})"
    if call.keywords or len(call.args) != len(words):
        raise scope.wrong(node, f"{name} takes {len(words)} operands, by their places", hint)
    count = len(function.places)
    places = [element(scope, a) for a in call.args[:count] if isinstance(a, ast.Subscript)]
    if len(places) < count or not all(place.flat for place in places):
        raise scope.wrong(node, f"{name} goes from elements on", hint)
    dtypes = {str(place.array.struct_info.dtype) for place in places}  # type: ignore[attr-defined]
    if dtypes not in ({"float32"}, {"float64"}):
        raise scope.wrong(node, f"{name} takes arrays of float32, or of float64", hint)
    integers = [scalar(scope, a, "int64") for a in call.args[count:]]
    return LibraryCall(name.removeprefix("T."), (*places, *integers), scope.span(node))


def _sync(scope: KernelScope, node: ast.Expr) -> Sync:
    """`T.sync_threads()`."""
    call: Any = node.value
    if not scope.has_threads or call.args or call.keywords:
        raise scope.wrong(node, "there are no threads here to wait for", LAUNCH_HINT)
    return Sync(scope.span(node))


# ---- loops and branches


def _for(scope: KernelScope, node: ast.For) -> For:
    call, target = node.iter, node.target
    ranged = isinstance(call, ast.Call) and path_of(call.func) == "range"
    if not ranged or not isinstance(target, ast.Name) or node.orelse:
        hint = "write for i in range(n), range(start, stop) or range(start, stop, 2)"
        raise scope.wrong(node.iter, "a loop counts a name through a range", hint)
    start, stop, step = _range(scope, call)  # type: ignore[arg-type]
    if target.id in scope.loop_vars:
        hint = "give each loop a variable of its own"
        raise scope.wrong(target, f"{target.id} is counted by the loop around", hint)
    scope.may_bind(target)
    before = scope.bound
    variable = scope.bind(target, "int64")
    scope.loop_vars.append(target.id)
    body = _body(scope, node.body)
    scope.loop_vars.pop()
    scope.bound = before
    return For(variable, start, stop, step, body, scope.span(node))


def _body(scope: KernelScope, nodes: Sequence[ast.stmt]) -> tuple[KernelStatement, ...]:
    if scope.depth == MAX_LOOPS:
        hint = "Python itself knows no more: put the inner loops into a kernel of their own"
        raise scope.wrong(nodes[0], f"more than {MOST_LOOPS} loops within each other", hint)
    scope.depth += 1
    body = read_block(scope, nodes)
    scope.depth -= 1
    return body


def _range(scope: KernelScope, call: ast.Call) -> tuple[Scalar, Scalar, int]:
    if not 1 <= len(call.args) <= 3 or call.keywords:
        raise scope.wrong(call, "range takes one to three integers", "write range(start, stop)")
    bounds = [scalar(scope, item, "int64") for item in call.args[:2]]
    if len(bounds) == 1:
        bounds.insert(0, Literal(0, "int64"))
    step = read(scope, call.args[2]) if len(call.args) == 3 else Literal(1, "int")
    if not isinstance(step, Literal) or step.dtype != "int" or step.value == 0:
        hint = "a loop in other steps is a while"
        raise scope.wrong(call, "the step of a range is a number, and not 0", hint)
    if abs(step.value) >= 2**63:
        message = f"expected an int64 as the step of a range, found {step.value}"
        raise scope.wrong(call, message, "write a step of less than 2**63")
    return bounds[0], bounds[1], int(step.value)


def _while(scope: KernelScope, node: ast.While) -> While:
    if node.orelse:
        raise scope.unsupported(node, "a loop has no else")
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


def _jump(result: type[Break] | type[Continue]) -> Callable[[KernelScope, Any], KernelStatement]:
    def jump(scope: KernelScope, node: ast.stmt) -> KernelStatement:
        if not scope.depth:
            raise scope.wrong(node, "there is no loop around", PLAIN)
        scope.bound = NEVER
        return result(scope.span(node))

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
