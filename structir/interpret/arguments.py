"""Samples random arguments for a function: sizes for its symbolic dims, and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from random import Random
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.interpret.out_of_memory import within_memory
from structir.interpret.ragged_values import ragged_count, ragged_position
from structir.ir.axes import AnySize, RowVar, size_in
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Dim, Sym, as_sym, evaluate, syms
from structir.ir.dtype import DtypeVar, is_float, numpy_dtype
from structir.ir.expr import Function, Var
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

SMALL = (0, 1, 2, 3, 3, 4)
RELATED = 0.6  # the share of unknown shapes that depend on others

Draw = Callable[[tuple[int, ...], str, Var], Any]  # an array of a shape and dtype for a parameter


def random_arguments(
    function: Function,
    seed: int,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    among: Sequence[int] = SMALL,
    dtypes: Sequence[str] = ("float32",),
) -> list[Any]:
    """Returns random values for every parameter.

    A symbolic dim has the size passed under its name, that of the array passed for a parameter, or
    a random one of `among`. A dtype variable is a random one of `dtypes`. Floats are
    normally distributed; integers are 0, 1 or 2, so that they are valid indices.
    """
    return random_values(function.params, seed, sizes, values, among, dtypes=dtypes)


def random_values(
    params: Sequence[Var],
    seed: int,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    among: Sequence[int] = SMALL,
    draw: Draw | None = None,
    dtypes: Sequence[str] = ("float32",),
) -> list[Any]:
    """Returns values for parameters, not necessarily of a function; `draw` samples the arrays."""
    values = values or {}
    requested = {**_sizes_of(params, values), **(sizes or {})}
    sampler = _Arguments(seed, among, requested, draw, dtypes)
    with within_memory("random arguments"):
        sampler.bind([param.struct_info for param in params])
        return [
            values[param.name] if param.name in values else sampler.value(param.struct_info, param)
            for param in params
        ]


def _sizes_of(params: Sequence[Var], values: Mapping[str, Any]) -> dict[str, int]:
    """Returns the sizes of symbolic dims in the arrays passed for parameters."""
    result: dict[str, int] = {}
    for param in params:
        dims = getattr(param.struct_info, "dims", None)
        if param.name in values and isinstance(dims, tuple):
            sizes = zip(dims, np.shape(values[param.name]), strict=False)
            result |= {sym.name: size for d, size in sizes if (sym := as_sym(d)) is not None}
    return result


class _Arguments:
    """Sizes of dims by name, and values sampled for these sizes."""

    def __init__(
        self,
        seed: int,
        among: Sequence[int],
        requested: Mapping[str, int],
        draw: Draw | None,
        dtypes: Sequence[str],
    ) -> None:
        self.draw = draw
        self.dtypes = dtypes
        self.elements: dict[DtypeVar | None, str] = {}
        self.among = among
        self.rng = Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.requested = requested
        self.sizes: dict[Sym, int] = {}
        self.rows: dict[RowVar, tuple[int, ...]] = {}
        self.shapes: dict[Var, tuple[int, ...]] = {}
        self.unknown: list[tuple[int, ...]] = []  # the shapes sampled for unknown ones
        self.lengths: dict[tuple[int, ...], list[int]] = {}  # of rows, by the axes before them

    def bind(self, infos: list[StructInfo]) -> None:
        """Assigns a size to every symbolic dim of the parameters; sometimes all the same."""
        shared = self.rng.choice(self.among) if self.rng.random() < 0.3 else None
        for sym in standing_alone(infos):
            if type(sym) is DtypeVar:
                self.elements[sym] = self.rng.choice(self.dtypes)
                continue
            if type(sym) is RowVar:
                count = self.rng.randint(0, 2)
                self.rows[sym] = tuple([self.rng.choice(self.among) for _ in range(count)])
                continue
            size = self.rng.choice(self.among) if shared is None else shared
            self.sizes[sym] = self.requested.get(sym.name, size)
        unknown = self.requested.keys() - {sym.name for sym in self.sizes}
        if unknown:
            names = ", ".join(sym.name for sym in self.sizes) or "none"
            raise StructIRError(
                f"unknown symbolic dim {', '.join(sorted(unknown))}; the parameters have {names}"
            )

    def value(self, info: StructInfo, param: Var) -> Any:
        """Samples a value with the StructInfo of a parameter."""
        rule = _RULES.get(type(info))
        if rule is None:
            raise StructIRError(f"cannot generate a value for parameter {param.name}: {info}")
        return rule(self, info, param)

    def size(self, dim: Dim, param: Var) -> int:
        """Evaluates a size."""
        unbound = [sym.name for sym in syms(dim) if sym not in self.sizes]
        if unbound:
            raise StructIRError(f"parameter {param.name}: unbound dim {', '.join(unbound)}")
        number = evaluate(dim, self.sizes)
        if number < 0:
            raise StructIRError(f"parameter {param.name}: negative size {number}")
        return number

    def shape(self, info: Any, param: Var) -> tuple[int, ...]:
        """Returns the sizes of a tensor or a shape; samples unknown ones."""
        axes = getattr(info, "axes", None)
        if axes is not None:
            return tuple([size for axis in axes for size in self.axis(size_in(axis), param)])
        if isinstance(info.dims, tuple):
            return tuple([self.size(dim, param) for dim in info.dims])
        shape = self.unknown_shape(info.ndim)
        return self.shapes.setdefault(info.dims, shape) if isinstance(info.dims, Var) else shape

    def unknown_shape(self, ndim: int | None) -> tuple[int, ...]:
        """Samples a shape; for a generator of arrays, mostly one that an op may combine with the
        shapes so far: equal, broadcast or transposed."""
        rank = self.rng.randint(0, 3) if ndim is None else ndim
        shape = tuple([self.rng.choice(self.among) for _ in range(rank)])
        if self.draw is None:
            return shape
        if self.unknown and self.rng.random() < RELATED:
            other = self.rng.choice(self.unknown)
            other = self.rng.choice((other, other, other[::-1], other[1:]))
            other = tuple([self.rng.choice((size, size, size, 1)) for size in other])
            leading = shape[: max(rank - len(other), 0)]
            shape = (
                other if ndim is None else (*leading, *other[len(other) + len(leading) - rank :])
            )
        self.unknown.append(shape)
        return shape

    def axis(self, axis: Any, param: Var) -> tuple[int, ...]:
        """Returns the sizes of an axis or of a row variable."""
        if type(axis) is RowVar:
            return self.rows[axis]
        return (self.rng.choice(self.among) if type(axis) is AnySize else self.size(axis, param),)

    def tensor(self, info: TensorStructInfo, param: Var) -> Any:
        """Samples an array, or a ragged array."""
        position = ragged_position(info)
        if position is not None:
            return self.ragged(info, position, param)
        return self.array(self.shape(info, param), info, param)

    def ragged(self, info: TensorStructInfo, position: int, param: Var) -> Any:
        """Samples a ragged array; all with the same number of rows have rows of equal lengths."""
        axes: Any = info.axes
        sizes = [[*self.axis(size_in(a), param)] for a in axes[:position]]
        leading = tuple([size for axis in sizes for size in axis])
        if position == 0 or ragged_count(info) > 1:
            raise StructIRError(f"cannot generate a value for parameter {param.name}: {info}")
        lengths = [self.rng.choice((0, *self.among)) for _ in range(prod(leading))]
        offsets = np.cumsum([0, *self.lengths.setdefault(leading, lengths)])
        inner = [size for axis in axes[position + 1 :] for size in self.axis(size_in(axis), param)]
        return RaggedArray(self.array((int(offsets[-1]), *inner), info, param), offsets, leading)

    def array(self, shape: tuple[int, ...], info: TensorStructInfo, param: Var) -> Any:
        """Samples an array of a shape."""
        dtype = info.dtype or self.elements.get(info.dtype_var) or "float32"
        if self.draw is not None:
            return self.draw(shape, dtype, param)
        if is_float(dtype):
            return self.numbers.standard_normal(shape).astype(numpy_dtype(dtype))
        top = 2 if dtype == "bool" else 3
        return self.numbers.integers(0, top, shape).astype(numpy_dtype(dtype))

    def shape_value(self, info: ShapeStructInfo, param: Var) -> tuple[int, ...]:
        """Samples a shape, which the shape of a tensor parameter may refer to."""
        shape = self.shape(info, param)
        return self.shapes.setdefault(param, shape) if info.dims is None else shape

    def scalar(self, info: PrimStructInfo, param: Var) -> Any:
        """Samples a number."""
        if info.value is not None:
            return self.size(info.value, param)
        dtype = info.dtype or "float32"
        if self.draw is not None:
            return self.draw((), dtype, param).item()
        if dtype == "bool":
            return self.rng.random() < 0.5
        return self.rng.gauss(0.0, 1.0) if is_float(dtype) else self.rng.randint(0, 3)

    def several(self, info: TupleStructInfo, param: Var) -> tuple[Any, ...]:
        """Samples a tuple."""
        return tuple([self.value(field, param) for field in info.fields])


_RULES: dict[type, Callable[[_Arguments, Any, Var], Any]] = {
    TensorStructInfo: _Arguments.tensor,
    ShapeStructInfo: _Arguments.shape_value,
    PrimStructInfo: _Arguments.scalar,
    TupleStructInfo: _Arguments.several,
}
