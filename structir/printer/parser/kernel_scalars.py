"""From the `ast` of expressions in kernels to typed scalars; nothing is promoted silently."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from structir.ir.dtype import is_float, is_int
from structir.ir.kernel import (
    Apply,
    Argument,
    Element,
    Extent,
    Literal,
    Scalar,
    Size,
    computed_in,
)
from structir.ir.kernel_functions import (
    BINARY,
    CONVERSIONS,
    KIND_NAMES,
    OF_LANES,
    OF_PYTHON,
    OF_T,
    OF_THREADS,
    SCALAR_FUNCTIONS,
    UNARY,
    WEAK,
    ScalarFunction,
)
from structir.ir.struct_info import PrimStructInfo
from structir.printer.parser.kernel_scope import LAUNCH_HINT, KernelScope
from structir.printer.parser.values import path_of

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.USub: "-",
    ast.Invert: "~",
    ast.Not: "not",
    ast.And: "and",
    ast.Or: "or",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
HINTS: dict[type[ast.AST], str] = {
    ast.ListComp: "write the loop out",
    ast.GeneratorExp: "write the loop out",
    ast.Lambda: "write the expression where it is needed",
    ast.Attribute: "of an array, x.shape[0] is known; functions of numbers are T.exp(x), ...",
    ast.Tuple: "a kernel computes with one number at a time",
    ast.List: 'an array of the kernel\'s own is T.zeros((4,), "float32")',
    ast.Slice: "a kernel computes with one number at a time: write the loop out",
    ast.NamedExpr: "bind the value on a line of its own",
}
PLAIN = "a kernel has numbers, arithmetic, comparisons, x[i], x.shape[0], min, max, abs, T.exp, ..."


def scalar(scope: KernelScope, node: ast.expr, dtype: str | None = None) -> Scalar:
    """What an expression says; a number that is written becomes one of the dtype asked for, or of
    its own."""
    found = read(scope, node)
    if dtype is not None and found.dtype not in (dtype, *WEAK):
        message = f"{ast.unparse(node)} is {found.dtype}, not {dtype}"
        raise scope.wrong(node, message, f"convert it: T.{dtype}(...)")
    return resolve_dtype(scope, found, dtype or WEAK.get(found.dtype, found.dtype), node)


def test(scope: KernelScope, node: ast.expr) -> Scalar:
    """A condition."""
    found = scalar(scope, node)
    if found.dtype != "bool":
        hint = f"compare it: {ast.unparse(node)} != 0"
        raise scope.wrong(node, f"a condition is a bool, not {found.dtype}", hint)
    return found


def read(scope: KernelScope, node: ast.expr) -> Scalar:
    """An expression; what is only made of written numbers has no dtype yet but "int" or
    "float"."""
    rule = _RULES.get(type(node))
    if rule is None:
        raise scope.unsupported(node, HINTS.get(type(node), PLAIN))
    with scope.context.nested(node):
        return rule(scope, node)


def resolve_dtype(scope: KernelScope, found: Scalar, dtype: str, node: ast.AST) -> Scalar:
    """An expression in a dtype, if it has none yet."""
    if found.dtype not in WEAK or (found.dtype == dtype):
        return found
    if found.dtype == "float" and not is_float(dtype):
        message = f"{ast.unparse(node)} is no {dtype}"
        raise scope.wrong(node, message, f"convert the other operand: T.{WEAK['float']}(...)")
    if isinstance(found, Literal):
        return _literal(scope, found, dtype, node)
    assert isinstance(found, Apply)
    args = tuple([resolve_dtype(scope, arg, dtype, node) for arg in found.args])
    result = Apply(found.fn, args, dtype, found.span)
    _check_kind(scope, node, SCALAR_FUNCTIONS[found.fn], args)
    return result


def _literal(scope: KernelScope, found: Literal, dtype: str, node: ast.AST) -> Literal:
    value = found.value
    if dtype == "bool":
        raise scope.wrong(node, f"{value} is no bool", "write True or False")
    if is_int(dtype):
        bits = int(dtype.lstrip("uint"))
        low, high = (0, 1 << bits) if dtype[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
        if not low <= value < high:
            raise scope.wrong(node, f"{value} is no {dtype}", f"it holds {low} to {high - 1}")
    return Literal(value, dtype, found.span)


# ---- leaves


def _constant(scope: KernelScope, node: ast.Constant) -> Scalar:
    value: Any = node.value
    if type(value) not in (int, float, bool):
        raise scope.wrong(node, f"{value!r} is no number", PLAIN)
    kind = {int: "int", float: "float"}.get(type(value), "bool")
    return Literal(value, kind, scope.span(node))


def _name(scope: KernelScope, node: ast.Name) -> Scalar:
    span = scope.span(node)
    var, dim = scope.vars.get(node.id), scope.dim(node.id)
    if var is not None:
        info = var.struct_info
        if not isinstance(info, PrimStructInfo):
            hint = f"take an element: {node.id}[i]"
            raise scope.wrong(node, f"{node.id} is an array, not a number", hint)
        return Argument(var, info.dtype, span)
    if node.id in scope.locals:
        if node.id not in (scope.bound or ()):
            raise scope.unbound(node)
        return scope.locals[node.id]
    if dim is not None:
        return Size(dim, span=span)
    raise scope.wrong(node, f"{node.id} is not defined", scope.suggest(node.id))


def _subscript(scope: KernelScope, node: ast.Subscript) -> Scalar:
    base = node.value
    if isinstance(base, ast.Attribute) and base.attr == "shape":
        return _extent(scope, node, base.value)
    return element(scope, node)


def element(scope: KernelScope, node: ast.Subscript) -> Element:
    """`x[i, j]`, with one integer for each axis, or `x.flat[i]`."""
    base = node.value
    flat = isinstance(base, ast.Attribute) and base.attr == "flat"
    array = scope.array(base.value if flat else base)  # type: ignore[attr-defined]
    info: Any = array.struct_info
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(items) != 1 and flat:
        raise scope.wrong(node, "elements one after another have one index", "write x.flat[i]")
    if len(items) != info.ndim and not flat:
        axes = "axis" if info.ndim == 1 else "axes"
        message = f"{array.name} has {info.ndim} {axes}, but {len(items)} indices are given"
        raise scope.wrong(node, message, "give one index for each axis: x[i, j], x[()] for none")
    indices = []
    for item in items:
        index = scalar(scope, item)
        if not is_int(index.dtype):
            hint = "convert it: T.int64(...)"
            raise scope.wrong(item, f"an index is an integer, not {index.dtype}", hint, array.name)
        if isinstance(index, Literal) and index.value < 0:
            hint = f"count from the end by the size: {array.name}.shape[0] - 1"
            raise scope.wrong(item, f"the index {index.value} is negative", hint, array.name)
        indices.append(index)
    return Element(array, tuple(indices), computed_in(info.dtype), scope.span(node), flat)


def _extent(scope: KernelScope, node: ast.Subscript, base: ast.expr) -> Extent:
    array = scope.array(base)
    ndim = array.struct_info.ndim  # type: ignore[attr-defined]
    axis = read(scope, node.slice)
    value = axis.value if isinstance(axis, Literal) and axis.dtype == "int" else None
    if value is None or not -ndim <= value < ndim:
        hint = f"the axis is a number: 0 to {ndim - 1}"
        message = f"{array.name} has no axis {ast.unparse(node.slice)}"
        raise scope.wrong(node, message, hint)
    return Extent(array, int(value) % ndim, span=scope.span(node))


# ---- operators


def operation(scope: KernelScope, node: ast.AST, symbol: str, *args: Scalar) -> Scalar:
    """An operator on operands; numbers take on the dtype of what they meet."""
    row = BINARY[symbol] if len(args) == 2 else UNARY[symbol]
    return _apply_function(scope, node, row, args)


def _apply_function(
    scope: KernelScope, node: ast.AST, row: ScalarFunction, args: Sequence[Scalar]
) -> Scalar:
    dtype = _common(scope, node, args)
    if dtype in WEAK:
        dtype = "float" if row.kind == "float" else dtype
        dtype = WEAK[dtype] if row.test else dtype
    if dtype not in WEAK:
        args = [resolve_dtype(scope, arg, dtype, node) for arg in args]
        _check_kind(scope, node, row, args)
    elif not row.takes(dtype):
        _check_kind(scope, node, row, args)
    return Apply(row.name, tuple(args), "bool" if row.test else dtype, scope.span(node))


def _common(scope: KernelScope, node: ast.AST, args: Sequence[Scalar]) -> str:
    """The one dtype of some operands."""
    strong = list(dict.fromkeys(arg.dtype for arg in args if arg.dtype not in WEAK))
    if len(strong) > 1:
        message = f"{ast.unparse(node)} mixes {' and '.join(strong)}"
        hint = f"nothing is converted silently: write T.{_wider(strong)}(...)"
        raise scope.wrong(node, message, hint, code="E0130")
    if strong:
        return str(strong[0])
    return "float" if any(arg.dtype == "float" for arg in args) else "int"


def _wider(dtypes: Sequence[str]) -> str:
    return next((d for d in ("float64", "float32", "int64") if d in dtypes), dtypes[0])


def _check_kind(
    scope: KernelScope, node: ast.AST, row: ScalarFunction, args: Sequence[Scalar]
) -> None:
    for arg in args:
        if not row.takes(arg.dtype):
            what = row.symbol.strip() or row.name
            message = f"{what} takes {KIND_NAMES[row.kind]}, not {scope.dtypes(arg)}"
            raise scope.wrong(node, message, _kind_hint(row))


def _kind_hint(row: ScalarFunction) -> str:
    if row.symbol == "/":
        return "integers are divided by //, or converted first: T.float32(i) / T.float32(n)"
    if row.symbol in ("//", "%"):
        return "of floats, take T.floor(x / y)"
    return "convert it first: T.float32(x), T.int64(x), or compare it: x != 0"


def _binary(scope: KernelScope, node: ast.BinOp) -> Scalar:
    symbol = SYMBOLS.get(type(node.op))
    if symbol is None:
        raise scope.unsupported(node.op if hasattr(node.op, "lineno") else node, PLAIN)
    return operation(scope, node, symbol, read(scope, node.left), read(scope, node.right))


def _unary(scope: KernelScope, node: ast.UnaryOp) -> Scalar:
    value = read(scope, node.operand)
    if isinstance(node.op, ast.UAdd):
        return value
    if isinstance(node.op, ast.USub) and isinstance(value, Literal) and value.dtype in WEAK:
        return Literal(-value.value, value.dtype, scope.span(node))
    return operation(scope, node, SYMBOLS[type(node.op)], value)


def _boolean(scope: KernelScope, node: ast.BoolOp) -> Scalar:
    symbol = SYMBOLS[type(node.op)]
    found = read(scope, node.values[0])
    for item in node.values[1:]:
        found = operation(scope, node, symbol, found, read(scope, item))
    return found


def _compare(scope: KernelScope, node: ast.Compare) -> Scalar:
    """Comparisons; a chain of them is their conjunction."""
    sides = [node.left, *node.comparators]
    found: Scalar | None = None
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        symbol = SYMBOLS.get(type(op))
        if symbol is None:
            raise scope.unsupported(node, "numbers are compared by < <= > >= == !=")
        pair = operation(scope, node, symbol, read(scope, left), read(scope, right))
        found = pair if found is None else operation(scope, node, "and", found, pair)
    assert found is not None
    return found


def _conditional(scope: KernelScope, node: ast.IfExp) -> Scalar:
    condition = test(scope, node.test)
    sides = [read(scope, node.body), read(scope, node.orelse)]
    dtype = _common(scope, node, sides)
    dtype = WEAK.get(dtype, dtype)
    args = [resolve_dtype(scope, side, dtype, node) for side in sides]
    return Apply("select", (condition, *args), dtype, scope.span(node))


# ---- calls


def _call(scope: KernelScope, node: ast.Call) -> Scalar:
    name = path_of(node.func) or ""
    if node.keywords:
        raise scope.unsupported(node, "operands go by place")
    if name == "float":
        return _python_float(scope, node)
    if name.startswith("T.") and name[2:] in CONVERSIONS:
        return _conversion(scope, node, name[2:])
    row = OF_T.get(name[2:]) if name.startswith("T.") else OF_PYTHON.get(name)
    if row is None:
        known = ", ".join([*OF_PYTHON, *[f"T.{n}" for n in sorted({*OF_T, *CONVERSIONS})]])
        message = f"{ast.unparse(node.func)} is not a function of kernels"
        raise scope.wrong(node, message, f"there are {known}")
    if row in (*OF_THREADS, *OF_LANES) and not scope.has_threads:
        raise scope.wrong(node, f"{name} is known where there are threads", LAUNCH_HINT)
    args = [read(scope, item) for item in node.args]
    fits = len(args) == row.count if row.count >= 0 else len(args) >= 2
    if not fits:
        wanted = row.count if row.count >= 0 else "two or more"
        message = f"{name} takes {wanted} numbers, not {len(args)}"
        raise scope.wrong(node, message, f"write {name}({', '.join('xyz'[: max(row.count, 2)])})")
    if row in OF_THREADS:
        return Apply(row.name, (), "int64", scope.span(node))
    if row in OF_LANES:
        value, lane = scalar(scope, node.args[0]), scalar(scope, node.args[1], "int64")
        _check_kind(scope, node, row, (value,))
        return Apply(row.name, (value, lane), value.dtype, scope.span(node))
    return _apply_function(scope, node, row, args)


def _conversion(scope: KernelScope, node: ast.Call, dtype: str) -> Scalar:
    if len(node.args) != 1:
        raise scope.wrong(node, f"T.{dtype} takes one number", f"write T.{dtype}(x)")
    value = read(scope, node.args[0])
    if value.dtype in WEAK:
        fits = dtype != "bool" and (value.dtype == "int" or is_float(dtype))
        value = resolve_dtype(scope, value, dtype if fits else SETTLED[value.dtype], node.args[0])
    return Apply("cast", (value,), dtype, scope.span(node))


SETTLED = {"int": "int64", "float": "float64"}  # numbers whose dtype is stated by a conversion


def _python_float(scope: KernelScope, node: ast.Call) -> Scalar:
    text = getattr(node.args[0], "value", None) if len(node.args) == 1 else None
    if text not in ("inf", "-inf", "nan"):
        hint = "a number is converted by T.float32(x)"
        raise scope.wrong(node, 'only float("inf"), float("-inf") and float("nan") are known', hint)
    return Literal(float(text), "float", scope.span(node))


_RULES: dict[type[ast.AST], Callable[[KernelScope, Any], Scalar]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Call: _call,
}
