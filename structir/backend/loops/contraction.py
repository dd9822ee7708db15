"""Stages that are matrix products: recognised by their index maps alone."""

from __future__ import annotations

import attrs

from structir.backend.cpu.products import has_own_products
from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.expression import Apply, Load, loads_of
from structir.backend.loops.stage import Stage
from structir.ir.dims import Sym

BLAS_DTYPES = frozenset({"float32", "float64"})


@attrs.frozen
class Contraction:
    """out[batch, m, n] = sum over k of left[batch, m, k] * right[batch, k, n].

    Each of `m`, `n`, `k` is a group of axes that all three accesses walk as one; the last axis of
    the
    group stands for it. A vector on the left has no `m`.
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


def contraction_of(stage: Stage) -> Contraction | None:
    """The matrix product that a stage is, if it is one that BLAS can take."""
    loads = _factors(stage)
    if loads is None:
        return None
    axes = stage.axes
    addresses = [address_of(load.buffer, load.entries, axes) for load in loads]
    out = address_of(stage.out, stage.write, axes)
    if any(a.data or a.pinned(axes) for a in addresses) or out.pinned(axes):
        return None
    found = _split(stage, loads[0], loads[1], addresses[0], addresses[1], out)
    return found or _split(stage, loads[1], loads[0], addresses[1], addresses[0], out)


def _factors(stage: Stage) -> tuple[Load, Load] | None:
    body = stage.body
    if stage.monoid != "sum" or not stage.reduce or not stage.simple:
        return None
    if not (isinstance(body, Apply) and body.fn == "mul" and len(loads_of(body)) == 2):
        return None
    left, right = body.args
    if not (isinstance(left, Load) and isinstance(right, Load)):
        return None
    dtypes = {left.buffer.dtype, right.buffer.dtype, stage.out.dtype}
    return (left, right) if len(dtypes) == 1 and dtypes <= BLAS_DTYPES else None


def _split(
    stage: Stage, left: Load, right: Load, a: Address, b: Address, out: Address
) -> Contraction | None:
    """The groups of axes, with `n` the axis along which the result is contiguous."""
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
    any_stride = has_own_products(stage.out.dtype)
    if not any_stride and not (_unit(a, m, k) and _unit(b, k, n)):
        return None
    used = {*m, *n, *k}
    batch = tuple(x for x in stage.parallel if x not in used)
    return Contraction(batch, m, n, k, left, right, a, b, out)


def _unit(address: Address, first: tuple[Sym, ...], second: tuple[Sym, ...]) -> bool:
    return 1 in [address.coefficient(axes[-1]) for axes in (first, second) if axes]
