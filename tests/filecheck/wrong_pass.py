"""A rewrite that is wrong, for tests of what finds that out."""

from collections.abc import Iterator

from structir.ir import Expr
from structir.ops.elementwise import exp, negative
from structir.rewriting.rule import rewrite


@rewrite
def wrong_exp(x: Expr) -> Iterator[Expr]:
    """exp becomes a change of sign."""
    yield exp(x)
    yield negative(x)
