"""Descriptions of products for a library that computes them in place of a kernel, with the
epilogues that it supports."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from math import prod

from structir.ir.dims import Dim, Sym
from structir.loops.lower.rounding import unrounded
from structir.loops.products.contraction import Contraction
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Expression,
    Load,
    Number,
    Operation,
    apply,
    load,
    number,
)
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import OperandStrides, Product
from structir.targets.cuda.epilogue import Results, results_of
from structir.targets.cuda.products import joined_terms, product_of
from structir.targets.cuda.writer import Writer

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
WITH_EPILOGUES = FLOATS - {"float64"}
GELU = (0.5, math.sqrt(2 / math.pi), 0.044715, 1.0)  # its constants, as programs write them


def followed(stage: Stage, stages: Sequence[Stage], kept: Collection[Buffer]) -> bool:
    """Whether a stage and its maps are one kernel: always, except for products that a library
    computes with all maps."""
    contraction = product_of(stage)
    if (
        contraction is None
        or described(stage, contraction, results_of(stage, [stage], [stage.out])) is None
    ):
        return True
    return described(stage, contraction, results_of(stage, stages, kept)) is not None


def described(
    stage: Stage, contraction: Contraction, results: Results, writer: Writer | None = None
) -> Product | None:
    """Returns the product and its epilogue if it is a plain product of floats with a supported
    epilogue; pointers are numbered as in a writer."""
    dtypes = {contraction.left.buffer.dtype, contraction.right.buffer.dtype, stage.out.dtype}
    plain = isinstance(stage.body, Operation) and all(isinstance(x, Load) for x in stage.body.args)
    if dtypes != {results[0][0].dtype} or not dtypes <= FLOATS or stage.guards or not plain:
        return None
    epilogue = _epilogue(stage, results)
    return (
        None
        if epilogue is None
        else _described(stage, contraction, results[0][0], *epilogue, writer)
    )


def _described(
    stage: Stage,
    contraction: Contraction,
    out: Buffer,
    epilogue: str,
    bias: Load | None,
    writer: Writer | None,
) -> Product | None:
    writer = writer or Writer(stage.axes)
    places = [contraction.left_address, contraction.right_address, contraction.out_address]
    places += [address_of(bias.buffer, bias.entries, stage.axes)] if bias is not None else []
    if any(place.pinned(stage.axes) or place.data for place in places):
        return None
    rows, columns = [
        joined_axes(axes, stage.extents, places) for axes in (contraction.m, contraction.n)
    ]
    terms = joined_terms(stage, contraction)
    m, n, k = rows[-1] if rows else (), columns[-1], terms[-1]
    row = m[-1] if m else None
    left, right, result = places[:3]
    in_lines = [row is None or 1 in (left.coefficient(row), left.coefficient(k[-1]))]
    in_lines += [1 in (right.coefficient(k[-1]), right.coefficient(n[-1]))]
    in_lines += [place.coefficient(n[-1]) == 1 for place in (result, *places[3:])]
    if (
        len(terms) > 1
        or not all(in_lines)
        or any(set(m) & p.coefficients.keys() for p in places[3:])
    ):
        return None
    others = [axis for axis in stage.parallel if axis not in (*m, *n)]
    outer = joined_axes(others, stage.extents, places)

    def steps(buffer: Buffer, place: Address, first: Sym | None, second: Sym) -> OperandStrides:
        pointer = writer.pointer(buffer)
        return OperandStrides(
            list(writer.pointers.values()).index(pointer),
            place.rest,
            tuple([place.coefficient(group[-1]) for group in outer]),
            0 if first is None else place.coefficient(first),
            place.coefficient(second),
        )

    def extent(axes: Iterable[Sym]) -> Dim:
        return prod(stage.extents[axis] for axis in axes)

    return Product(
        stage.out.dtype,
        extent(m),
        extent(n),
        extent(k),
        tuple([extent(group) for group in outer]),
        steps(contraction.left.buffer, places[0], row, k[-1]),
        steps(contraction.right.buffer, places[1], k[-1], n[-1]),
        steps(out, places[2], row, n[-1]),
        epilogue,
        None if bias is None else steps(bias.buffer, places[3], None, n[-1]),
    )


def _epilogue(stage: Stage, results: Results) -> tuple[str, Load | None] | None:
    """Returns the library's name for the epilogue of a product, and the bias that it adds."""
    own = load(stage.out, stage.write)
    if len(results) > 1:
        return None
    out, body = results[0][0], unrounded(results[0][1])  # the library rounds once, at the end
    if body is own:
        return "", None
    if out.dtype not in WITH_EPILOGUES:
        return None
    name, inner = _function(body)
    if inner is own:
        return name, None
    parts = inner.args if isinstance(inner, Operation) and inner.fn == "add" else ()
    for part in parts:
        if isinstance(part, Load) and part is not own and own in parts:
            fits = part.buffer.dtype == out.dtype
            plain = not any(isinstance(entry, Expression) for entry in part.entries)
            return ("_".join(filter(None, ("bias", name))), part) if fits and plain else None
    return None


def _function(body: Expression) -> tuple[str, Expression]:
    """Returns the last function of an expression, if the library supports it, and its argument."""
    if isinstance(body, Operation) and len(body.args) == 2:
        for inner, other in (body.args, body.args[::-1]):
            if body.fn == "max" and isinstance(other, Number) and other.value == 0:
                return "relu", inner
        half = body.args[0]
        if isinstance(half, Operation) and half.fn == "mul" and body is _gelu(half.args[1]):
            return "gelu", half.args[1]
    return "", body


def _gelu(x: Expression) -> Expression:
    """Returns gelu by tanh as programs write it."""

    def of(fn: str, *args: Expression) -> Expression:
        return apply(fn, args, x.dtype)

    half, root, part, one = [number(value, x.dtype) for value in GELU]
    cube = of("mul", of("mul", of("mul", part, x), x), x)
    bent = of("tanh", of("mul", root, of("add", x, cube)))
    return of("mul", of("mul", half, x), of("add", one, bent))
