"""Lists the distributions of values of the samples at the boundaries of a domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from structir.analysis.axes import axes_of
from structir.ir.axes import RowVar
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from structir.passes.manager.input_values import DEFAULT_DTYPE, InputValues
from structir.passes.manager.mentions import NARROW_FLOATS, Mentions, mentions

# a domain of floats with a distribution of integers
EDGES = (
    ("large", "clusters"),
    ("small", "few"),
    ("integral", "indices"),
    ("non_finite", "numbers"),
    ("infinite", "beyond"),
    ("nan", "few"),
    ("signed", "all"),
    ("negative", "indices"),
    ("tiny", "extreme"),
    ("numbers", "numbers"),
    ("ties", "few"),
    ("offset", "clusters"),
    ("constant", "scales"),
    ("zeros", "zeros"),
)
HEAVY_EDGES = (("large", "all"),)
WIDE_DOMAINS = ("large", "small", "integral", "nan", "negative", "tiny", "numbers")
NON_FINITE = ("non_finite", "infinite", "nan")
MOST_SCALES = 4  # floats of a rewritten program that scale inputs
MOST_NUMBERS = 64  # of a program that are elements of inputs


def edges(values: InputValues, params: Sequence[Var], heavy: bool) -> Iterator[tuple[str, str]]:
    """Yields the distributions that differ for the dtypes of the parameters."""
    dtypes = [dtype for param in params for dtype in dtypes_of(param.struct_info)]
    floats, others = any(map(is_float, dtypes)), any(not is_float(dtype) for dtype in dtypes)
    integers = any(map(is_int, dtypes))
    seen = {(values.domain if floats else "", values.integers if others else "")}
    for domain, kind in HEAVY_EDGES if heavy else EDGES:
        needs_numbers = domain == "numbers" or (kind == "numbers" and integers and not floats)
        key = (domain if floats else "", kind if others else "")
        if key not in seen and not (needs_numbers and not values.numbers):
            seen.add(key)
            yield domain, kind


def dtypes_of(info: Any) -> list[str]:
    """Returns the dtypes of the tensors and scalars of a parameter."""
    if isinstance(info, TupleStructInfo):
        return [dtype for field in info.fields for dtype in dtypes_of(field)]
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return []  # a size
    if isinstance(info, TensorStructInfo | PrimStructInfo):
        return [info.dtype or DEFAULT_DTYPE]
    return []


def has_unknown_rank(info: Any) -> bool:
    """Whether a parameter has tensors of unknown rank, or with row variables."""
    if isinstance(info, TupleStructInfo):
        return any(map(has_unknown_rank, info.fields))
    if not isinstance(info, TensorStructInfo):
        return False
    axes = axes_of(info)
    return axes is None or any(type(axis) is RowVar for axis in axes)


def has_unknown_dtype(info: Any) -> bool:
    """Whether a parameter has tensors of unknown dtype."""
    if isinstance(info, TupleStructInfo):
        return any(map(has_unknown_dtype, info.fields))
    return isinstance(info, TensorStructInfo) and info.dtype is None


def numbers_of(mentioned: Mentions) -> tuple[float, ...]:
    """Returns the numbers that may be elements of inputs."""
    return (*mentioned.floats, *mentioned.integers)[:MOST_NUMBERS]


def scales_of(mentioned: Mentions) -> list[float]:
    """Returns the magnitudes at which a program may distinguish its inputs."""
    sizes = [abs(number) for number in mentioned.floats]
    return list(dict.fromkeys(size for size in sizes if size > 0))[:MOST_SCALES]


def is_float32(module: IRModule) -> bool:
    """Whether a program has no narrower floats, to which it may round on purpose."""
    return not set(NARROW_FLOATS.values()) & set(mentions(module).integers) and not any(
        dtype in NARROW_FLOATS
        for function in module.functions.values()
        for param in getattr(function, "params", ())
        for dtype in dtypes_of(param.struct_info)
    )
