"""The scalar functions of kernels as LLVM instructions: one row for each function and kind of
dtype. A function without a row is one that is linked in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structir.ir.dtype import is_float
from structir.ir.kernel_functions import NARROW, ROUND
from structir.ir.scalar_functions import ScalarFunction, declared
from structir.projections.scalar_expr import OperandElement, fold
from structir.targets.cpu.assembly import TYPES, Assembly, bits_of, constant, is_signed, rounded_to

Row = Callable[[Assembly, str, Sequence[str]], str]
EXPENSIVE = frozenset({"div", "floordiv", "mod", "quotient"})  # of those with a row


def applied(asm: Assembly, fn: str, dtype: str, args: Sequence[str]) -> str:
    """Appends a scalar function of operands of a dtype; returns its value."""
    row = _table(dtype).get(fn)
    if row is not None:
        return row(asm, dtype, args)
    function, kind = declared()[fn], TYPES[dtype]
    if is_float(dtype) and function.form(dtype) is None:
        return _without_form(asm, function, dtype, args)
    return asm.call_prepared(function.symbol_of(dtype), kind, [(kind, a) for a in args])


def _without_form(asm: Assembly, function: ScalarFunction, dtype: str, args: Sequence[str]) -> str:
    """A function by its intrinsic, or by other functions."""
    if function.intrinsic:
        return _intrinsic(function.intrinsic)(asm, dtype, args)
    assert function.body is not None
    operands = {f"x{k}": arg for k, arg in enumerate(args)}
    tree = function.body(*map(OperandElement, operands))

    def write(fn: str, inner: list[str]) -> str:
        return applied(asm, fn, dtype, inner)

    return fold(tree, operands, lambda value: constant(value, dtype), write)


def is_cheap(fn: str, dtype: str) -> bool:
    """Returns whether a function costs no more than a branch around it."""
    return fn not in EXPENSIVE and fn in _table(dtype)


def _table(dtype: str) -> dict[str, Row]:
    return BOOLS if dtype == "bool" else FLOATS if is_float(dtype) else INTS


def _plain(instruction: str) -> Row:
    return lambda asm, dtype, args: asm.value(f"{instruction} {TYPES[dtype]} {', '.join(args)}")


def _arithmetic(instruction: str, flags: str = "") -> Row:
    """An operation on floats, with the flags of the whole function."""
    return lambda asm, dtype, args: asm.value(
        f"{instruction} {flags}{asm.flags}{TYPES[dtype]} {args[0]}, {args[1]}"
    )


def _intrinsic(name: str, flags: str = "") -> Row:
    return lambda asm, dtype, args: asm.intrinsic(
        name, TYPES[dtype], [(TYPES[dtype], a) for a in args], flags
    )


def _extreme_or_nan(name: str) -> Row:
    """An intrinsic on operands in reverse order. The first one is often a total in memory; code
    that keeps it where it is NaN would become a masked store, which is slow on AMD's processors."""
    row = _intrinsic(name, "nsz ")
    return lambda asm, dtype, args: row(asm, dtype, args[::-1])


def _extreme_number(comparison: str) -> Row:
    """The larger or smaller of two numbers, neither of which is NaN."""

    def choose(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
        (x, y), kind, flags = args, TYPES[dtype], "nnan nsz"
        test = asm.value(f"fcmp {flags} {comparison} {kind} {x}, {y}")
        return asm.value(f"select {flags} i1 {test}, {kind} {x}, {kind} {y}")

    return choose


def _compared(ordered: str, whole: str) -> Row:
    """A comparison; that of signed integers has an `s` where that of others has a `u`."""

    def compare(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
        signed = whole.replace("u", "s", 1) if is_signed(dtype) else whole
        test = f"fcmp {ordered}" if is_float(dtype) else f"icmp {signed}"
        return asm.value(f"{test} {TYPES[dtype]} {args[0]}, {args[1]}")

    return compare


def _extreme(comparison: str) -> Row:
    """Python's `min` and `max`: the first one, unless a later one is less (greater)."""
    better = {"lt": _compared("olt", "ult"), "gt": _compared("ogt", "ugt")}[comparison]

    def choose(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
        best = args[0]
        for other in args[1:]:
            best = asm.select(better(asm, dtype, (other, best)), TYPES[dtype], other, best)
        return best

    return choose


def _absolute(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
    if not is_signed(dtype):
        return args[0]
    kind, negated = TYPES[dtype], INTS["neg"](asm, dtype, args)
    return asm.select(asm.value(f"icmp slt {kind} {args[0]}, 0"), kind, negated, args[0])


def _magnitude(comparison: str) -> Row:
    """The comparison of the magnitude of a float with infinity."""

    def compare(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
        infinity = constant(float("inf"), dtype)
        return FLOATS[comparison](asm, dtype, (FLOATS["abs"](asm, dtype, args), infinity))

    return compare


def _division(remainder: bool) -> Row:
    """Floor division of integers, or its remainder: 0 where the divisor is 0, and what wraps around
    where it is -1. LLVM divides by a constant with a product."""
    by_any = _prepared("mod" if remainder else "floordiv")

    def divide(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
        (x, y), kind = args, TYPES[dtype]
        if y.startswith("%"):
            return by_any(asm, dtype, args)
        is_zero = asm.value(f"icmp eq {kind} {y}, 0")
        if not is_signed(dtype):
            divisor = asm.select(is_zero, kind, "1", y)
            result = asm.value(f"{'urem' if remainder else 'udiv'} {kind} {x}, {divisor}")
            return asm.select(is_zero, kind, "0", result)
        is_minus_one = asm.value(f"icmp eq {kind} {y}, -1")
        is_special = asm.value(f"or i1 {is_zero}, {is_minus_one}")
        divisor = asm.select(is_special, kind, "1", y)
        rest = asm.value(f"srem {kind} {x}, {divisor}")
        signs = asm.value(f"icmp slt {kind} {asm.value(f'xor {kind} {rest}, {divisor}')}, 0")
        is_odd = asm.all_of([asm.value(f"icmp ne {kind} {rest}, 0"), signs])
        if remainder:
            correction = asm.select(is_odd, kind, divisor, "0")
            result = asm.value(f"add {kind} {rest}, {correction}")
            return asm.select(is_special, kind, "0", result)
        quotient = asm.value(f"sdiv {kind} {x}, {divisor}")
        correction = asm.value(f"sext i1 {is_odd} to {kind}")
        result = asm.value(f"add {kind} {quotient}, {correction}")
        negated = asm.value(f"sub {kind} 0, {x}")
        special = asm.select(is_minus_one, kind, negated, "0")
        return asm.select(is_special, kind, special, result)

    return divide


def _shifted(instruction: str) -> Row:
    """A shift; by a count that is no position in the number, one by all of its bits."""

    def shift(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
        (x, count), kind, bits = args, TYPES[dtype], bits_of(dtype)
        is_position = asm.value(f"icmp ult {kind} {count}, {bits}")
        if instruction == "shr" and is_signed(dtype):
            count = asm.select(is_position, kind, count, str(bits - 1))
            return asm.value(f"ashr {kind} {x}, {count}")
        count = asm.select(is_position, kind, count, "0")
        name = "shl" if instruction == "shl" else "lshr"
        return asm.select(is_position, kind, asm.value(f"{name} {kind} {x}, {count}"), "0")

    return shift


def _prepared(name: str) -> Row:
    """A function that is linked in."""

    def call(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
        kind = TYPES[dtype]
        return asm.call_prepared(f"{name}_{dtype}", kind, [(kind, a) for a in args])

    return call


def _rounded(stored: str) -> Row:
    """The rounding of a float32 to the numbers of a dtype."""
    form = rounded_to(stored)
    return lambda asm, dtype, args: form(asm, args[0])


def _complement(asm: Assembly, dtype: str, args: Sequence[str]) -> str:
    return asm.value(f"xor {TYPES[dtype]} {args[0]}, -1")


COMPARISONS: dict[str, Row] = {
    "lt": _compared("olt", "ult"),
    "le": _compared("ole", "ule"),
    "gt": _compared("ogt", "ugt"),
    "ge": _compared("oge", "uge"),
    "eq": _compared("oeq", "eq"),
    "ne": _compared("une", "ne"),
}
FLOATS: dict[str, Row] = {
    **COMPARISONS,
    "add": _arithmetic("fadd"),
    "sub": _arithmetic("fsub"),
    "mul": _arithmetic("fmul"),
    "div": _arithmetic("fdiv"),
    # The terms of a sum may be reordered. The factors of a product keep their order: a product of
    # some of them may overflow where that of all does not.
    "add_to": lambda asm, dtype, args: asm.value(
        f"fadd reassoc contract {TYPES[dtype]} {args[0]}, {args[1]}"
    ),
    "multiply_to": _arithmetic("fmul"),
    "floordiv": _prepared("floor_quotient"),
    "mod": _prepared("remainder"),
    "neg": _plain("fneg"),
    "abs": _intrinsic("fabs"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("rint"),
    # NaN if an operand is; the sign of a zero may get lost.
    "maximum": _extreme_or_nan("maximum"),
    "minimum": _extreme_or_nan("minimum"),
    "largest": _extreme_number("ogt"),
    "smallest": _extreme_number("olt"),
    "max": _extreme("gt"),
    "min": _extreme("lt"),
    "isnan": lambda asm, dtype, args: FLOATS["ne"](asm, dtype, (args[0], args[0])),
    "isinf": _magnitude("eq"),
    "isfinite": _magnitude("lt"),
    "to_odd": lambda asm, dtype, args: asm.call_prepared("to_odd", "double", [("double", args[0])]),
    **{f"{ROUND}{dtype}": _rounded(dtype) for dtype in NARROW},
}
INTS: dict[str, Row] = {
    **COMPARISONS,
    "add": _plain("add"),
    "sub": _plain("sub"),
    "mul": _plain("mul"),
    "neg": lambda asm, dtype, args: asm.value(f"sub {TYPES[dtype]} 0, {args[0]}"),
    "abs": _absolute,
    "floordiv": _division(remainder=False),
    "mod": _division(remainder=True),
    "quotient": _prepared("quotient"),
    "max": _extreme("gt"),
    "min": _extreme("lt"),
    "bitand": _plain("and"),
    "bitor": _plain("or"),
    "bitxor": _plain("xor"),
    "bitnot": _complement,
    "shl": _shifted("shl"),
    "shr": _shifted("shr"),
}
BOOLS: dict[str, Row] = {
    "eq": COMPARISONS["eq"],
    "ne": COMPARISONS["ne"],
    "bitand": _plain("and"),
    "bitor": _plain("or"),
    "bitxor": _plain("xor"),
    "bitnot": _complement,
    "not": _complement,
}
