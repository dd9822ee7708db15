"""A kernel of the discrete Fourier transform of any size, and the function that contains it.

The kernel multiplies by one prime factor of the size at a time (Stockham's order, which needs no
permutation of digits); two factors of 2 are one step. Its inner loops run over the elements of all
rows of equal twiddle factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import numpy as np

from structir.analysis.derivative_rules import PULLBACK
from structir.analysis.internal_functions import PRIVATE
from structir.build import BlockBuilder
from structir.frontend.scalars import index_range
from structir.ir.dims import sym
from structir.ir.expr import Call, Constant, Expr, GlobalVar, PrimValue, ShapeExpr, Tuple, Var
from structir.ir.kernel import Kernel
from structir.ir.node import Node
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.parser import parse
from structir.script import R

DTYPES = ("float32", "float64")
SOURCE = """\
@I.kernel
def NAME(
    real: R.Tensor(("rows", "n"), "DTYPE"),
    imag: R.Tensor(("rows", "n"), "DTYPE"),
    cosines: R.Tensor(("n",), "DTYPE"),
    sines: R.Tensor(("n",), "DTYPE"),
    out_real: R.Tensor(("rows", "n"), "DTYPE"),
    out_imag: R.Tensor(("rows", "n"), "DTYPE"),
):
    re = T.zeros((n * rows,), "DTYPE")
    im = T.zeros((n * rows,), "DTYPE")
    next_re = T.zeros((n * rows,), "DTYPE")
    next_im = T.zeros((n * rows,), "DTYPE")
    for i in range(n):
        for r in range(rows):
            re[i * rows + r] = real[r, i]
            im[i * rows + r] = imag[r, i]
    size = n
    span = 1
    while size > 1 and size % 4 == 0:
        part = size // 4
        width = span * rows
        for k in range(part):
            c1 = cosines[k * span]
            s1 = sines[k * span]
            c2 = cosines[2 * k * span]
            s2 = sines[2 * k * span]
            c3 = cosines[3 * k * span]
            s3 = sines[3 * k * span]
            for q in range(width):
                ar = re[k * width + q]
                ai = im[k * width + q]
                br = re[(k + part) * width + q]
                bi = im[(k + part) * width + q]
                cr = re[(k + 2 * part) * width + q]
                ci = im[(k + 2 * part) * width + q]
                dr = re[(k + 3 * part) * width + q]
                di = im[(k + 3 * part) * width + q]
                er = ar + cr
                ei = ai + ci
                fr = ar - cr
                fi = ai - ci
                gr = br + dr
                gi = bi + di
                hr = TURNED_REAL
                hi = TURNED_IMAG
                next_re[4 * k * width + q] = er + gr
                next_im[4 * k * width + q] = ei + gi
                next_re[(4 * k + 1) * width + q] = (fr + hr) * c1 - (fi + hi) * s1
                next_im[(4 * k + 1) * width + q] = (fr + hr) * s1 + (fi + hi) * c1
                next_re[(4 * k + 2) * width + q] = (er - gr) * c2 - (ei - gi) * s2
                next_im[(4 * k + 2) * width + q] = (er - gr) * s2 + (ei - gi) * c2
                next_re[(4 * k + 3) * width + q] = (fr - hr) * c3 - (fi - hi) * s3
                next_im[(4 * k + 3) * width + q] = (fr - hr) * s3 + (fi - hi) * c3
        for q in range(n * rows):
            re[q] = next_re[q]
            im[q] = next_im[q]
        span = span * 4
        size = part
    factor = 2
    while size > 1:
        while size % factor != 0:
            factor = factor + 1
            if factor * factor > size:
                factor = size
        part = size // factor
        width = span * rows
        for k in range(part):
            for j in range(factor):
                start = (k * factor + j) * width
                for q in range(width):
                    next_re[start + q] = re[k * width + q]
                    next_im[start + q] = im[k * width + q]
                turn = 0
                for t in range(1, factor):
                    turn = turn + j * (n // factor)
                    if turn >= n:
                        turn = turn - n
                    c = cosines[turn]
                    s = sines[turn]
                    for q in range(width):
                        x = re[(k + part * t) * width + q]
                        y = im[(k + part * t) * width + q]
                        next_re[start + q] = next_re[start + q] + (x * c - y * s)
                        next_im[start + q] = next_im[start + q] + (x * s + y * c)
        for k in range(part):
            for j in range(factor):
                start = (k * factor + j) * width
                c = cosines[k * j * span]
                s = sines[k * j * span]
                for q in range(width):
                    x = next_re[start + q]
                    y = next_im[start + q]
                    re[start + q] = x * c - y * s
                    im[start + q] = x * s + y * c
        span = span * factor
        size = part
    for i in range(n):
        for r in range(rows):
            out_real[r, i] = re[i * rows + r]
            out_imag[r, i] = im[i * rows + r]
"""
# of b - d, the product with -i (forward) and i (inverse)
TURNED = {False: ("bi - di", "dr - br"), True: ("di - bi", "br - dr")}


@cache
def fourier_kernel(dtype: str, inverse: bool) -> Kernel:
    """Returns the kernel (real, imaginary, cosines and sines of k turns / n) -> real and imaginary
    parts of the unscaled transforms of rows."""
    name = f"fourier_{'inverse' if inverse else 'forward'}_{dtype}"
    source = SOURCE.replace("NAME", name).replace("DTYPE", dtype)
    real, imag = TURNED[inverse]
    source = source.replace("TURNED_REAL", real).replace("TURNED_IMAG", imag)
    kernel = parse(source, f"{name}.py").functions[name]
    assert isinstance(kernel, Kernel)
    return kernel


@cache
def fourier_function(dtype: str, inverse: bool) -> tuple[GlobalVar, Mapping[str, Node]]:
    """Returns the function (real, imaginary) -> (real, imaginary) of rows of a symbolic size, and
    the functions that it needs. Its pullback is the transform in the other direction."""
    builder = BlockBuilder()
    names = {direction: _name(dtype, direction) for direction in (False, True)}
    for direction, name in names.items():
        params = _params(("real", "imag"), dtype)
        attributes = {PRIVATE: True, PULLBACK: f"{name}_pullback"}
        with builder.function(name, params, attrs=attributes):
            builder.emit_func_output(_transformed(builder, params, dtype, direction))
    for direction, name in names.items():
        params = _params(("real", "imag", "real_back", "imag_back"), dtype)
        with builder.function(f"{name}_pullback", params, attrs={PRIVATE: True}):
            call = Call(builder.global_var(names[not direction]), tuple(params[2:]))
            result = builder.emit(call)
            builder.emit_func_output(Tuple((builder.emit(result[0]), builder.emit(result[1]))))
    return builder.global_var(names[inverse]), dict(builder.functions)


def _name(dtype: str, inverse: bool) -> str:
    return f"{'inverse_' if inverse else ''}fourier_transform_{dtype}"


def _params(names: tuple[str, ...], dtype: str) -> list[Var]:
    info = TensorStructInfo((sym("rows"), sym("n")), dtype)
    return [Var(name, info) for name in names]


def _transformed(builder: BlockBuilder, params: list[Var], dtype: str, inverse: bool) -> Expr:
    """Returns the call of the kernel with the tables of cosines and sines."""
    info = params[0].struct_info
    assert isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple)
    size = info.dims[1]
    index = index_range(size, "float64")
    count = R.astype(R.full(ShapeExpr(()), PrimValue(size), dtype="int64"), "float64")
    turn = Constant(np.asarray((2 if inverse else -2) * math.pi))
    angle = builder.emit(R.multiply(R.divide(R.astype(index, "float64"), count), turn))
    tables = [builder.emit(R.astype(f(angle), dtype)) for f in (R.cos, R.sin)]
    kernel = builder.kernel(fourier_kernel(dtype, inverse))
    call = R.call_kernel(kernel, (*params, *tables), out_sinfo=(info, info))
    result = builder.emit(call)
    return Tuple((builder.emit(result[0]), builder.emit(result[1])))
