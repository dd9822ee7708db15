"""Adds values of random StructInfo to a program: results of external functions that declare it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any

import attrs

from structir.analysis.axes import ANY
from structir.analysis.axes import tensor as tensor_of
from structir.ir.axes import Labelled, Ragged, RowVar
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import Dim, Sym, as_dim
from structir.ir.dtype import DtypeVar
from structir.ir.expr import BindingBlock, Call, ExternFunc, Function, Var, VarBinding
from structir.ir.module import IRModule
from structir.ir.node import rebuild, replace
from structir.ir.struct_info import (
    KINDS,
    OBJECT,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    field_kinds,
    struct_info,
)

DTYPES = ("float32", "int64", "bool", "bfloat16", None)
MAX_DEPTH = 2  # of nested StructInfos
MAX_VALUES = 3  # for each function
BUILT_IN = frozenset(KINDS)


@contextmanager
def sampled_subclass() -> Iterator[type]:
    """Registers a user-defined StructInfo subclass with a field of every kind for the block."""
    KINDS["Sampled"] = cls = _sampled_subclass()
    try:
        yield cls
    finally:
        del KINDS["Sampled"]


@cache
def _sampled_subclass() -> type:
    @struct_info
    class SampledStructInfo(StructInfo):
        """A StructInfo with a field of every kind."""

        size: Dim
        inner: StructInfo
        parts: tuple[StructInfo, ...] = ()
        of: Var | None = attrs.field(default=None, eq=id)
        dtype: str | None = None
        bits: int | None = None

    return SampledStructInfo


def with_declared_values(module: IRModule, rng: Random) -> IRModule:
    """Returns the module with values of random StructInfo at the start of every function."""
    functions = {
        name: _with_values(function, rng) if isinstance(function, Function) else function
        for name, function in module.functions.items()
    }
    return module.with_functions(functions)


def _with_values(function: Function, rng: Random) -> Function:
    sampler = InfoSampler(rng, function.params)
    bindings = tuple([_declared(sampler, k) for k in range(rng.randint(1, MAX_VALUES))])

    def visit(part: Any) -> Any:
        if isinstance(part, Function):
            return _with_values(part, rng)
        return rebuild(part, visit) if isinstance(part, BindingBlock | VarBinding) else part

    blocks = tuple([visit(block) for block in function.body.blocks])
    return replace(function, body=replace(function.body, blocks=(BindingBlock(bindings), *blocks)))


def _declared(sampler: InfoSampler, number: int) -> VarBinding:
    """Returns the binding of a call of an external function that declares its result."""
    callee = ExternFunc("sampled", FuncStructInfo(None, OBJECT, True))
    info = sampler.info()
    call = Call(callee, tuple(sampler.params[:1]), sinfo_args=(info,), struct_info=info)
    return VarBinding(Var(f"declared{number}", info), call)


class InfoSampler:
    """Samples StructInfos of every registered subclass over the dims and variables in scope."""

    def __init__(self, rng: Random, params: tuple[Var, ...]) -> None:
        self.rng, self.params = rng, params
        in_scope = sorted(bound_dims([p.struct_info for p in params]), key=lambda dim: dim.name)
        self.sizes: list[Dim] = [*[as_dim(dim) for dim in in_scope if type(dim) is Sym], 1, 3]
        self.rows = [dim for dim in in_scope if type(dim) is RowVar]
        self.dtypes: list[Any] = [*DTYPES, *[dim for dim in in_scope if type(dim) is DtypeVar]]
        self.depth = 0

    def info(self) -> StructInfo:
        """Samples a StructInfo, nested to a limited depth."""
        if self.depth == MAX_DEPTH:
            return self.rng.choice([OBJECT, self.tensor(), self.shape()])
        self.depth += 1
        try:
            return self._info()
        finally:
            self.depth -= 1

    def _info(self) -> StructInfo:
        user_defined = [cls for name, cls in KINDS.items() if name not in BUILT_IN]
        kinds = [self.tensor, self.tensor, self.shape, self.prim, self.tuple, self.callable]
        chosen: Any = self.rng.choice([*kinds, *user_defined, *user_defined])
        return self.of_class(chosen) if isinstance(chosen, type) else chosen()

    def size(self) -> Dim:
        """Samples a size in scope, or an expression of sizes."""
        first, second = self.rng.choices(self.sizes, k=2)
        return self.rng.choice([first, first, first + second, first * second + 1])

    def tensor(self) -> StructInfo:
        """Samples a tensor with axes of any class, or with the sizes of a shape parameter."""
        shapes = [p for p in self.params if isinstance(p.struct_info, ShapeStructInfo)]
        if shapes and self.rng.random() < 0.3:
            return TensorStructInfo(self.rng.choice(shapes), self.rng.choice(self.dtypes))
        axes: list[Any] = []
        for k in range(self.rng.randint(0, 3)):
            size = self.size()
            row = self.rng.choice(self.rows) if self.rows else size
            axes.append(self.rng.choice([size, size, row, ANY, Ragged(), Labelled(size, f"a{k}")]))
        return tensor_of(tuple(axes), self.rng.choice(self.dtypes))

    def shape(self) -> StructInfo:
        """Samples a shape of known sizes or rank."""
        sizes = tuple([self.size() for _ in range(self.rng.randint(0, 3))])
        return self.rng.choice([ShapeStructInfo(sizes), ShapeStructInfo(ndim=len(sizes))])

    def prim(self) -> StructInfo:
        """Samples a scalar, with its value or without."""
        return self.rng.choice([PrimStructInfo("float32"), PrimStructInfo("int64", self.size())])

    def tuple(self) -> StructInfo:
        """Samples a tuple."""
        return TupleStructInfo(tuple([self.info() for _ in range(self.rng.randint(0, 3))]))

    def callable(self) -> StructInfo:
        """Samples a function type over sizes in scope, or an opaque one."""
        purity = self.rng.random() < 0.5
        if self.rng.random() < 0.3:
            return FuncStructInfo(None, OBJECT, purity)
        params = tuple([self.info() for _ in range(self.rng.randint(0, 2))])
        return FuncStructInfo(params, self.info(), purity)

    def of_class(self, cls: Any) -> StructInfo:
        """Samples the fields of a user-defined StructInfo; optional ones may be missing."""
        fields = {f.name: f for f in attrs.fields(cls)}
        values = {
            name: self.field(kind)
            for name, kind in field_kinds(cls)
            if fields[name].default is attrs.NOTHING or self.rng.random() < 0.6
        }
        info: StructInfo = cls(**values)
        return info

    def field(self, kind: str) -> Any:
        """Samples the value of a field of this kind."""
        match kind:
            case "dim":
                return self.size()
            case "dims":
                return tuple([self.size() for _ in range(self.rng.randint(0, 2))])
            case "info":
                return self.info()
            case "infos":
                return tuple([self.info() for _ in range(self.rng.randint(0, 2))])
            case "value":
                return self.rng.choice(self.params) if self.params else None
            case "dtype":
                return self.rng.choice(DTYPES)
        return self.rng.randint(1, 8)
