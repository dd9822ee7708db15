"""Inputs of programs that read sizes from their data: the shape of a result, or a count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from structir.ir.dtype import FLOATS, dtype_of, is_int
from structir.ir.expr import Var
from structir.ir.struct_info import TensorStructInfo

MOST_SIZES = 4  # integers of all parameters that are sizes
MOST_FACTORIZATIONS = 16
MOST_ELEMENTS = 1 << 12  # whose factorizations are tried
MULTIPLES = (1, 2, 3)  # of a number of elements: broadcasts have more
MOST_COUNTED = 3  # arrays
MOST_COUNTS = 4


def shape_params(params: Sequence[Var]) -> list[int]:
    """Returns the positions of the integer parameters that may be sizes: a few integers each."""
    positions = [k for k, param in enumerate(params) if 0 < _stated_integers(param) <= MOST_SIZES]
    total = sum(_stated_integers(params[k]) for k in positions)
    return positions if total <= MOST_SIZES else []


def _stated_integers(param: Var) -> int:
    """Returns how many integers a parameter has; 0 if that is not known."""
    info = param.struct_info
    if not isinstance(info, TensorStructInfo) or not is_int(info.dtype or "float32"):
        return 0
    is_known = isinstance(info.dims, tuple) and all(type(dim) is int for dim in info.dims)
    return math.prod(info.dims) if is_known else 0


def with_shapes(arguments: list[Any], positions: Sequence[int], turn: int) -> Iterator[list[Any]]:
    """Yields arguments in which the integers of some parameters are sizes of arrays with as many
    elements as another argument, or a multiple; `turn` selects the first factorization."""
    others = [argument for k, argument in enumerate(arguments) if k not in positions]
    arrays = [argument for argument in others if isinstance(argument, np.ndarray)]
    counts = dict.fromkeys(m * array.size for m in MULTIPLES for array in arrays)
    chosen = [arguments[k] for k in positions]
    ends = np.cumsum([array.size for array in chosen])[:-1]
    for count in [count for count in counts if 0 < count <= MOST_ELEMENTS]:
        shapes = _factorizations(count, sum(array.size for array in chosen))
        start = turn % len(shapes)
        for sizes in (shapes[start:] + shapes[:start])[:MOST_FACTORIZATIONS]:
            changed = list(arguments)
            for k, array, part in zip(positions, chosen, np.split(sizes, ends), strict=True):
                changed[k] = part.reshape(array.shape).astype(array.dtype)
            yield changed


@lru_cache(maxsize=1024)
def _factorizations(number: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Returns all sequences of `count` positive integers with a product."""
    if count == 1:
        return ((number,),)
    divisors = [factor for factor in range(1, number + 1) if number % factor == 0]
    return tuple(
        [
            (factor, *rest)
            for factor in divisors
            for rest in _factorizations(number // factor, count - 1)
        ]
    )


def with_counts(flat: list[Any], sizes: Sequence[int]) -> Iterator[list[Any]]:
    """Yields arguments in which one array has as many elements that are not 0 as some axis has
    elements."""
    counts = list(dict.fromkeys(size for size in sizes if size))[:MOST_COUNTS]
    arrays = [k for k, a in enumerate(flat) if isinstance(a, np.ndarray) and _is_counted(a)]
    for k in arrays[:MOST_COUNTED]:
        for count in [count for count in counts if count <= flat[k].size]:
            numbers = np.where(flat[k], flat[k], 1).astype(flat[k].dtype).reshape(-1)
            numbers[np.random.default_rng(count).permutation(numbers.size)[count:]] = 0
            yield [*flat[:k], numbers.reshape(flat[k].shape), *flat[k + 1 :]]


def _is_counted(array: Any) -> bool:
    return array.size > 1 and (array.dtype.kind in "biu" or dtype_of(array) in FLOATS)
