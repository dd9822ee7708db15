"""A parser of torch's symbolic size expressions, which are never executed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.scales import as_fraction
from structir.ir import dims
from structir.ir.dims import Dim, Sym

MAX_LENGTH = 20_000  # characters of an expression
MAX_EXPONENT = 64  # power of a size


@attrs.frozen
class Ratio:
    """A quotient of sizes: a symbolic rational number."""

    over: Dim
    under: Dim = 1

    def whole(self) -> Dim | None:
        """Returns the quotient as a size, or None if it need not be an integer."""
        return dims.exact_quotient(self.over, self.under)


class UnreadableSizeError(Exception):
    """Raised for an expression that is not a size."""


class TorchSymbols:
    """The symbolic variables of a program, by their torch names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.by_name: dict[str, Dim] = {}
        self.parsed: dict[str, Ratio] = {}
        self.signed: dict[str, tuple[Dim, Dim]] = {}

    def variable(self, name: str) -> Dim:
        """Returns the variable of a torch name."""
        if name not in self.by_name:
            self.by_name[name] = dims.sym(identifier(self.names.get(name, name)))
        return self.by_name[name]

    def fresh(self, name: str) -> Dim:
        """Returns a fresh symbolic size."""
        return dims.sym(identifier(name))

    def signed_parts(self, expression: str) -> tuple[Dim, Dim]:
        """Returns sizes whose difference a variable of either sign is replaced by."""
        if expression not in self.signed:
            variable = dims.as_sym(self.dim(expression))
            if variable is None:
                raise unreadable(expression, "not a variable")
            parts = self.fresh(f"{variable.name}_plus"), self.fresh(f"{variable.name}_minus")
            self.define(variable, parts[0] - parts[1])
            self.signed[expression] = parts
        return self.signed[expression]

    def define(self, variable: Sym, size: Dim) -> None:
        """Replaces a variable by an expression of other sizes."""
        changed = [n for n, d in self.by_name.items() if dims.as_sym(d) is variable]
        self.by_name.update(dict.fromkeys(changed, size))
        self.parsed.clear()

    def number(self, expression: Any) -> Ratio:
        """Returns the value of a number or a symbolic expression."""
        if type(expression) is int:
            return Ratio(expression)
        if not isinstance(expression, str):
            fraction = as_fraction(expression)
            return Ratio(fraction.numerator, fraction.denominator)
        if expression not in self.parsed:
            self.parsed[expression] = self._read(expression)
        return self.parsed[expression]

    def dim(self, expression: Any) -> Dim:
        """Returns the value of a symbolic expression as a size; raises `DiagnosticError` for a
        fraction."""
        if type(expression) is int:
            return expression
        value = self.number(expression).whole()
        if value is None:
            raise unreadable(expression, "not provably an integer")
        return value

    def _read(self, text: str) -> Ratio:
        if len(text) > MAX_LENGTH:
            raise unreadable(text[:60], f"longer than {MAX_LENGTH} characters")
        try:
            return self._value(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
            raise unreadable(text, "not an expression") from error
        except UnreadableSizeError as error:
            raise unreadable(text, str(error)) from error

    def _value(self, tree: ast.expr) -> Ratio:
        match tree:
            case ast.Constant(value=bool() | int() | float()):
                return self.number(tree.value)
            case ast.Name(id="true" | "false"):
                return Ratio(int(tree.id == "true"))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _negate(self._value(operand))
            case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name)), *_]):
                return Ratio(self.variable(name))
            case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=value), *_]):
                return self.number(float(value))  # type: ignore[arg-type]
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                return FUNCTIONS[name]([self._value(a) for a in tree.args])
            case ast.Call(func=ast.Name(id="Piecewise")):
                return self._piecewise(tree.args)
            case ast.Call(func=ast.Name(id=name)):
                raise UnreadableSizeError(f"unsupported function {name}")
        raise UnreadableSizeError(f"unsupported expression {ast.unparse(tree)[:60]}")

    def _piecewise(self, cases: list[ast.expr]) -> Ratio:
        results = []
        for case in cases:
            if not isinstance(case, ast.Call | ast.Tuple):
                raise UnreadableSizeError("expected a (value, condition) pair in Piecewise")
            pair = case.args if isinstance(case, ast.Call) else case.elts
            if len(pair) != 2:
                raise UnreadableSizeError("expected a (value, condition) pair in Piecewise")
            results.append([_whole(self._value(part)) for part in pair])
        value = results.pop()[0]
        for case_value, condition in reversed(results):
            value = dims.select(condition, case_value, value)
        return Ratio(value)


def identifier(name: str) -> str:
    """Returns a name as a Python identifier."""
    result = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return result if result[:1].isalpha() or result[:1] == "_" else f"d_{result}"


def unreadable(text: str, reason: str) -> DiagnosticError:
    """Returns the error of a size expression that cannot be parsed."""
    return DiagnosticError(Diagnostic(f"cannot parse the size {text}: {reason}", code="E0808"))


def _whole(ratio: Ratio) -> Dim:
    value = ratio.whole()
    if value is None:
        raise UnreadableSizeError("an operand is not provably an integer")
    return value


def _negate(a: Ratio) -> Ratio:
    return Ratio(-a.over, a.under)


def _sum(a: Ratio, b: Ratio) -> Ratio:
    if a.under == b.under:
        return Ratio(a.over + b.over, a.under)
    return Ratio(a.over * b.under + b.over * a.under, a.under * b.under)


def _product(a: Ratio, b: Ratio) -> Ratio:
    return Ratio(a.over * b.over, a.under * b.under)


def _quotient(a: Ratio, b: Ratio) -> Ratio:
    return Ratio(a.over * b.under, a.under * b.over)


def _power(a: Ratio, b: Ratio) -> Ratio:
    exponent = _whole(b)
    if not isinstance(exponent, int) or abs(exponent) > MAX_EXPONENT:
        raise UnreadableSizeError(f"expected a constant exponent up to {MAX_EXPONENT}")
    result = reduce(_product, [a] * abs(exponent), Ratio(1))
    return result if exponent >= 0 else Ratio(result.under, result.over)


def _floor(a: Ratio) -> Dim:
    return dims.floordiv(a.over, a.under)


def _ceiling(a: Ratio) -> Dim:
    return -dims.floordiv(-a.over, a.under)


def _all(act: Callable[[Ratio, Ratio], Ratio]) -> Callable[[list[Ratio]], Ratio]:
    return lambda args: reduce(act, args)


def _sizes(act: Callable[..., Dim]) -> Callable[[list[Ratio]], Ratio]:
    return lambda args: Ratio(act(*[_whole(a) for a in args]))


def _comparison(op: str, is_swapped: bool = False) -> Callable[[list[Ratio]], Ratio]:
    def compare(args: list[Ratio]) -> Ratio:
        a, b = reversed(args) if is_swapped else args
        return Ratio(dims.compare(op, a.over * b.under, b.over * a.under))

    return compare


def _both(a: Dim, b: Dim) -> Dim:
    return a * b


def _either(a: Dim, b: Dim) -> Dim:
    return dims.dim_max(a, b)


FUNCTIONS: dict[str, Callable[[list[Ratio]], Ratio]] = {
    "Add": _all(_sum),
    "And": _sizes(lambda *args: reduce(_both, args)),
    "CeilToInt": lambda args: Ratio(_ceiling(args[0])),
    "CleanDiv": lambda args: Ratio(_floor(_quotient(*args))),
    "Equality": _comparison("eq"),
    "Eq": _comparison("eq"),
    "FloatTrueDiv": lambda args: _quotient(*args),
    "FloorDiv": lambda args: Ratio(_floor(_quotient(*args))),
    "FloorToInt": lambda args: Ratio(_floor(args[0])),
    "GreaterThan": _comparison("le", is_swapped=True),
    "Identity": lambda args: args[0],
    "IntTrueDiv": lambda args: _quotient(*args),
    "Integer": lambda args: args[0],
    "LessThan": _comparison("le"),
    "Max": _sizes(dims.dim_max),
    "Min": _sizes(dims.dim_min),
    "Mod": _sizes(dims.floormod),
    "Mul": _all(_product),
    "Not": _sizes(lambda a: 1 - a),
    "Or": _sizes(lambda *args: reduce(_either, args)),
    "Pow": lambda args: _power(*args),
    "PowByNatural": lambda args: _power(*args),
    "PythonMod": _sizes(dims.floormod),
    "Rational": lambda args: _quotient(*args),
    "StrictGreaterThan": _comparison("lt", is_swapped=True),
    "StrictLessThan": _comparison("lt"),
    "ToFloat": lambda args: args[0],
    "TruncToInt": lambda args: Ratio(_floor(args[0])),
    "Unequality": _comparison("ne"),
    "Ne": _comparison("ne"),
    "ceiling": lambda args: Ratio(_ceiling(args[0])),
    "floor": lambda args: Ratio(_floor(args[0])),
}
