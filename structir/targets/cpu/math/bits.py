"""Intrinsics of the math functions: bit casts, fused multiply-add, polynomials, scaling,
and functions that are called for rare operands only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.features import has_fma
from structir.targets.cpu.kinds import Kind, intrinsic, llvm_type, of_operands


def _bit_cast(source: Kind, target: Kind) -> Any:
    @intrinsic(target, source)
    def cast(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        return builder.bitcast(args[0], llvm_type(target))

    return cast


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Appends a * b + c, with one rounding where the CPU has an instruction for it. Elsewhere
    float32 is computed in float64, and float64 has two roundings."""
    if has_fma():
        return builder.fma(a, b, c)
    wide = [builder.fpext(value, ir.DoubleType()) for value in (a, b, c)]
    return builder.fptrunc(builder.fadd(builder.fmul(*wide[:2]), wide[2]), a.type)


def _fused(kind: Kind) -> Any:
    @intrinsic(kind, kind, kind, kind)
    def fma(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        return _multiply_add(builder, *args)

    return fma


def _contracted(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Appends a * b + c, with one rounding or two, whichever takes fewer instructions."""
    contract = ("contract",)
    return builder.fadd(builder.fmul(a, b, flags=contract), c, flags=contract)


def _rounded_product(builder: Any, a: Any, b: Any) -> Any:
    """Appends a product that no addition is fused with: one that overflows is infinite in any sum.

    `arcp` has no effect on products; an instruction with a flag is not marked as `contract`."""
    return builder.fmul(a, b, flags=("arcp",))


@of_operands(2)
def rounded_product(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Computes a product, with its own rounding."""
    return _rounded_product(builder, *args)


def polynomial(*coefficients: float, one_rounding: bool = True) -> Any:
    """Returns an intrinsic that evaluates a polynomial of a float32 or float64 by Horner's rule;
    the constant coefficient is the first. Each step has one rounding, or `one_rounding` is False
    and it has two on CPUs without fused multiply-add."""
    step = _multiply_add if one_rounding else _contracted

    @of_operands(1)
    def value(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        terms = [ir.Constant(args[0].type, float(c)) for c in coefficients]
        total = terms.pop()
        while terms:
            total = step(builder, total, args[0], terms.pop())
        return total

    return value


bits_of_single = _bit_cast("float32", "int32")
single_of_bits = _bit_cast("int32", "float32")
bits_of_double = _bit_cast("float64", "int64")
double_of_bits = _bit_cast("int64", "float64")
fma_single = _fused("float32")
fma_double = _fused("float64")


def _scaled(builder: Any, value: Any, exponent: Any, name: str) -> Any:
    """Appends value * 2**exponent with one rounding, including subnormal results."""
    shape = ir.FunctionType(value.type, [value.type, exponent.type])
    return builder.call(
        declared(builder.module, shape, f"llvm.ldexp.{name}.i32"), [value, exponent]
    )


@intrinsic("float32", "float32", "int32")
def scale_single(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Computes value * 2**exponent with one rounding, including subnormal results."""
    return _scaled(builder, args[0], args[1], "f32")


@intrinsic("float64", "float64", "int64")
def scale_double(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Computes value * 2**exponent with one rounding, including subnormal results."""
    return _scaled(builder, args[0], builder.trunc(args[1], ir.IntType(32)), "f64")


@intrinsic("float32", "float32", "int32")
def scale_twice(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Computes value * 2**exponent as two products with powers of two, of which only the second one
    may round; correct for subnormal results. The second power is 0 for the exponent -151.

    In Python it would be arithmetic of int64, which LLVM does not narrow."""
    word, (value, exponent) = ir.IntType(32), args

    def field(bias: int, bits: int) -> Any:
        biased = builder.add(exponent, ir.Constant(word, bias))
        return builder.shl(biased, ir.Constant(word, bits))

    second = builder.and_(field(152, 22), ir.Constant(word, 0x7F800000))
    first = builder.sub(field(254, 23), second)
    powers = [builder.bitcast(bits, value.type) for bits in (first, second)]
    return _rounded_product(builder, builder.fmul(value, powers[0]), powers[1])


def rare(name: str) -> Any:
    """Returns an intrinsic that calls a function of the C library on a float64.

    `rare_value(x) if test else value` is vector code for the usual case: the call is not inlined
    and has no side effects, so that LLVM's vectorizer makes it for single elements, where the test
    holds. The functions around it therefore need no accuracy for operands that are rare."""

    @intrinsic("float64", "float64")
    def call(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        return builder.call(_outlined(builder.module, name), args)

    return call


PURE = ("noinline", "nounwind", "readnone")
UNUSED_LANES = 128  # more than any vector has


def _outlined(module: Any, name: str) -> Any:
    """Returns a function that calls one of the C library, and that LLVM does not inline.

    The vectorizer refuses a loop with a call unless the function has some vector form. This one has
    a form for more lanes than there are, so that it is called lane by lane."""
    double, outlined = ir.DoubleType(), f"structir.rare.{name}"
    function = declared(module, ir.FunctionType(double, [double]), outlined)
    if function.is_declaration:
        mapping = f"_ZGV_LLVM_M{UNUSED_LANES}v_{outlined}({_vector_form(module).name})"
        function.linkage = "internal"
        for attribute in (*PURE, f'"vector-function-abi-variant"="{mapping}"'):
            set.add(function.attributes, attribute)  # llvmlite knows no attributes with values
        builder = ir.IRBuilder(function.append_basic_block())
        inner = declared(module, function.function_type, name)
        builder.ret(builder.call(inner, function.args))
    return function


def _vector_form(module: Any) -> Any:
    """Returns a function of vectors that is never called and that LLVM keeps."""
    lanes = ir.VectorType(ir.DoubleType(), UNUSED_LANES)
    mask = ir.VectorType(ir.IntType(1), UNUSED_LANES)
    function = declared(module, ir.FunctionType(lanes, [lanes, mask]), "structir.rare.lanes")
    if function.is_declaration:
        function.linkage = "internal"
        ir.IRBuilder(function.append_basic_block()).unreachable()
        kind = ir.ArrayType(ir.IntType(8).as_pointer(), 1)
        used = ir.GlobalVariable(module, kind, "llvm.compiler.used")
        used.linkage, used.section = "appending", "llvm.metadata"
        used.initializer = ir.Constant(kind, [function.bitcast(kind.element)])
    return function
