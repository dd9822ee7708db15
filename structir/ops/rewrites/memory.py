"""Rewrites ops that keep element order in memory to reshapes, which backends alias."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.opdef.attributes import Axes, Ints
from structir.ops.layout import batch_flatten, expand_dims, flatten, permute_dims, squeeze
from structir.ops.reshape import reshape
from structir.rewriting.guards import dims_of
from structir.rewriting.rule import rewrite

GROUP = "rewrite_dataflow_reshape"


@rewrite(group=GROUP)
def expand_as_reshape(x: Expr, axis: Axes) -> Iterator[Expr]:
    """Rewrites expand_dims to a reshape."""
    result = expand_dims(x, axis)
    yield result
    sizes = dims_of(result)
    if sizes is not None and dims_of(x) is not None:
        yield reshape(x, sizes)


@rewrite(group=GROUP)
def squeeze_as_reshape(x: Expr, axis: Axes | None) -> Iterator[Expr]:
    """Rewrites squeeze to a reshape."""
    result = squeeze(x, axis)
    yield result
    sizes, dropped = dims_of(result), dims_of(x)
    if sizes is not None and dropped is not None and all(type(d) is int for d in dropped):
        yield reshape(x, sizes)


@rewrite(group=GROUP)
def flatten_as_reshape(x: Expr) -> Iterator[Expr]:
    """Rewrites flatten to a reshape."""
    result = flatten(x)
    yield result
    sizes = dims_of(result)
    if sizes is not None and dims_of(x) is not None:
        yield reshape(x, sizes)


@rewrite(group=GROUP)
def batch_flatten_as_reshape(x: Expr) -> Iterator[Expr]:
    """Rewrites batch_flatten to a reshape."""
    result = batch_flatten(x)
    yield result
    sizes = dims_of(result)
    if sizes is not None and dims_of(x) is not None:
        yield reshape(x, sizes)


@rewrite(group=GROUP)
def permute_as_reshape(x: Expr, axes: Ints | None) -> Iterator[Expr]:
    """Rewrites a permute that keeps the order of axes larger than 1 to a reshape."""
    result = permute_dims(x, axes)
    yield result
    sizes, old = dims_of(result), dims_of(x)
    if sizes is not None and old is not None:
        order = [a % len(old) for a in axes] if axes else list(range(len(old)))[::-1]
        moved = [axis for axis in order if old[axis] != 1]
        if moved == sorted(moved):
            yield reshape(x, sizes)
