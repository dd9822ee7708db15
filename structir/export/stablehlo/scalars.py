"""Scalar expressions as StableHLO operations over a loop space."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from structir.export.stablehlo.elements import HloElement, LoopGrid, dtype_of_kind
from structir.export.stablehlo.tensors import HloTensor
from structir.ir.dtype import SIGNED, is_float, is_int
from structir.projections.scalar_expr import (
    FUNCTIONS,
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
)
from structir.projections.values import (
    LITERAL_KINDS,
    RULES,
    SETTLED,
    WEAK_INT,
    computing_dtype,
    promote_dtypes,
)

DIRECT = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "neg": "negate",
    "abs": "abs",
    "sign": "sign",
    "ceil": "ceil",
    "floor": "floor",
    "round": "round_nearest_even",
    "min": "minimum",
    "max": "maximum",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "tanh": "tanh",
    "atan2": "atan2",
    "sigmoid": "logistic",
    "sinh": "chlo.sinh",
    "cosh": "chlo.cosh",
    "asin": "chlo.asin",
    "acos": "chlo.acos",
    "atan": "chlo.atan",
    "asinh": "chlo.asinh",
    "acosh": "chlo.acosh",
    "atanh": "chlo.atanh",
    "erf": "chlo.erf",
    "erfc": "chlo.erfc",
    "erfinv": "chlo.erf_inv",
    "lgamma": "chlo.lgamma",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "not": "not",
    "bitand": "and",
    "bitor": "or",
    "bitxor": "xor",
    "bitnot": "not",
    "shl": "shift_left",
}
ROUNDINGS = frozenset({"ceil", "floor", "round", "trunc"})
BITWISE = frozenset({"bitand", "bitor", "bitxor", "bitnot", "min", "max"})


class ScalarLowering:
    """Computes scalar expressions for the reads of a statement."""

    def __init__(self, grid: LoopGrid, reads: Mapping[str, HloElement]) -> None:
        self.grid, self.block, self.reads = grid, grid.block, reads
        self.memo: dict[ScalarExpr, HloElement] = {}

    def value(self, expr: ScalarExpr) -> HloElement:
        """Returns the value of an expression; narrow floats are computed in float32."""
        result = self.memo.get(expr)
        if result is None:
            result = self.memo[expr] = EVALUATORS[type(expr)](self, expr)
        return result

    def _operand(self, expr: OperandElement) -> HloElement:
        element = self.reads[expr.name]
        kind = computing_dtype(element.kind)
        return HloElement(self.grid.tensor(element, kind), element.axes, kind)

    def _index(self, expr: LoopIndex) -> HloElement:
        return self.grid.counter(expr.index_var)

    def _literal(self, expr: ScalarLiteral) -> HloElement:
        return HloElement(None, (), LITERAL_KINDS[type(expr.value)], expr.value)

    def _extent(self, expr: ScalarExtent) -> HloElement:
        if isinstance(expr.dim, int):
            return HloElement(None, (), WEAK_INT, expr.dim)
        return HloElement(self.grid.size(expr.dim), (), WEAK_INT)

    def _op(self, expr: ScalarOp) -> HloElement:
        function = FUNCTIONS[expr.fn]
        if function.is_inlined:
            return self.value(function.inlined(*expr.args))
        args = [self.value(arg) for arg in expr.args]
        kinds = [arg.kind for arg in args]
        rule = function.rule
        kind = RULES[rule](kinds, expr.dtype)
        kind = kind if kind in SETTLED else computing_dtype(kind)
        return APPLIERS[rule](self, expr, args, kind)

    # ---- dtype rules

    def _arithmetic(self, expr: ScalarOp, args: list[HloElement], kind: str) -> HloElement:
        dtype = dtype_of_kind(kind)
        if expr.fn in ROUNDINGS and not is_float(dtype):
            return args[0]
        if dtype == "bool" and expr.fn not in BITWISE:
            result = self.grid.apply(
                self._function(expr.fn, "int8"),
                [self.grid.apply(lambda x: x, [arg], "int8") for arg in args],
                "int8",
            )
            return self.grid.apply(lambda x: x, [result], "bool")
        return self.grid.apply(self._function(expr.fn, dtype), args, dtype, kind)

    def _comparison(self, expr: ScalarOp, args: list[HloElement], kind: str) -> HloElement:
        common = dtype_of_kind(promote_dtypes([arg.kind for arg in args]))
        return self.grid.compare(expr.fn, args[0], args[1], computing_dtype(common))

    def _logic(self, expr: ScalarOp, args: list[HloElement], kind: str) -> HloElement:
        return self.grid.apply(self._function(expr.fn, "bool"), args, "bool")

    def _test(self, expr: ScalarOp, args: list[HloElement], kind: str) -> HloElement:
        dtype = dtype_of_kind(args[0].kind)
        if not is_float(dtype):
            return HloElement(None, (), "bool", expr.fn == "isfinite")
        return self.grid.apply(self._function(expr.fn, dtype), args, dtype)

    def _choice(self, expr: ScalarOp, args: list[HloElement], kind: str) -> HloElement:
        condition, a, b = args
        result = self.grid.select(condition, a, b, dtype_of_kind(kind))
        return HloElement(result.tensor, result.axes, kind)

    def _cast(self, expr: ScalarOp, args: list[HloElement], kind: str) -> HloElement:
        dtype = expr.dtype or kind
        if args[0].tensor is None:
            source = dtype_of_kind(args[0].kind)
            args = [HloElement(self.grid.tensor(args[0], source), (), source)]
        rounded = self.grid.apply(lambda x: x, args, dtype)
        return self.grid.apply(lambda x: x, [rounded], kind)

    # ---- functions

    def _function(self, fn: str, dtype: str) -> Callable[..., HloTensor]:
        own = OWN.get(fn)
        if own is not None:
            return lambda *args: own(self, dtype, *args)
        if dtype.startswith("uint") and fn in OF_UNSIGNED:
            unsigned = OF_UNSIGNED[fn]
            return lambda *args: unsigned(self, dtype, *args)
        return lambda *args: self.block.same(DIRECT[fn], *args)

    def splat(self, value: float, like: HloTensor) -> HloTensor:
        """Returns a number with the type of a tensor."""
        return self.grid.filled(value, like.dtype, like.dims)

    def pow(self, dtype: str, x: HloTensor, y: HloTensor) -> HloTensor:
        """Returns a power; of integers with a negative exponent the truncated one."""
        if is_float(dtype) or dtype not in SIGNED:
            return self.block.same("power", x, y)
        block, zero, one = self.block, self.splat(0, y), self.splat(1, y)
        odd = block.compare("NE", block.same("and", y, one), zero)
        alternating = block.select(odd, self.splat(-1, x), one)
        minus_one = block.compare("EQ", x, self.splat(-1, x))
        inverse = block.select(minus_one, alternating, zero)
        inverse = block.select(block.compare("EQ", x, one), one, inverse)
        power = block.same("power", x, block.same("maximum", y, zero))
        return block.select(block.compare("LT", y, zero), inverse, power)

    def exp2(self, dtype: str, x: HloTensor) -> HloTensor:
        """Returns a power of 2, which is exact for whole exponents."""
        return self.block.same("power", self.splat(2, x), x)

    def quotient(self, dtype: str, x: HloTensor, y: HloTensor) -> HloTensor:
        """Returns a quotient, of integers rounded toward zero; 0 for division by zero."""
        if is_float(dtype):
            return self.block.same("divide", x, y)
        return self._unless_zero(y, self.block.same("divide", x, self._divisor(y)))

    def _divisor(self, y: HloTensor) -> HloTensor:
        """Returns divisors with 1 instead of 0: division by zero is undefined."""
        is_zero = self.block.compare("EQ", y, self.splat(0, y))
        return self.block.select(is_zero, self.splat(1, y), y)

    def _unless_zero(self, y: HloTensor, result: HloTensor) -> HloTensor:
        zero = self.splat(0, y)
        return self.block.select(self.block.compare("EQ", y, zero), zero, result)

    def mod(self, dtype: str, x: HloTensor, y: HloTensor) -> HloTensor:
        """Returns the remainder of a floored division."""
        block = self.block
        divisor = y if is_float(dtype) else self._divisor(y)
        rest = block.same("remainder", x, divisor)
        if dtype not in SIGNED and not is_float(dtype):
            return self._unless_zero(y, rest)
        zero = self.splat(0, y)
        adjusted = block.select(self._opposite(rest, y), block.same("add", rest, y), rest)
        if is_int(dtype):
            return self._unless_zero(y, adjusted)
        signed_zero = block.select(block.compare("LT", y, zero), self.splat(-0.0, y), zero)
        is_zero = block.compare("EQ", rest, zero)
        return block.select(is_zero, signed_zero, adjusted)

    def _opposite(self, rest: HloTensor, y: HloTensor) -> HloTensor:
        """Returns where a remainder is not 0 and has not the sign of the divisor."""
        block, zero = self.block, self.splat(0, y)
        negative = [block.compare("LT", value, zero) for value in (rest, y)]
        differs = block.compare("NE", *negative)
        return block.same("and", differs, block.compare("NE", rest, zero))

    def floordiv(self, dtype: str, x: HloTensor, y: HloTensor) -> HloTensor:
        """Returns a floored quotient; 0 for division of integers by zero."""
        block = self.block
        if is_float(dtype):
            exact = block.same("divide", x, y)
            whole = block.same("divide", block.same("subtract", x, self.mod(dtype, x, y)), y)
            floor = block.same("round_nearest_even", whole)
            return block.select(block.compare("EQ", y, self.splat(0, y)), exact, floor)
        divisor = self._divisor(y)
        divided = block.same("divide", x, divisor)
        if dtype in SIGNED:
            opposite = self._opposite(block.same("remainder", x, divisor), y)
            divided = block.select(
                opposite, block.same("subtract", divided, self.splat(1, y)), divided
            )
        return self._unless_zero(y, divided)

    def shr(self, dtype: str, x: HloTensor, y: HloTensor) -> HloTensor:
        """Returns the bits shifted to the right; signed integers keep their sign."""
        kind = "arithmetic" if dtype in SIGNED else "logical"
        return self.block.same(f"shift_right_{kind}", x, y)

    def trunc(self, dtype: str, x: HloTensor) -> HloTensor:
        """Returns the value rounded toward zero."""
        negative = self.block.compare("LT", x, self.splat(0, x))
        return self.block.select(negative, self.block.same("ceil", x), self.block.same("floor", x))

    def isnan(self, dtype: str, x: HloTensor) -> HloTensor:
        """Returns whether a float is a NaN."""
        return self.block.compare("NE", x, x)

    def isinf(self, dtype: str, x: HloTensor) -> HloTensor:
        """Returns whether a float is infinite."""
        return self.block.compare("EQ", self.block.same("abs", x), self.splat(math.inf, x))

    def isfinite(self, dtype: str, x: HloTensor) -> HloTensor:
        """Returns whether a float is finite."""
        return self.block.emit("is_finite", [x], x.dims, "bool")


def _unsigned_sign(scalars: ScalarLowering, dtype: str, x: HloTensor) -> HloTensor:
    return scalars.block.same("minimum", x, scalars.splat(1, x))


EVALUATORS: dict[type, Callable[..., HloElement]] = {
    OperandElement: ScalarLowering._operand,
    LoopIndex: ScalarLowering._index,
    ScalarLiteral: ScalarLowering._literal,
    ScalarExtent: ScalarLowering._extent,
    ScalarOp: ScalarLowering._op,
}
APPLIERS: dict[str, Callable[..., HloElement]] = {
    "same": ScalarLowering._arithmetic,
    "float": ScalarLowering._arithmetic,
    "quotient": ScalarLowering._arithmetic,
    "compare": ScalarLowering._comparison,
    "logic": ScalarLowering._logic,
    "test": ScalarLowering._test,
    "select": ScalarLowering._choice,
    "cast": ScalarLowering._cast,
}
OWN: dict[str, Callable[..., HloTensor]] = {
    "pow": ScalarLowering.pow,
    "exp2": ScalarLowering.exp2,
    "quotient": ScalarLowering.quotient,
    "mod": ScalarLowering.mod,
    "floordiv": ScalarLowering.floordiv,
    "shr": ScalarLowering.shr,
    "trunc": ScalarLowering.trunc,
    "isnan": ScalarLowering.isnan,
    "isinf": ScalarLowering.isinf,
    "isfinite": ScalarLowering.isfinite,
}
OF_UNSIGNED: dict[str, Callable[..., HloTensor]] = {
    "sign": _unsigned_sign,
    "abs": lambda scalars, dtype, x: x,
    "neg": lambda scalars, dtype, x: scalars.block.same("subtract", scalars.splat(0, x), x),
}
