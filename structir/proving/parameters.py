"""Parameters of functions as unknown values, and the sizes in their StructInfos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.proving.terms import SizeTerm
from structir.proving.values import PlainValue, TensorValue, TupleValue, UnknownValue, of_source


def dims_in_info(infos: Sequence[Any]) -> list[Dim]:
    """Returns the sizes in StructInfos, in order."""
    sizes: list[Dim] = []
    for info in infos:
        if isinstance(info, TupleStructInfo):
            sizes += dims_in_info(info.fields)
        declared = getattr(info, "dims", None)
        sizes += declared if isinstance(declared, tuple) else ()
        if isinstance(getattr(info, "value", None), int | dims.Poly):
            sizes.append(info.value)
    return sizes


def parameter(info: StructInfo, path: tuple[str | int, ...]) -> Any:
    """Returns an unknown argument of a parameter."""
    match info:
        case TensorStructInfo() if isinstance(info.dims, tuple) and info.dtype:
            return of_source(("parameter", *path), info.dims, info.dtype)
        case TupleStructInfo():
            return TupleValue(tuple([parameter(f, (*path, k)) for k, f in enumerate(info.fields)]))
        case ShapeStructInfo() if isinstance(info.dims, tuple):
            return PlainValue(info.dims)
        case PrimStructInfo() if info.dtype:
            if info.value is not None and info.dtype != "bool":
                value, dtype = info.value, info.dtype
                return TensorValue((), dtype, lambda _: SizeTerm(value, dtype))
            return of_source(("parameter", *path), (), info.dtype)
    return UnknownValue(("parameter", path))
