"""Parses `R.layout_transform(x, index_map)` to ops that split, permute and fuse axes.

An index map of the supported form has one digit or a fusion of digits per axis of the result. The
digits of an axis `i` of size n are `i // 4` and `i % 4`, or `i // 8`, `i // 4 % 2` and `i % 4`. A
fusion is in row-major order: `i * 4 + j`, where 4 is the size of `j`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from math import prod
from typing import Any

import attrs

from structir.ir.dims import Dim, Poly
from structir.ir.expr import Call, Expr
from structir.ir.op import find_op
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.context import Context
from structir.printer.parser.forms import size_of, static_of
from structir.printer.parser.tvm_spellings import PAD, PERMUTE, RESHAPE
from structir.printer.parser.values import operand, path_of

EXAMPLE = "`R.layout_transform(x, index_map=lambda i, j: (i // 4, j, i % 4))`"
NAMES = ("x", "index_map", "pad_value", "axis_separators", "input_axis_separators")


@attrs.frozen
class Digit:
    """The digit `axis // divisor % modulus` of an index; without modulus, the leading digit."""

    axis: int
    divisor: int = 1
    modulus: int | None = None


Terms = tuple[tuple[Digit, Dim], ...]  # digits with their strides


def read_layout_transform(context: Context, node: ast.Call) -> Expr:
    """Parses the call."""
    arguments = dict(zip(NAMES, node.args, strict=False)) | {
        str(k.arg): k.value for k in node.keywords
    }
    if not arguments.keys() <= set(NAMES) or not {"x", "index_map"} <= arguments.keys():
        raise _wrong(
            context, node, f"expected an operand and an index map, found {ast.unparse(node)}"
        )
    x = operand(context, arguments["x"])
    info = x.struct_info
    if not isinstance(info, TensorStructInfo) or type(info.dims) is not tuple:
        raise _wrong(context, node, f"expected an operand of known sizes, found {info}")
    pad_value = static_of(context, arguments["pad_value"]) if "pad_value" in arguments else None
    axes = _IndexMap(context, arguments["index_map"], len(info.dims)).axes()
    return _Transformation(context, node, x, info.dims, axes).result(pad_value or 0)


def _wrong(context: Context, node: ast.AST, message: str) -> Exception:
    return context.error(node, f"layout_transform: {message}", EXAMPLE, "E0106")


class _IndexMap:
    """The digits of each axis of the result, from the text of an index map."""

    def __init__(self, context: Context, node: ast.expr, rank: int) -> None:
        self.context, self.node = context, node
        if isinstance(node, ast.Call) and path_of(node.func) == "T.index_map" and node.args:
            node = node.args[0]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.copy_location(ast.parse(node.value, mode="eval").body, node)
        if not isinstance(node, ast.Lambda):
            raise _wrong(context, node, f"expected a lambda, found {ast.unparse(node)}")
        names = [arg.arg for arg in node.args.args]
        if len(names) != rank:
            raise _wrong(context, node, f"expected {rank} indices, found {len(names)}")
        self.indices = {name: k for k, name in enumerate(names)}
        body = node.body
        self.body = body.elts if isinstance(body, ast.Tuple | ast.List) else [body]

    def axes(self) -> list[Terms]:
        """Returns the terms of each axis of the result."""
        return [self.terms(item) for item in self.body]

    def terms(self, node: ast.expr) -> Terms:
        """Returns the terms of an expression; raises ParseError for another form."""
        match node:
            case ast.Name(id=name) if name in self.indices:
                return ((Digit(self.indices[name]), 1),)
            case ast.Constant(value=0):
                return ()
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.terms(left) + self.terms(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self.scaled(left, right)
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                return self.digit(node, left, right, _quotient)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return self.digit(node, left, right, _remainder)
            case ast.Call(args=[left, right]):
                operator = CALLS.get(path_of(node.func) or "")
                if operator is not None:
                    return self.terms(ast.BinOp(left, operator, right))
        raise self.unsupported(node)

    def scaled(self, left: ast.expr, right: ast.expr) -> Terms:
        """Returns the terms of a product with a size."""
        if self.has_index(right):
            left, right = right, left
        if self.has_index(right):
            raise self.unsupported(ast.BinOp(left, ast.Mult(), right))
        size = size_of(self.context, right)
        return tuple([(digit, stride * size) for digit, stride in self.terms(left)])

    def has_index(self, node: ast.expr) -> bool:
        """Whether an index occurs in an expression."""
        return any(isinstance(n, ast.Name) and n.id in self.indices for n in ast.walk(node))

    def digit(
        self,
        node: ast.expr,
        left: ast.expr,
        right: ast.expr,
        part: Callable[[Digit, int], Digit | None],
    ) -> Terms:
        """Returns the term of a quotient or remainder of one digit."""
        terms, size = self.terms(left), size_of(self.context, right)
        if len(terms) == 1 and terms[0][1] == 1 and type(size) is int and size > 0:
            digit = part(terms[0][0], size)
            if digit is not None:
                return ((digit, 1),)
        raise self.unsupported(node)

    def unsupported(self, node: ast.expr) -> Exception:
        """Returns the error of an expression that is no digit and no fusion of digits."""
        message = f"expected digits such as `i // 4` and `i % 4`, found {ast.unparse(node)}"
        return _wrong(self.context, self.node, message)


def _quotient(digit: Digit, size: int) -> Digit | None:
    if digit.modulus is None:
        return Digit(digit.axis, digit.divisor * size)
    if digit.modulus % size:
        return None
    return Digit(digit.axis, digit.divisor * size, digit.modulus // size)


def _remainder(digit: Digit, size: int) -> Digit | None:
    if digit.modulus is not None and digit.modulus % size:
        return None
    return Digit(digit.axis, digit.divisor, size)


CALLS: dict[str, ast.operator] = {
    "T.floordiv": ast.FloorDiv(),
    "T.floormod": ast.Mod(),
    "T.truncdiv": ast.FloorDiv(),
    "T.truncmod": ast.Mod(),
}


class _Transformation:
    """The ops of one call."""

    def __init__(
        self, context: Context, node: ast.Call, x: Expr, dims: tuple[Dim, ...], axes: list[Terms]
    ) -> None:
        self.context, self.node, self.x, self.dims, self.axes = context, node, x, dims, axes
        self.sizes: dict[Digit, Dim] = {}
        self.padded: list[Dim] = []

    def result(self, pad_value: float) -> Expr:
        """Returns the call of the last op."""
        for axis, size in enumerate(self.dims):
            self.split(axis, size)
        digits = list(self.sizes)  # in the order of the split operand
        order: list[Digit] = []
        shape: list[Dim] = []
        for terms in self.axes:
            fused = self.fused(terms)
            order += fused
            shape.append(prod([self.sizes[digit] for digit in fused]))
        value = self.x
        if tuple(self.padded) != self.dims:
            pads = [[0, after - size] for size, after in zip(self.dims, self.padded, strict=True)]
            flat = [width for pair in pads for width in pair]
            value = self.emit(PAD, value, flat, pad_value=pad_value)
        value = self.emit(RESHAPE, value, tuple(self.sizes.values()))
        value = self.emit(PERMUTE, value, [digits.index(digit) for digit in order])
        return self.call(RESHAPE, value, tuple(shape))

    def split(self, axis: int, size: Dim) -> None:
        """Records the digits of an axis, the leading one first, and its padded size."""
        used = {digit for terms in self.axes for digit, _ in terms if digit.axis == axis}
        ordered = sorted(used, key=lambda digit: digit.divisor)
        expected = 1
        for digit in ordered:
            last = digit is ordered[-1]
            covers = type(size) is int and size <= digit.divisor * (digit.modulus or size)
            if digit.divisor != expected or (digit.modulus is None or covers) is not last:
                raise self.incomplete(axis)
            expected *= digit.modulus or 1
        if not ordered:
            if size != 1:
                raise self.incomplete(axis)
            self.padded.append(size)
            return
        leading, whole = ordered[-1], self.multiple(size, ordered[-1].divisor)
        self.padded.append(whole)
        self.sizes[leading] = whole // leading.divisor
        for digit in reversed(ordered[:-1]):
            self.sizes[digit] = digit.modulus or 1

    def multiple(self, size: Dim, divisor: int) -> Dim:
        """Returns the size rounded up to a multiple; a symbolic one must be a multiple."""
        if type(size) is int:
            return -(-size // divisor) * divisor
        if type(size) is Poly and size == size // divisor * divisor:
            return size
        hint = f"declare the size as a multiple: `{divisor} * n`"
        message = f"layout_transform: cannot split the size {size} into blocks of {divisor}"
        raise self.context.error(self.node, message, hint, "E0106")

    def incomplete(self, axis: int) -> Exception:
        """Returns the error of an axis whose digits do not determine its index."""
        message = f"expected the index map to contain each digit of axis {axis} once"
        return _wrong(self.context, self.node, message)

    def fused(self, terms: Terms) -> list[Digit]:
        """Returns the digits of an axis of the result in row-major order."""
        remaining = list(terms)
        ordered: list[Digit] = []
        stride: Dim = 1
        while remaining:
            term = next((t for t in remaining if t[1] == stride), None)
            if term is None:
                message = "expected a fusion of indices in row-major order, such as `i * 4 + j`"
                raise _wrong(self.context, self.node, message)
            remaining.remove(term)
            ordered.insert(0, term[0])
            stride = stride * self.sizes[term[0]]
        return ordered

    def call(self, name: str, value: Expr, argument: Any, **options: Any) -> Call:
        """Returns a call of an op."""
        op = find_op(name)
        assert op is not None
        span = self.context.source_map.span(self.node)
        call: Call = op.definition.bind((value, argument), options, span)
        return call

    def emit(self, name: str, value: Expr, argument: Any, **options: Any) -> Expr:
        """Binds a call of an op to a new variable."""
        atom: Expr = self.context.atom(self.call(name, value, argument, **options), self.node)
        return atom
