"""Rewrites of ops that move elements: cancellation and merging."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.opdef.attributes import DType, Ints, Sizes
from structir.ops.elementwise import astype
from structir.ops.layout import broadcast_to, permute_dims
from structir.ops.reshape import reshape
from structir.rewriting.guards import dims_of, dtype_of, rank_of, same_sizes
from structir.rewriting.op_traits import has_trait
from structir.rewriting.rule import rewrite

has_trait("convert", astype)


@rewrite(group="simplify")
def merge_permutes(x: Expr, p: Ints | None, q: Ints | None) -> Iterator[Expr]:
    """Merges two consecutive permutes."""
    yield permute_dims(permute_dims(x, p), q)
    rank = rank_of(x)
    if rank is not None:
        backwards = tuple(range(rank))[::-1]
        yield permute_dims(x, tuple((p or backwards)[i] for i in (q or backwards)))


@rewrite(group="simplify")
def drop_identity_permute(x: Expr, p: Ints | None) -> Iterator[Expr]:
    """Removes an identity permute."""
    yield permute_dims(x, p)
    rank = rank_of(x)
    if rank is not None and (rank < 2 or (p and [i % rank for i in p] == list(range(rank)))):
        yield x


@rewrite(group="simplify")
def merge_reshapes(x: Expr, inner: Sizes, outer: Sizes) -> Iterator[Expr]:
    """Merges two consecutive reshapes."""
    once = reshape(x, inner)
    twice = reshape(once, outer)
    yield twice
    sizes = dims_of(twice)
    if sizes is not None and dims_of(once) is not None:
        yield reshape(x, sizes)


@rewrite(group="simplify")
def drop_same_reshape(x: Expr, shape: Sizes) -> Iterator[Expr]:
    """Removes a reshape to the same shape."""
    result = reshape(x, shape)
    yield result
    if same_sizes(result, x):
        yield x


@rewrite(group="simplify")
def drop_same_broadcast(x: Expr, shape: Sizes) -> Iterator[Expr]:
    """Removes a broadcast to the same shape."""
    result = broadcast_to(x, shape)
    yield result
    if same_sizes(result, x):
        yield x


@rewrite(group="simplify")
def drop_same_cast(x: Expr, dtype: DType) -> Iterator[Expr]:
    """Removes a conversion to the same dtype."""
    yield astype(x, dtype)
    if dtype_of(x) == dtype:
        yield x
