"""Discrete Fourier transforms: a primitive of their real and imaginary parts, and its mapping."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

from structir.frontend import fourier
from structir.frontend.jax.complex_rules import PART_OF, Pair, complex_rule
from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.scalars import size_number
from structir.ir.dims import Dim
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.script import R

jax = lazy_module("jax")
jax_core = lazy_module("jax.extend.core")
NAME = "fourier_transform"


@cache
def _primitive() -> Any:
    """Returns the primitive, whose operands and results are the parts of arrays."""
    primitive = jax_core.Primitive(NAME)
    primitive.multiple_results = True

    def results(*operands: Any, kind: str, axes: int, shape: Any, parts: int) -> list[Any]:
        return [jax.core.ShapedArray(shape, operands[0].dtype)] * parts

    primitive.def_abstract_eval(results)
    return primitive


@complex_rule("fft")
def transform(equation: Any, x: Any) -> Any:
    aval, params = equation.outvars[0].aval, equation.params
    kind = str(getattr(params["fft_type"], "name", params["fft_type"])).lower()
    parts = 2 if str(aval.dtype) in PART_OF else 1
    operands = tuple(x) if isinstance(x, Pair) else (x,)
    axes = len(params["fft_lengths"])
    results = _primitive().bind(*operands, kind=kind, axes=axes, shape=aval.shape, parts=parts)
    return Pair(*results) if parts == 2 else results[0]


@jax_primitive(NAME)
def transformed(equation: Equation) -> list[Expr]:
    """Builds a transform of the last axes, one after the other."""
    kind, count = equation.params["kind"], equation.params["axes"]
    emit, x, sizes = equation.emit, list(equation.args), equation.out_dims()
    functions = equation.host.builder.functions
    rank = len(sizes)
    last, others = rank - 1, range(rank - count, rank - 1)
    if kind == "rfft":
        x = list(fourier.one_sided(emit, functions, x[0]))
        for axis in others:
            x = _along(equation, x, axis, inverse=False)
        return x
    inverse = kind != "fft"
    for axis in others if kind == "irfft" else (*others, last):
        x = _along(equation, x, axis, inverse)
    if kind == "irfft":
        x = [fourier.real_inverse(emit, functions, (x[0], x[1]), sizes[last])]
    return [_scaled(equation, part, sizes[rank - count :]) for part in x] if inverse else x


def _along(equation: Equation, x: Sequence[Expr], axis: int, inverse: bool) -> list[Expr]:
    """Returns the unscaled transform of an axis."""
    rank = len(equation.out_dims())
    order = [k for k in range(rank) if k != axis] + [axis]
    back = sorted(range(rank), key=order.__getitem__)
    real, imag = (equation.emit(R.permute_dims(part, order)) for part in x)
    parts = fourier.transform(
        equation.emit, equation.host.builder.functions, (real, imag), inverse=inverse
    )
    return [equation.emit(R.permute_dims(part, back)) for part in parts]


def _scaled(equation: Equation, x: Expr, sizes: Sequence[Dim]) -> Expr:
    """Returns a tensor divided by the number of elements of the transformed axes."""
    count = size_number(prod(sizes), equation.out_dtype())
    return equation.emit(R.divide(x, count))
