"""Compares programs of ring operations exactly, by evaluation over finite fields.

The floats of such a program are polynomials in its inputs. Two different polynomials of degree d
agree at a random point of the field of p elements with a probability of at most d / p (Schwartz
1980, Zippel 1979); Mirage (OSDI 2025) compares tensor programs this way. Finite floats are dyadic
fractions, which have a value in each field of odd characteristic. Integers and booleans have the
values that they have in the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.errors import Diagnostic, DiagnosticError, StructIRError
from structir.interpret.interpreter import Interpreter
from structir.interpret.scope import Activation, Value
from structir.ir.dtype import FLOATS, dtype_of, is_float
from structir.ir.expr import Call, Constant, Expr
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.ring_ops import Growth, growth, ring_spec
from structir.passes.manager.widening import DTypeReplacement, replace_dtypes

PRIMES = (33_554_393, 33_554_383)  # below 2**25: sums of 8,192 products fit in 64 bits
INTEGER = "int64"
LARGEST = 2**63 - 1
MANTISSA = 52  # the bits of a float64 after the leading one
HINT = "compare with tolerance: remove `--exact`"


class NotExactError(DiagnosticError):
    """A program that cannot be evaluated over a finite field."""


@attrs.frozen
class ExactResult:
    """The verdict of an exact comparison, and a bound of the probability that it is wrong."""

    equal: bool
    error: float


class FieldEmbedding(DTypeReplacement):
    """A replacement of floats by elements of the field of `prime` elements."""

    def __init__(self, prime: int) -> None:
        super().__init__(FLOATS, INTEGER)
        self.prime = prime

    def array(self, data: Any) -> Any:
        """Returns the elements of the field that finite floats are equal to."""
        wide = np.asarray(data, np.float64)
        if not np.isfinite(wide).all():
            message = "exact comparison: a constant is not finite"
            raise NotExactError(Diagnostic(message, code="E0512", hint=HINT))
        return field_elements(wide, self.prime)


def field_elements(values: Any, prime: int) -> Any:
    """Returns the elements of a prime field that finite float64 values are equal to."""
    mantissas, exponents = np.frexp(values)
    integers = np.asarray((mantissas * 2.0**MANTISSA) % prime, np.int64)
    rest = np.asarray((mantissas * 2.0 ** (MANTISSA + 1)) % 2.0, np.int64)  # the last bit
    integers = (2 * integers + rest) % prime
    powers = {int(e): pow(2, int(e) - MANTISSA - 1, prime) for e in np.unique(exponents)}
    factors = np.vectorize(powers.__getitem__, otypes=[np.int64])(exponents) if powers else 0
    return np.asarray(integers * factors % prime)


@attrs.frozen(eq=False)
class FieldInterpreter(Interpreter):
    """An interpreter of ring operations over a prime field; raises NotExactError for others."""

    prime: int = attrs.field(kw_only=True)
    originals: dict[int, Any] = attrs.field(kw_only=True)  # the calls with floats, by id
    growths: dict[int, tuple[Any, Growth]] = attrs.field(factory=dict, init=False)  # by array

    def note(self, value: Value, degree: int) -> None:
        """Records that arrays are reduced polynomials of a degree."""
        for leaf in leaves(value):
            self.growths[id(leaf)] = leaf, Growth(degree, self.prime - 1)

    def degree(self, value: Value) -> int:
        """Returns the degree of the polynomials in a result."""
        known = [self.growths[id(leaf)][1].degree for leaf in leaves(value) if self._has(leaf)]
        return max(known, default=0)

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        if type(expr) is not Call or type(expr.op) is not Op:
            return Interpreter.evaluate(self, expr, scope)
        original: Call = self.originals.get(id(expr), expr)
        if not _has_floats(original):
            return Interpreter.evaluate(self, expr, scope)
        degree = self._degree(original, expr, scope)
        result = _reduced(Interpreter.evaluate(self, expr, scope), self.prime)
        self.note(result, degree)
        return result

    def _degree(self, original: Call, call: Call, scope: Activation) -> int:
        """Returns the degree of a call; raises NotExactError if 64 bits may overflow."""
        spec = ring_spec(original)
        if spec is None:
            raise _not_exact(original, "is no ring operation")
        values = [self.value(arg, scope) for arg in call.args]
        operands = {
            k: self._growth(_at(call.args, info.path), _at(values, info.path), info.dtype, original)
            for k, info in enumerate(spec.operands)
            if any(read.operand == k for each in spec.statements for read in each.reads)
        }
        degree = 0
        for statement in spec.statements:
            value = growth(spec, statement, operands)
            points = self._points(spec, statement, scope, original)
            if value.bound * points > LARGEST:
                raise _not_exact(original, f"may overflow: it adds {points:,} products")
            degree = max(degree, value.degree)
        return degree

    def _growth(self, operand: Any, value: Value, dtype: Any, call: Call) -> Growth:
        if self._has(value):
            return self.growths[id(value)][1]
        if type(operand) is Constant and dtype in FLOATS:
            return Growth(0, self.prime - 1)
        if dtype in FLOATS or dtype is None or np.asarray(value).dtype.kind not in "biu":
            raise _not_exact(call, "has an operand of unknown dtype")
        array = np.asarray(value)
        return Growth(0, max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0)

    def _has(self, value: Value) -> bool:
        return id(value) in self.growths and self.growths[id(value)][0] is value

    def _points(self, spec: Any, statement: Any, scope: Activation, call: Call) -> int:
        """Returns a bound for the number of values that are added to one element."""
        loops = list(statement.reduce)
        if statement.monoid and not all(write.unique for write in statement.writes):
            loops += statement.parallel
        try:
            sizes = [scope.size(spec.extents[loop]) for loop in loops]
        except (StructIRError, KeyError):
            raise _not_exact(call, "has a reduction of unknown size") from None
        return int(np.prod([max(size, 1) for size in sizes], dtype=object))


def consists_of_ring_ops(module: IRModule) -> bool:
    """Whether some calls of ops have floats, and all of those are ring operations."""
    calls = [node for node in walk_values(module) if type(node) is Call and type(node.op) is Op]
    with_floats = [call for call in calls if _has_floats(call)]
    return bool(with_floats) and all(ring_spec(call) is not None for call in with_floats)


def field_program(module: IRModule, prime: int) -> FieldInterpreter:
    """Returns an interpreter of a module whose floats are elements of a prime field."""
    embedding = FieldEmbedding(prime)
    embedded = replace_dtypes(module, embedding)
    if embedded is None:
        message = "exact comparison: the program has kernels, effects or external functions"
        raise NotExactError(Diagnostic(message, code="E0512", hint=HINT))
    originals = {id(new): old for old, new in embedding.pairs() if type(old) is Call}
    return FieldInterpreter(embedded, prime=prime, originals=originals)


def compare_exactly(
    before: IRModule, after: IRModule, name: str, arguments: list[Any], seed: int
) -> ExactResult:
    """Compares a function of two modules at random points of finite fields.

    `arguments` give the sizes of the inputs, and the integers. Raises NotExactError if one of the
    programs has floats that are no polynomials.
    """
    error = 1.0
    for prime in PRIMES:
        numbers = np.random.default_rng((seed, prime))
        inputs = [_random_elements(argument, numbers, prime) for argument in arguments]
        results, degrees = [], []
        for module in (before, after):
            program = field_program(module, prime)
            for argument, sample in zip(inputs, arguments, strict=True):
                _note_floats(program, argument, sample)
            with np.errstate(all="ignore"):
                results.append(program.global_function(name)(*inputs))
            degrees.append(program.degree(results[-1]))
        if not _is_equal(*results):
            return ExactResult(False, 0.0)
        error *= max(degrees) / prime
    return ExactResult(True, error)


def _random_elements(argument: Any, numbers: np.random.Generator, prime: int) -> Any:
    """Returns an argument with random elements of a field for floats."""
    if isinstance(argument, list | tuple):
        return type(argument)([_random_elements(item, numbers, prime) for item in argument])
    if isinstance(argument, np.ndarray | np.generic) and is_float(dtype_of(np.asarray(argument))):
        return np.asarray(numbers.integers(0, prime, np.shape(argument), np.int64))
    return argument


def _note_floats(program: FieldInterpreter, argument: Any, sample: Any) -> None:
    for leaf, original in zip(_items(argument), _items(sample), strict=True):
        if leaf is not original:
            program.note(leaf, 1)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _items(item)
    else:
        yield value


def _reduced(value: Value, prime: int) -> Value:
    if isinstance(value, tuple):
        return tuple([_reduced(item, prime) for item in value])
    return np.asarray(np.asarray(value) % prime)


def _is_equal(first: Value, second: Value) -> bool:
    a, b = leaves(first), leaves(second)
    return len(a) == len(b) and all(map(np.array_equal, a, b))


def _at(items: Any, path: tuple[int, ...]) -> Any:
    for position in path:
        fields = getattr(items, "fields", items)
        items = fields[position] if isinstance(fields, list | tuple) else None
    return items


def _has_floats(call: Call) -> bool:
    infos = [call.struct_info, *[arg.struct_info for arg in call.args]]
    return any(_dtypes_of(info) & (FLOATS | {None}) for info in infos)


def _dtypes_of(info: Any) -> set[Any]:
    """Returns the dtypes of the tensors of a StructInfo; None for an unknown one."""
    if isinstance(info, TupleStructInfo):
        return {dtype for field in info.fields for dtype in _dtypes_of(field)}
    return {info.dtype} if isinstance(info, TensorStructInfo) else set()


def _not_exact(call: Call, reason: str) -> NotExactError:
    name = call.op.name if isinstance(call.op, Op) else "the call"
    message = f"exact comparison: {name} {reason}"
    return NotExactError(Diagnostic(message, call.span, code="E0512", hint=HINT))
