"""Dtype promotion as in torch: by category (bool, integer, float), then by width."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.frontend.torch.scalars import tensor_info
from structir.frontend.torch.sizes import Ratio
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Expr

DEFAULT = {0: "bool", 1: "int64", 2: "float32"}


def promote_dtypes(values: Iterable[Any]) -> str:
    """Returns the promoted dtype of tensors and numbers.

    Tensors with axes determine it, unless a tensor of rank 0, or else a number, has a higher
    category.
    """
    ranked: list[set[str]] = [set(), set(), set()]
    for value in values:
        if not isinstance(value, Expr):
            ranked[2].add(DEFAULT[_number_kind(value)])
        else:
            info = tensor_info(value)
            ranked[0 if info.ndim else 1].add(info.dtype or "float32")
    result: str | None = None
    for group in ranked:
        if not group:
            continue
        group_dtype = _common_dtype(group)
        if result is None or _kind(group_dtype) > _kind(result):
            result = group_dtype
    return result or "float32"


def _kind(dtype: str) -> int:
    """Returns the category of a dtype: 0 for bool, 1 for integers, 2 for floats."""
    return 2 if is_float(dtype) else 1 if is_int(dtype) else 0


def _number_kind(value: Any) -> int:
    if isinstance(value, float | Ratio):
        return 2
    return 0 if isinstance(value, bool) else 1


def _common_dtype(group: set[str]) -> str:
    """Returns the common dtype of a set of dtypes of several categories."""
    highest = max(map(_kind, group))
    names = sorted(name for name in group if _kind(name) == highest)
    if len(names) == 1:
        return names[0]
    if {"float16", "bfloat16"} == set(names):
        return "float32"
    widest = max(names, key=lambda name: (_bits(name), name.startswith("u")))
    if widest.startswith("u") and any(not name.startswith("u") for name in names):
        return {8: "int16", 16: "int32", 32: "int64"}.get(_bits(widest), "float32")
    return widest


def _bits(dtype: str) -> int:
    digits = "".join(c for c in dtype.partition("_")[0] if c.isdigit())
    return int(digits or 8)
