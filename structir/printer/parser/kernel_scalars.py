"""Parses expressions of kernels to typed scalars; there is no implicit dtype promotion."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from structir.ir.dtype import DtypeVar, is_dtype_var, is_float, is_int
from structir.ir.kernel import (
    Apply,
    Argument,
    Element,
    Extent,
    Literal,
    Local,
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
)
from structir.ir.scalar_functions import ScalarFunction
from structir.ir.struct_info import PrimStructInfo
from structir.printer.parser.kernel_advice import call_advice
from structir.printer.parser.kernel_scope import LAUNCH_HINT, KernelScope
from structir.printer.parser.values import path_of
from structir.printer.syntax import CAST

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
    ast.ListComp: "write a `for` loop",
    ast.GeneratorExp: "write a `for` loop",
    ast.Lambda: "write the expression inline",
    ast.Attribute: "the attributes of an array are `x.shape[0]` and `x.flat[i]`; call `T.exp(x)`",
    ast.Tuple: "kernels compute with scalars: write one statement per element",
    ast.List: 'allocate an array: `row = T.zeros((4,), "float32")`',
    ast.Slice: "kernels compute with scalars: write a `for` loop",
    ast.NamedExpr: "bind the value in a statement of its own: `y = ...`",
}
PLAIN = (
    "use scalars, arithmetic, comparisons, `x[i]`, `x.shape[0]`, `min`, `max`, `abs`, `T.exp`, ..."
)


def scalar(scope: KernelScope, node: ast.expr, dtype: str | None = None) -> Scalar:
    """Parses an expression; literals take the expected dtype, or their default dtype."""
    value = read(scope, node)
    if dtype is not None and value.dtype not in (dtype, *WEAK) and not scope.promotes:
        message = f"expected {dtype}, found {value.dtype}: {ast.unparse(node)}"
        hint = f"convert it: `{conversion_text(dtype, ast.unparse(node))}`"
        raise scope.wrong(node, message, hint, code="E0130")
    return resolve_dtype(scope, value, dtype or WEAK.get(value.dtype, value.dtype), node)


def test(scope: KernelScope, node: ast.expr) -> Scalar:
    """Parses a condition, a scalar of dtype bool."""
    value = scalar(scope, node)
    if value.dtype != "bool":
        hint = f"compare it: `{ast.unparse(node)} != 0`"
        message = f"condition: expected bool, found {value.dtype}"
        raise scope.wrong(node, message, hint, code="E0130")
    return value


def read(scope: KernelScope, node: ast.expr) -> Scalar:
    """Parses an expression; one of literals only has the weak dtype "int" or "float"."""
    rule = _RULES.get(type(node))
    if rule is None:
        raise scope.unsupported(node, HINTS.get(type(node), PLAIN))
    with scope.context.nested(node):
        return rule(scope, node)


def resolve_dtype(scope: KernelScope, weak: Scalar, dtype: Any, node: ast.AST) -> Scalar:
    """Gives an expression of weak dtype a dtype; converts any other where the scope promotes."""
    if weak.dtype == dtype or (weak.dtype not in WEAK and not scope.promotes):
        return weak
    if weak.dtype not in WEAK:
        return Apply("cast", (weak,), dtype, weak.span)
    if weak.dtype == "float" and type(dtype) is not DtypeVar and not is_float(dtype):
        message = f"expected {dtype}, found the float {ast.unparse(node)}"
        hint = f"convert the other operand: `T.{WEAK['float']}(...)`"
        raise scope.wrong(node, message, hint, code="E0130")
    if isinstance(weak, Literal):
        return _literal(scope, weak, dtype, node)
    assert isinstance(weak, Apply)
    args = tuple([resolve_dtype(scope, arg, dtype, node) for arg in weak.args])
    strong = Apply(weak.fn, args, dtype, weak.span)
    _check_kind(scope, node, SCALAR_FUNCTIONS[weak.fn], args)
    return strong


def _literal(scope: KernelScope, literal: Literal, dtype: str, node: ast.AST) -> Literal:
    value = literal.value
    if dtype == "bool":
        message = f"expected bool, found {value}"
        raise scope.wrong(node, message, "write `True` or `False`", code="E0130")
    if is_int(dtype):
        bits = int(dtype.lstrip("uint"))
        low, high = (0, 1 << bits) if dtype[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
        if not low <= value < high:
            hint = f"write a number from {low} to {high - 1}, or convert the other operand"
            raise scope.wrong(node, f"{value} is out of range for {dtype}", hint, code="E0130")
    return Literal(value, dtype, literal.span)


# ---- leaves


def _constant(scope: KernelScope, node: ast.Constant) -> Scalar:
    value: Any = node.value
    if type(value) not in (int, float, bool):
        hint = "write a number, a bool, a name or an element: `1.5`, `True`, `n`, `x[i]`"
        raise scope.wrong(node, f"expected a number, found {value!r}", hint)
    kind = {int: "int", float: "float"}.get(type(value), "bool")
    return Literal(value, kind, scope.span(node))


def _name(scope: KernelScope, node: ast.Name) -> Scalar:
    span = scope.span(node)
    var, dim = scope.vars.get(node.id), scope.dim(node.id)
    if var is not None:
        info = var.struct_info
        if not isinstance(info, PrimStructInfo):
            hint = f"index it: `{node.id}[i]`"
            raise scope.wrong(node, f"expected a scalar, found the array `{node.id}`", hint)
        return Argument(var, computed_in(info.element), span)
    if node.id in scope.locals:
        if node.id not in (scope.bound or ()):
            raise scope.unbound(node)
        return scope.locals[node.id]
    if dim is not None:
        return Size(dim, span=span)
    value = _captured(scope, node)
    if value is None:
        raise scope.undefined(node)
    return value


def _captured(scope: KernelScope, node: ast.expr) -> Literal | None:
    """Returns the number that an expression denotes in Python, as a literal; None without one."""
    value: Any = scope.context.captured(node) if scope.names_values(node) else None
    if type(value) not in (int, float, bool):
        return None
    kind = {int: "int", float: "float"}.get(type(value), "bool")
    return Literal(value, kind, scope.span(node))


def _attribute(scope: KernelScope, node: ast.Attribute) -> Scalar:
    value = _captured(scope, node)
    if value is None:
        raise scope.unsupported(node, HINTS[ast.Attribute])
    return value


def _subscript(scope: KernelScope, node: ast.Subscript) -> Scalar:
    base = node.value
    value = _captured(scope, node)
    if value is not None:
        return value
    if isinstance(base, ast.Attribute) and base.attr == "shape":
        return _extent(scope, node, base.value)
    return element(scope, node)


def element(scope: KernelScope, node: ast.Subscript) -> Element:
    """Parses `x[i, j]`, with one integer per axis, or `x.flat[i]`."""
    base = node.value
    flat = isinstance(base, ast.Attribute) and base.attr == "flat"
    array = scope.array(base.value if flat else base)  # type: ignore[attr-defined]
    info: Any = array.struct_info
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(items) != 1 and flat:
        message = f"`{array.name}.flat`: expected 1 index, found {len(items)}"
        raise scope.wrong(node, message, f"`{array.name}.flat[i]`", code="E0135")
    if len(items) != info.ndim and not flat:
        indices_text = "1 index" if info.ndim == 1 else f"{info.ndim} indices"
        message = f"`{array.name}`: expected {indices_text}, found {len(items)}"
        names = ", ".join("ijklmn"[: info.ndim]) if info.ndim else "()"
        raise scope.wrong(node, message, f"index every axis: `{array.name}[{names}]`", code="E0135")
    indices: list[Scalar] = []
    for item in items:
        index = scalar(scope, item)
        if not is_int(index.dtype):
            hint = f"convert it: `T.int64({ast.unparse(item)})`"
            message = f"index: expected an integer, found {index.dtype}"
            raise scope.wrong(item, message, hint, array.name, code="E0135")
        if isinstance(index, Literal) and index.value < 0:
            axis = len(indices)
            hint = f"subtract from the size: `{array.name}.shape[{axis}] - {-index.value}`"
            message = f"negative index {index.value}: indices count from 0"
            raise scope.wrong(item, message, hint, array.name, code="E0135")
        indices.append(index)
    return Element(array, tuple(indices), computed_in(info.element), scope.span(node), flat)


def _extent(scope: KernelScope, node: ast.Subscript, base: ast.expr) -> Extent:
    array = scope.array(base)
    ndim = array.struct_info.ndim  # type: ignore[attr-defined]
    axis = read(scope, node.slice)
    value = axis.value if isinstance(axis, Literal) and axis.dtype == "int" else None
    if value is None or not -ndim <= value < ndim:
        hint = f"write an integer from 0 to {ndim - 1}"
        message = (
            f"axis {ast.unparse(node.slice)} is out of range for `{array.name}` of rank {ndim}"
        )
        raise scope.wrong(node, message, hint, code="E0135")
    return Extent(array, int(value) % ndim, span=scope.span(node))


# ---- operators


def operation(scope: KernelScope, node: ast.AST, symbol: str, *args: Scalar) -> Scalar:
    """Applies an operator; literals take the dtype of the other operand."""
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
    """Returns the common dtype of operands; raises ParseError if they differ."""
    strong = list(dict.fromkeys(arg.dtype for arg in args if arg.dtype not in WEAK))
    if scope.promotes:
        strong = _promoted(strong, any(arg.dtype == "float" for arg in args))
    if len(strong) > 1:
        dtypes = " and ".join(map(str, strong))
        message = f"dtype mismatch: operands of {ast.unparse(node)} are {dtypes}"
        conversion = conversion_text(_wider(strong), "...")
        hint = f"convert one operand: `{conversion}`; there is no implicit promotion"
        for arg in args:
            if isinstance(arg, Local) and arg.name in scope.literals and len(strong) == 2:
                other = next(dtype for dtype in strong if dtype != arg.dtype)
                hint = f"begin with the dtype of the values: `{arg.name} = T.{other}(0)`"
        raise scope.wrong(node, message, hint, code="E0130")
    if strong:
        return strong[0]  # type: ignore[no-any-return]
    return "float" if any(arg.dtype == "float" for arg in args) else "int"


def _promoted(dtypes: list[str], has_float: bool) -> list[str]:
    """Returns the dtype to which TVM converts operands: floats before integers, then the widest."""
    floats = [dtype for dtype in dtypes if is_float(dtype)]
    if has_float and dtypes and not floats:
        floats = [WEAK["float"]]
    if not floats and len(dtypes) < 2:
        return dtypes
    return [max(floats or dtypes, key=lambda dtype: (int(re.sub(r"\D", "", dtype) or 1), dtype))]


def _wider(dtypes: Sequence[Any]) -> Any:
    variables = [d for d in dtypes if type(d) is DtypeVar]
    return next((d for d in (*variables, "float64", "float32", "int64") if d in dtypes), dtypes[0])


def _check_kind(
    scope: KernelScope, node: ast.AST, row: ScalarFunction, args: Sequence[Scalar]
) -> None:
    for arg in args:
        if not row.takes(arg.dtype):
            name = row.symbol.strip() or row.name
            message = f"`{name}`: expected {KIND_NAMES[row.kind]}, found {scope.dtypes(arg)}"
            raise scope.wrong(node, message, _kind_hint(row), code="E0130")


def _kind_hint(row: ScalarFunction) -> str:
    if row.symbol == "/":
        return "divide integers with `//`, or convert: `T.float32(i) / T.float32(n)`"
    if row.symbol in ("//", "%"):
        return "for floats: `T.floor(x / y)`"
    return "convert the operand: `T.float32(x)` or `T.int64(x)`, or compare it: `x != 0`"


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
    value = read(scope, node.values[0])
    for item in node.values[1:]:
        value = operation(scope, node, symbol, value, read(scope, item))
    return value


def _compare(scope: KernelScope, node: ast.Compare) -> Scalar:
    """Parses comparisons; a chain of them is their conjunction."""
    sides = [node.left, *node.comparators]
    result: Scalar | None = None
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        symbol = SYMBOLS.get(type(op))
        if symbol is None:
            raise scope.unsupported(node, "compare with `<` `<=` `>` `>=` `==` `!=`")
        pair = operation(scope, node, symbol, read(scope, left), read(scope, right))
        result = pair if result is None else operation(scope, node, "and", result, pair)
    assert result is not None
    return result


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
        message = f"{name}: keyword arguments are not supported in @I.kernel"
        raise scope.wrong(node, message, f"pass arguments by position: `{name}(x)`", code="E0136")
    if name == "float":
        return _python_float(scope, node)
    if name == "len" and len(node.args) == 1:
        axis = ast.copy_location(ast.Constant(0), node)
        first = ast.copy_location(ast.Subscript(node.args[0], axis, ast.Load()), node)
        return _extent(scope, first, node.args[0])
    if name == f"T.{CAST}":
        return _cast(scope, node)
    if name.startswith("T.") and name[2:] in CONVERSIONS:
        return _conversion(scope, node, name[2:])
    row = OF_T.get(name[2:]) if name.startswith("T.") else OF_PYTHON.get(name)
    if row is None:
        functions = [*OF_PYTHON, *[f"T.{n}" for n in sorted({*OF_T, *CONVERSIONS})]]
        message = f"unknown kernel function `{ast.unparse(node.func)}`"
        raise scope.wrong(node, message, call_advice(node, functions), code="E0136")
    if row in (*OF_THREADS, *OF_LANES) and not scope.has_threads:
        message = f"{name} is only available in GPU kernels"
        raise scope.wrong(node, message, LAUNCH_HINT, code="E0131")
    args = [read(scope, item) for item in node.args]
    fits = len(args) == row.count if row.count >= 0 else len(args) >= 2
    if not fits:
        expected = "1 argument" if row.count == 1 else f"{row.count} arguments"
        expected = expected if row.count >= 0 else "2 or more arguments"
        message = f"{name}: expected {expected}, found {len(args)}"
        count = row.count if row.count >= 0 else 2
        hint = f"`{name}({', '.join('xyz'[:count])})`"
        raise scope.wrong(node, message, hint, code="E0136")
    if row in OF_THREADS:
        return Apply(row.name, (), "int64", scope.span(node))
    if row in OF_LANES:
        value, lane = scalar(scope, node.args[0]), scalar(scope, node.args[1], "int64")
        _check_kind(scope, node, row, (value,))
        return Apply(row.name, (value, lane), value.dtype, scope.span(node))
    return _apply_function(scope, node, row, args)


def _conversion(scope: KernelScope, node: ast.Call, dtype: str) -> Scalar:
    if len(node.args) != 1:
        message = f"T.{dtype}: expected 1 argument, found {len(node.args)}"
        raise scope.wrong(node, message, f"`T.{dtype}(x)`", code="E0136")
    return _converted(scope, node, dtype)


def _converted(scope: KernelScope, node: ast.Call, dtype: Any) -> Scalar:
    value = read(scope, node.args[0])
    if value.dtype in WEAK:
        takes_float = type(dtype) is DtypeVar or is_float(dtype)
        fits = dtype != "bool" and (value.dtype == "int" or takes_float)
        value = resolve_dtype(scope, value, dtype if fits else SETTLED[value.dtype], node.args[0])
    return Apply("cast", (value,), dtype, scope.span(node))


def _cast(scope: KernelScope, node: ast.Call) -> Scalar:
    """Parses `T.cast(x, "'T")`, a conversion to the dtype of a dtype variable."""
    name = getattr(node.args[1], "value", None) if len(node.args) == 2 else None
    dtype = scope.context.names.get(str(name)) if is_dtype_var(name) else name
    if type(dtype) is not DtypeVar and dtype not in CONVERSIONS:
        message = f"T.cast: expected a scalar and a dtype, found {ast.unparse(node)}"
        hint = 'name the dtype variable of a parameter: `T.cast(x, "\'T")`'
        raise scope.wrong(node, message, hint, code="E0136")
    return _converted(scope, node, dtype)


def conversion_text(dtype: str | DtypeVar, value: str) -> str:
    """Returns the text of a conversion to a dtype or to that of a dtype variable."""
    return f'T.{CAST}({value}, "{dtype}")' if type(dtype) is DtypeVar else f"T.{dtype}({value})"


SETTLED = {"int": "int64", "float": "float64"}  # of literals that a conversion truncates


def _python_float(scope: KernelScope, node: ast.Call) -> Scalar:
    text = getattr(node.args[0], "value", None) if len(node.args) == 1 else None
    if text not in ("inf", "-inf", "nan"):
        message = f'expected `float("inf")` or `float("nan")`, found `{ast.unparse(node)}`'
        raise scope.wrong(node, message, "convert the value: `T.float32(x)`", code="E0136")
    return Literal(float(text), "float", scope.span(node))


_RULES: dict[type[ast.AST], Callable[[KernelScope, Any], Scalar]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Call: _call,
}
