"""Stages that are matrix products: recognized by their index maps alone."""

from __future__ import annotations

from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym, exact_quotient
from structir.loops.products.choice import is_faster_by_pixels
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Load, Operation, loads_of
from structir.loops.program.stage import Stage
from structir.targets.cpu.packed_layout import lanes_of, padded_columns
from structir.targets.cpu.products import (
    has_own_products,
    has_products_of_floats,
)

MOST_UNUSED = 0.2  # the share of unused lanes in registers that hold rows of weights
FEWEST_TERMS = 96  # of sums with weights in registers: each vector of sums is transposed
FEWEST_COLUMNS = 8  # columns of a product that is worth its calls
MOST_GAPS = 4  # elements of a line, relative to the number of columns
BLAS_DTYPES = frozenset({"float32", "float64"})


@attrs.frozen
class MatrixForm:
    """The layout of a matrix in a constant: its offset, its sizes, and its strides."""

    start: int
    terms: int
    columns: int
    down: int
    across: int


@attrs.frozen
class Contraction:
    """out[batch, m, n] = sum over k of left[batch, m, k] * right[batch, k, n].

    Each of `m`, `n`, `k` is a group of axes that all three accesses collapse, represented by its
    last axis. A vector on the left has no `m`. With `windows`, only the left operand collapses the
    terms; the right one has an offset for each term, and gaps between columns. With `weights`, the
    left operand is a constant of this layout, and columns of the right one are read one by one.
    """

    batch: tuple[Sym, ...]
    m: tuple[Sym, ...]
    n: tuple[Sym, ...]
    k: tuple[Sym, ...]
    left: Load
    right: Load
    left_address: Address
    right_address: Address
    out_address: Address
    windows: bool = False
    weights: MatrixForm | None = None

    @property
    def column_steps(self) -> list[Dim]:
        """The strides of the column axes in the right operand."""
        return [self.right_address.coefficient(axis) for axis in self.n]


def contraction_of(stage: Stage) -> Contraction | None:
    """Returns the matrix product that a stage is, if BLAS or the library supports it; memoized."""
    known = stage.__dict__
    if "_contraction" not in known:
        known["_contraction"] = _contraction(stage)
    return known["_contraction"]  # type: ignore[no-any-return]


def is_by_constant(stage: Stage) -> bool:
    """Whether a stage is a product by a constant right operand, and reads at axes and integers."""
    entries = [entry for read in stage.loads for entry in read.entries]
    if not all(isinstance(e, int) or dims.as_sym(e) is not None for e in entries):  # type: ignore[arg-type]
        return False
    product = contraction_of(stage)
    is_plain = product is not None and not (product.windows or product.weights)
    return is_plain and product.right.buffer.root.data is not None  # type: ignore[union-attr]


def _contraction(stage: Stage) -> Contraction | None:
    loads = factors_of(stage) if stage.simple else None
    if loads is None:
        return _integer_product(stage)
    axes = stage.axes
    addresses = [address_of(load.buffer, load.entries, axes) for load in loads]
    out = address_of(stage.out, stage.write, axes)
    if any(a.data for a in addresses) or out.pinned(axes):
        return None
    for way in (split_product, _split_windows):
        contraction = way(stage, loads[0], loads[1], addresses[0], addresses[1], out)
        contraction = contraction or way(stage, loads[1], loads[0], addresses[1], addresses[0], out)
        if contraction is not None:
            if _is_dot_products(contraction):
                return None
            return (None if contraction.windows else _by_pixels(stage, contraction)) or contraction
    return None


def _by_pixels(stage: Stage, plain: Contraction) -> Contraction | None:
    """Returns a product of constant weights and an image that is faster pixel by pixel."""
    rows, columns, terms = [
        prod(stage.extents[axis] for axis in axes) for axes in (plain.m, plain.n, plain.k)
    ]
    if plain.left.buffer.root.data is None:  # a pixel product packs the weights once
        return None
    if not plain.m or not is_faster_by_pixels(rows, columns, terms, stage.out.dtype):
        return None
    addresses = plain.left_address, plain.right_address, plain.out_address
    product = _split_windows(stage, plain.left, plain.right, *addresses)
    return product if product is not None and product.weights is not None else None


def has_few_columns(stage: Stage, product: Contraction | None) -> bool:
    """Whether a product has too few contiguous columns to be worth its calls."""
    columns = None if product is None else prod(stage.extents[axis] for axis in product.n)
    return isinstance(columns, int) and columns < FEWEST_COLUMNS


def _is_dot_products(contraction: Contraction) -> bool:
    """Whether one vector is multiplied by contiguous lines: a sum along each line reads them once,
    where a product would copy them to panels first."""
    constant = contraction.right.buffer.root.origin == "constant"
    lines = contraction.right_address.coefficient(contraction.k[-1]) == 1
    return not (contraction.m or contraction.windows or constant) and lines


def factors_of(stage: Stage) -> tuple[Load, Load] | None:
    body = stage.body
    if stage.monoid != "sum" or not stage.reduce:
        return None
    if not (isinstance(body, Operation) and body.fn == "mul" and len(loads_of(body)) == 2):
        return None
    left, right = body.args
    if not (isinstance(left, Load) and isinstance(right, Load)):
        return None
    dtypes = {left.buffer.dtype, right.buffer.dtype, stage.out.dtype}
    return (left, right) if len(dtypes) == 1 and dtypes <= BLAS_DTYPES else None


def _integer_product(stage: Stage) -> Contraction | None:
    """Returns the product of int8 by a constant of int8, accumulated in int32."""
    loads = _small_factors(stage) if stage.simple else None
    if loads is None or not has_own_products("int32"):
        return None
    for left, right in (loads, loads[::-1]):
        a, b = [address_of(x.buffer, x.entries, stage.axes) for x in (left, right)]
        out = address_of(stage.out, stage.write, stage.axes)
        if a.data or b.data or out.data or out.pinned(stage.axes):
            return None
        contraction = split_product(stage, left, right, a, b, out)
        if (
            contraction is not None
            and a.coefficient(contraction.k[-1]) == 1
            and len(contraction.k) == 1
        ):
            form = constant_matrix(stage, right.buffer.root, b, contraction.k, contraction.n)
            if form is not None:
                return contraction
    return None


def _small_factors(stage: Stage) -> tuple[Load, Load] | None:
    body = stage.body
    if not (stage.monoid == "sum" and stage.reduce and stage.out.dtype == "int32"):
        return None
    if not (isinstance(body, Operation) and body.fn == "mul" and body.dtype == "int32"):
        return None
    casts = [a.args[0] for a in body.args if isinstance(a, Operation) and a.fn == "cast"]
    small = [x for x in casts if isinstance(x, Load) and x.buffer.dtype == "int8"]
    return (small[0], small[1]) if len(small) == 2 else None


def split_product(
    stage: Stage,
    left: Load,
    right: Load,
    a: Address,
    b: Address,
    out: Address,
    any_stride: bool | None = None,
) -> Contraction | None:
    """Returns the groups of axes, with `n` the contiguous axis of the result. `any_stride` says
    whether operands may have strides in both axes; by default, as the library's own tiles support
    it."""
    if a.pinned(stage.axes) or b.pinned(stage.axes):
        return None
    in_left, in_right = a.coefficients.keys(), b.coefficients.keys()
    if any(axis not in in_left or axis not in in_right for axis in stage.reduce):
        return None
    only_left = [x for x in stage.parallel if x in in_left and x not in in_right]
    only_right = [x for x in stage.parallel if x in in_right and x not in in_left]
    join = (a, b, out)
    rows = joined_axes(only_left, stage.extents, join)
    columns = joined_axes(only_right, stage.extents, join)
    inner = joined_axes(stage.reduce, stage.extents, join)
    if not columns or len(inner) != 1 or not (rows or len(stage.parallel) == len(columns[-1])):
        return None
    m, n, k = rows[-1] if rows else (), columns[-1], inner[0]
    if out.coefficient(n[-1]) != 1:
        return None
    any_stride = has_own_products(stage.out.dtype) if any_stride is None else any_stride
    if not any_stride and not (_unit(a, m, k) and _unit(b, k, n)):
        return None
    used = {*m, *n, *k}
    batch = tuple(x for x in stage.parallel if x not in used)
    return Contraction(batch, m, n, k, left, right, a, b, out)


def _split_windows(
    stage: Stage, left: Load, right: Load, a: Address, b: Address, out: Address
) -> Contraction | None:
    """Returns a product whose right operand is read at offsets: its lines overlap, and its columns
    may have gaps."""
    if a.pinned(stage.axes) or b.pinned(stage.parallel):
        return None
    terms = joined_axes(stage.reduce, stage.extents, (a,))
    moving = b.coefficients.keys() | b.pinned(stage.reduce)
    if len(terms) != 1 or a.coefficient(terms[0][-1]) != 1 or not moving & set(stage.reduce):
        return None
    only_left = [x for x in stage.parallel if a.coefficient(x) != 0 and b.coefficient(x) == 0]
    only_right = {x for x in stage.parallel if b.coefficient(x) != 0 and a.coefficient(x) == 0}
    rows = joined_axes(only_left, stage.extents, (a, out))
    weights = _weights(stage, left, a, terms[0], rows[-1]) if rows else None
    columns = _last_columns(stage, only_right, b if weights is None else None, out)
    if not rows or not columns or not has_products_of_floats(stage.out.dtype):
        return None
    if weights is None and _has_gaps(stage, columns, b):
        return None
    used = {*rows[-1], *columns, *terms[0]}
    batch = tuple(x for x in stage.parallel if x not in used)
    return Contraction(
        batch, rows[-1], columns, terms[0], left, right, a, b, out, windows=True, weights=weights
    )


def _has_gaps(stage: Stage, columns: tuple[Sym, ...], b: Address) -> bool:
    """Whether most of a line that spans the columns lies between them: a product of the whole line
    computes many unused results."""
    span = 1 + sum((stage.extents[axis] - 1) * b.coefficient(axis) for axis in columns)
    count = prod(stage.extents[axis] for axis in columns)
    return dims.at_least(span, MOST_GAPS * count) is True


def _weights(
    stage: Stage, left: Load, a: Address, terms: tuple[Sym, ...], rows: tuple[Sym, ...]
) -> MatrixForm | None:
    """Returns the left operand as a constant whose rows fill registers well."""
    form = constant_matrix(stage, left.buffer.root, a, terms, rows)
    if form is None or not has_products_of_floats(stage.out.dtype) or form.terms < FEWEST_TERMS:
        return None
    unused = padded_columns(form.columns, lanes_of(stage.out.dtype)) - form.columns
    return form if unused <= MOST_UNUSED * form.columns else None


def constant_matrix(
    stage: Stage, buffer: Buffer, address: Address, terms: tuple[Sym, ...], columns: tuple[Sym, ...]
) -> MatrixForm | None:
    """Returns the layout of a matrix of these terms and columns in a buffer, if that is a
    constant."""
    if buffer.origin != "constant" or set(address.coefficients) - {*columns, *terms}:
        return None
    sizes = [prod(stage.extents[axis] for axis in axes) for axes in (terms, columns)]
    steps = address.coefficient(terms[-1]), address.coefficient(columns[-1])
    numbers = [d for d in (address.rest, *sizes, *steps) if isinstance(d, int)]
    return None if len(numbers) < 5 or 0 in numbers[1:3] else MatrixForm(*numbers)


def _last_columns(
    stage: Stage, among: set[Sym], b: Address | None, out: Address
) -> tuple[Sym, ...]:
    """Returns the last columns of the result, as far as the right operand, if given, has them in
    the same order, with strides that are multiples of each other."""
    axes: list[Sym] = []
    step: Dim = 1
    for axis in reversed(stage.parallel):
        if axis not in among or out.coefficient(axis) != step:
            break
        if b is not None:
            inner = b.coefficient(axes[0]) if axes else 1
            nearest = axes or b.coefficient(axis) == 1
            if not nearest or exact_quotient(b.coefficient(axis), inner) is None:
                break
        axes.insert(0, axis)
        step = step * stage.extents[axis]
    return tuple(axes)


def _unit(address: Address, first: tuple[Sym, ...], second: tuple[Sym, ...]) -> bool:
    return 1 in [address.coefficient(axes[-1]) for axes in (first, second) if axes]
