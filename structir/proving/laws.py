"""The laws of scalar functions: the axioms that the kernel applies to calls of functions.

Each law has a name and a statement. A function without a law is unknown: equal arguments give equal
results. In exact mode only laws that hold for every bit pattern of floats apply.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from structir.ir.dims import Dim
from structir.ir.dtype import int_bits, int_limits, is_float, is_int
from structir.ir.registry import RegistrationTable
from structir.proving.cancellation import contradict, sum_of
from structir.proving.sums import (
    PRECISION,
    Monomials,
    add_to,
    atom_of,
    by_key,
    collect,
    conditions,
    dim_of,
    literal,
    lone,
    number_of,
    scaled,
    total_of,
)
from structir.proving.terms import (
    ApplyTerm,
    ElementTerm,
    LiteralTerm,
    NormalForm,
    ScalarTerm,
    Unknown,
)

MAX_POWER = 8
MAX_CONDITIONS = 6  # of a choice of elements
MIRRORED = {"gt": "lt", "ge": "le"}
AND, OR, NOT = ("and", "min", "bitand", "mul"), ("or", "max", "bitor", "add"), ("not", "bitnot")
LAWS = {
    "ring": "x + y and x * y are associative and commutative, x * (y + z) = x*y + x*z, x + 0 = x, "
    "x * 1 = x, x - y = x + (-1)*y; a term that cancels remains as 0*x, "
    "and numbers that cancel as 0*rounded()",
    "ring modulo 2**w": "the same for integers of w bits, where terms that cancel disappear",
    "distributivity": "x * (y + z) = x*y + x*z",
    "boolean ring": "x and y = x*y, x xor y = x + y, not x = 1 + x, modulo 2, with x*x = x",
    "choice": "where(c, x, y) = c*x + (1 - c)*y, where 0 excludes its factor",
    "quotient": "x / y = x * inverse(y), inverse(x * y) = inverse(x) * inverse(y), "
    "inverse(inverse(x)) = x; inverse(x) * x is not 1",
    "integer quotient": "x / 1 = x for integers",
    "product of exponentials": "exp(x) * exp(y) = exp(x + y)",
    "inverse of an exponential": "inverse(exp(x)) = exp(-x), exp(0) = 1",
    "power of an exponential": "power(exp(x), y) = exp(x * y)",
    "logarithm of an exponential": "log(exp(x)) = x",
    "integer power": "power(x, n) = x * ... * x for a literal n >= 0, and "
    "power(x, -n) = inverse(x) * ... * inverse(x)",
    "root": "rsqrt(x) = inverse(sqrt(x)), sqrt(x * x) = abs(x)",
    "lattice": "max and min are associative, commutative and idempotent; the least and the "
    "greatest value are their identities",
    "bounds": "max(c, min(d, x)) = min(d, max(c, x)) for numbers c <= d",
    "comparison": "x > y is y < x, x != y is not x == y; x <= y is not y < x for integers, "
    "x == x for integers; sizes compare as integers",
    "remainder of a remainder": "(x % y) % y = x % y for integers",
    "widening cast": "a cast of an element to a wider float keeps the value; a cast after a "
    "widening cast is one cast; a truth value is 0 or 1 as an integer",
    "absolute value": "abs(abs(x)) = abs(x), abs(-x) = abs(x)",
    "rounding of integers": "floor, ceil, round and trunc of an integer are the integer",
    "exact negation": "of every bit pattern: -(-x) = x, x - y = x + (-y), (-x) * y = -(x * y)",
    "exact unit": "of every bit pattern: x * 1 = x, x / 1 = x, x + (-0.0) = x, x + y = y + x, "
    "x * y = y * x, power(x, 1) = x",
    "linearity of sums": "sum(x + y) = sum(x) + sum(y), sum(c * x) = c * sum(x)",
    "independent factors": "sum over i, j of x(i) * y(j) = (sum of x) * (sum of y)",
    "nested sums": "a sum over i of a sum over j is a sum over i, j, in any order",
    "disjunction": "any(x or y) = any(x) or any(y)",
    "nested folds": "the same for max, min, any, all and prod",
    "split range": "a range of m*n indices k is a range of m and one of n indices: k = n*i + j",
    "merged ranges": "the reverse: a range of m and one of n indices is a range of m*n indices",
    "cut range": "a range of m + n indices is a range of m and a range of n indices",
    "reversed range": "the index n - 1 - k has the range of k",
    "cases": "a condition holds or fails",
}


class LawContext(Protocol):
    """What laws use of the kernel."""

    exact: bool
    laws: set[str]

    def apply(self, fn: str, args: list[NormalForm], dtype: str, facts: Any) -> NormalForm:
        """Returns a function of normal forms."""
        ...

    def product(self, factors: list[NormalForm], dtype: str, facts: Any) -> NormalForm:
        """Returns a product of normal forms."""
        ...

    def condition(self, dim: Dim, facts: Any) -> NormalForm:
        """Returns `dim >= 0`."""
        ...


Laws = Callable[..., "NormalForm | None"]
law_of: RegistrationTable[str, Laws] = RegistrationTable()


@law_of("add", "sub", "mul", "neg")
def ring(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Applies the laws of rings."""
    if dtype == "bool":
        return args[0] if fn == "neg" else logic(kernel, fn, args, dtype, facts)
    if kernel.exact and is_float(dtype):
        return exact_ring(kernel, fn, args, dtype)
    kernel.laws.add("ring" if is_float(dtype) else "ring modulo 2**w")
    if fn == "mul":
        product: NormalForm = kernel.product(args, dtype, facts)
        return product
    last = args[-1] if fn == "add" else scaled(args[-1], -1)
    return last if fn == "neg" else sum_of([args[0], last], dtype, facts)


def exact_ring(kernel: LawContext, fn: str, args: list[NormalForm], dtype: str) -> NormalForm:
    """Applies the laws of sums, products and quotients that hold for every bit pattern."""
    if fn in ("neg", "sub"):
        kernel.laws.add("exact negation")
        negative = scaled(args[-1], -1)
        return negative if fn == "neg" else exact_ring(kernel, "add", [args[0], negative], dtype)
    kernel.laws.add("exact unit")
    if fn == "add":
        zero = NormalForm((((LiteralTerm(0.0, dtype),), -1),), dtype)
        for k in (0, 1):
            if args[k] == zero:
                return args[1 - k]
        return lone(ApplyTerm(fn, tuple(sorted(args, key=by_key)), dtype))
    sign = 1
    for k, arg in enumerate(args):
        if [c for _, c in arg.terms] == [-1]:
            sign, args[k] = -sign, scaled(arg, -1)
    for k in (1,) if fn == "div" else (0, 1):
        if args[k] == literal(1, dtype, exact=True):
            return scaled(args[1 - k], sign)
    ordered = sorted(args, key=by_key) if fn == "mul" else args
    return scaled(lone(ApplyTerm(fn, tuple(ordered), dtype)), sign)


@law_of("div")
def quotient(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns a quotient as a product with an inverse."""
    if kernel.exact:
        return exact_ring(kernel, "div", args, dtype)
    product: NormalForm = kernel.product(
        [args[0], inverse(kernel, args[1], dtype, facts)], dtype, facts
    )
    return product


def inverse(kernel: LawContext, value: NormalForm, dtype: str, facts: Any) -> NormalForm:
    """Returns the inverse of a number; that of a product is a product."""
    kernel.laws.add("quotient")
    factor = value.terms[0][1] if value.terms else 0
    if not factor:
        return lone(ApplyTerm("inverse", (value,), dtype))
    value, factor = scaled(value, 1 / Fraction(factor)), 1 / Fraction(factor)
    if len(value.terms) > 1 or conditions(value.terms[0][0]):
        return scaled(lone(ApplyTerm("inverse", (value,), dtype)), factor)
    inverses = []
    for atom in value.terms[0][0]:
        function = atom.fn if isinstance(atom, ApplyTerm) else None
        if function == "inverse":
            inverses.append(atom.args[0])
        elif function == "exp":
            kernel.laws.add("inverse of an exponential")
            inverses.append(kernel.apply("exp", [scaled(atom.args[0], -1)], dtype, facts))
        else:
            inverses.append(lone(ApplyTerm("inverse", (lone(atom),), dtype)))
    return scaled(kernel.product(inverses, dtype, facts), factor)


@law_of("quotient")
def integer_quotient(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns x for x / 1 of integers."""
    kernel.laws.add("integer quotient")
    return args[0] if number_of(args[1]) == 1 and args[0].dtype == dtype else None


@law_of("pow")
def power(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns an integer power as a product."""
    if kernel.exact and is_float(dtype):
        return args[0] if args[1] == literal(1, args[1].dtype, exact=True) else None
    exponent = number_of(args[1])
    base = atom_of(args[0])
    if exponent is None and isinstance(base, ApplyTerm) and base.fn == "exp":
        kernel.laws.add("power of an exponential")
        exponents = kernel.product([base.args[0], args[1]], dtype, facts)
        return kernel.apply("exp", [exponents], dtype, facts)
    if exponent is None or exponent != int(exponent) or abs(exponent) > MAX_POWER:
        return None
    if exponent < 0 and not is_float(dtype):
        return None
    kernel.laws.add("integer power")
    factor = args[0] if exponent >= 0 else inverse(kernel, args[0], dtype, facts)
    product: NormalForm = kernel.product([factor] * abs(int(exponent)), dtype, facts)
    return product


@law_of("and", "or", "xor", "not", "bitand", "bitor", "bitxor", "bitnot")
def logic(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns a boolean function as a polynomial modulo 2."""
    if dtype != "bool":
        return None
    truths = [
        a if a.dtype == "bool" else kernel.apply("ne", [a, literal(0, a.dtype)], "bool", facts)
        for a in args
    ]
    kernel.laws.add("boolean ring")
    if fn in AND:
        conjunction: NormalForm = kernel.product(truths, "bool", facts)
        return conjunction
    total: Monomials = {(): 1} if fn in NOT else dict(truths[0].terms)
    for truth in truths if fn in NOT else truths[1:]:
        both = kernel.product([collect(total, "bool"), truth], "bool", facts) if fn in OR else None
        add_to(total, truth.terms, 1)
        add_to(total, both.terms if both is not None else (), 1)
    return collect(total, "bool")


@law_of("max", "min")
def lattice(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns a maximum or minimum of a set."""
    if dtype == "bool":
        return logic(kernel, fn, args, dtype, facts)
    if kernel.exact and is_float(dtype):  # the maximum of 0.0 and -0.0 depends on their order
        return args[0] if args[0] == args[1] else None
    kernel.laws.add("lattice")
    parts: dict[NormalForm, None] = {}
    for arg in args:
        atom = atom_of(arg)
        inner = atom.args if isinstance(atom, ApplyTerm) and atom.fn == fn else (arg,)
        parts |= dict.fromkeys(inner)
    numbers = [p for p in parts if number_of(p) is not None]
    best = (max if fn == "max" else min)(numbers, key=number_of, default=None)
    limits = (float("-inf"), float("inf")) if is_float(dtype) else int_limits(dtype)
    identity = literal(limits[fn == "min"], dtype)
    kept = [p for p in parts if (p not in numbers or p is best) and p != identity]
    bounded = _bounded(kernel, fn, kept, best, dtype, facts)
    if bounded is not None:
        return bounded
    if len(kept) < 2:
        return kept[0] if kept else identity
    return lone(ApplyTerm(fn, tuple(sorted(kept, key=by_key)), dtype))


def _bounded(
    kernel: LawContext,
    fn: str,
    parts: list[NormalForm],
    low: NormalForm | None,
    dtype: str,
    facts: Any,
) -> NormalForm | None:
    """Returns `max(c, min(d, x))` as `min(d, max(c, x))` for numbers c <= d."""
    if fn != "max" or low is None or len(parts) != 2:
        return None
    inner = [atom_of(p) for p in parts if p is not low and p in parts]
    atom = inner[0] if len(inner) == 1 else None
    if not isinstance(atom, ApplyTerm) or atom.fn != "min":
        return None
    high = [a for a in atom.args if number_of(a) is not None]
    if len(high) != 1 or number_of(low) > number_of(high[0]):
        return None
    kernel.laws.add("bounds")
    rest = kernel.apply("min", [a for a in atom.args if a is not high[0]], dtype, facts)
    return kernel.apply(
        "min", [high[0], kernel.apply("max", [low, rest], dtype, facts)], dtype, facts
    )


@law_of("lt", "le", "gt", "ge", "eq", "ne")
def comparison(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns a comparison as `<`, `<=` or `==`; that of sizes as conditions."""
    kernel.laws.add("comparison")
    if fn in MIRRORED:
        fn, args = MIRRORED[fn], args[::-1]
    if fn == "le" and not is_float(args[0].dtype) and not is_float(args[1].dtype):
        return logic(kernel, "not", [kernel.apply("lt", args[::-1], "bool", facts)], "bool", facts)
    if fn == "ne":
        same = kernel.apply("eq", args, "bool", facts)
        return logic(kernel, "not", [same], "bool", facts)
    a, b = [number_of(arg) for arg in args]
    if a is not None and b is not None:
        return literal(a < b if fn == "lt" else a <= b if fn == "le" else a == b, "bool")
    exact = all([not is_float(arg.dtype) for arg in args])
    if args[0] == args[1] and (exact or fn == "lt"):
        return literal(fn != "lt", "bool")
    if args[0].dtype == args[1].dtype == "bool" and fn == "eq":
        return total_of([*args, literal(1, "bool")], "bool")
    first, second = [dim_of(arg) for arg in args]
    if exact and first is not None and second is not None:
        low: NormalForm = kernel.condition(facts.simplify(second - first - (fn == "lt")), facts)
        if fn != "eq":
            return low
        return kernel.product(
            [low, kernel.condition(facts.simplify(first - second), facts)], "bool", facts
        )
    ordered = sorted(args, key=by_key) if fn == "eq" else args
    return lone(ApplyTerm(fn, tuple(ordered), dtype))


def widens(source: str, target: str) -> bool:
    """Returns whether every value of a dtype is a value of another dtype."""
    if source in PRECISION and target in PRECISION:
        return all([a <= b for a, b in zip(PRECISION[source], PRECISION[target], strict=True)])
    if not is_int(source) or not (is_int(target) or target in PRECISION):
        return False
    if target in PRECISION:
        return int_bits(source) <= PRECISION[target][0]
    (low, high), (least, greatest) = int_limits(source), int_limits(target)
    return least <= low and high <= greatest


def _is_choice_of_elements(value: NormalForm, facts: Any) -> bool:
    """Returns whether a value is one element, its opposite or 0, whichever conditions hold.

    Another value is computed, and then rounded to its dtype.
    """
    groups = [(conditions(m), [a for a in m if a.dtype != "bool"], c) for m, c in value.terms]
    if any(
        [[type(n) for n in numbers] not in ([ElementTerm], [Unknown]) for _, numbers, _ in groups]
    ):
        return False
    atoms = sorted({c for own, _, _ in groups for c in own}, key=by_key)
    if len(atoms) > MAX_CONDITIONS:
        return False
    for truths in itertools.product((False, True), repeat=len(atoms)):
        holds = {a for a, truth in zip(atoms, truths, strict=True) if truth}
        factors: dict[ScalarTerm, Any] = {}
        for own, (number,), factor in groups:
            if own <= holds:
                factors[number] = factors.get(number, 0) + factor
        remaining = [f for f in factors.values() if f]
        if remaining not in ([], [1], [-1]) and not contradict(atoms, holds, facts):
            return False
    return all([factor for _, _, factor in groups])


@law_of("cast")
def cast(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Removes casts that keep the value."""
    (value,) = args
    if value.dtype == dtype:
        return value
    kernel.laws.add("widening cast")
    if value.dtype == "bool" and is_int(dtype):
        product: NormalForm = kernel.product([value], dtype, facts)
        return product
    number = number_of(value) if is_int(value.dtype) else None
    if number is not None and (is_int(dtype) or abs(number) < 1 << PRECISION.get(dtype, (0,))[0]):
        return literal(number, dtype, kernel.exact)
    wider = is_float(value.dtype) and widens(value.dtype, dtype) and not kernel.exact
    if wider and _is_choice_of_elements(value, facts):
        return NormalForm(value.terms, dtype)
    if (
        kernel.exact
        and is_float(value.dtype)
        and is_float(dtype)
        and [c for _, c in value.terms] == [-1]
    ):
        return scaled(kernel.apply("cast", [scaled(value, -1)], dtype, facts), -1)
    atom = atom_of(value)
    if atom is not None and atom.dtype == dtype:  # a wider float of the same value
        return lone(atom)
    if isinstance(atom, ApplyTerm) and atom.fn == "cast" and widens(atom.args[0].dtype, atom.dtype):
        return kernel.apply("cast", [atom.args[0]], dtype, facts)
    return None


@law_of("abs")
def absolute(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns the absolute value of a number or of its opposite, whichever sorts first."""
    kernel.laws.add("absolute value")
    atom = atom_of(args[0])
    if isinstance(atom, ApplyTerm) and atom.fn == "abs":
        return args[0]
    if not is_float(dtype):  # the absolute value of the least integer is the least integer
        return None
    return lone(ApplyTerm("abs", (min(args[0], scaled(args[0], -1), key=by_key),), dtype))


@law_of("floor", "ceil", "round", "trunc")
def rounding(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Removes roundings of integers."""
    kernel.laws.add("rounding of integers")
    return None if is_float(args[0].dtype) else args[0]


@law_of("sqrt", "rsqrt")
def root(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns abs(x) for the root of x * x, and the inverse of a root."""
    if kernel.exact:
        return None
    kernel.laws.add("root")
    if fn == "rsqrt":
        return inverse(kernel, kernel.apply("sqrt", args, dtype, facts), dtype, facts)
    if len(args[0].terms) == 1 and args[0].terms[0][1] == 1 and len(args[0].terms[0][0]) == 2:
        first, second = args[0].terms[0][0]
        if first == second and first.dtype == dtype:
            return kernel.apply("abs", [lone(first)], dtype, facts)
    return None


@law_of("log")
def logarithm(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns x for log(exp(x))."""
    atom = atom_of(args[0])
    if kernel.exact or not isinstance(atom, ApplyTerm) or atom.fn != "exp":
        return None
    kernel.laws.add("logarithm of an exponential")
    exponent: NormalForm = atom.args[0]
    return exponent


@law_of("mod")
def remainder(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns x % y for (x % y) % y of integers."""
    atom = atom_of(args[0])
    if not is_int(dtype) or not isinstance(atom, ApplyTerm) or atom.fn != "mod":
        return None
    kernel.laws.add("remainder of a remainder")
    return args[0] if atom.args[1] == args[1] else None


@law_of("exp")
def exponential(
    kernel: LawContext, fn: str, args: list[NormalForm], dtype: str, facts: Any
) -> NormalForm | None:
    """Returns 1 for exp(0)."""
    return literal(1, dtype) if not args[0].terms and not kernel.exact else None
