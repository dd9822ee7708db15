"""Conversion between ONNX types and StructInfo; named input sizes become symbolic variables."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import onnx
from onnx import TypeProto, ValueInfoProto

from structir.frontend.onnx.size_expressions import expression_of
from structir.frontend.onnx.tensors import STRINGS, dtype_name, element_type, wrong
from structir.ir.dims import Dim, Sym, sym, syms
from structir.ir.struct_info import (
    OBJECT,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

Shapes = Mapping[str, Sequence[int | str]]


class OnnxSymbols:
    """The symbolic variables of a model's inputs, by `dim_param` name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Dim] = {}
        self.declared: frozenset[str] = frozenset()  # names that are sizes of inputs by themselves
        self.sources: dict[Sym, frozenset[str]] = {}  # graph inputs whose elements fix a size

    def dim(self, size: Any, fallback: str) -> Dim:
        """Returns a declared size; a size without a name (`?`, empty, negative) is a fresh
        variable."""
        kind = size.WhichOneof("value")
        if kind == "dim_value" and size.dim_value >= 0:
            return int(size.dim_value)
        name = size.dim_param if kind == "dim_param" else ""
        if not is_size_name(name):
            return self.fresh(fallback)
        if name not in self.by_name:
            expression = expression_of(name, self)
            self.by_name[name] = sym(identifier(name)) if expression is None else expression
        return self.by_name[name]

    def declare(self, types: Iterable[TypeProto]) -> None:
        """Records the names of sizes that these types declare, for expressions of them."""
        sizes = [size for each in types for size in each.tensor_type.shape.dim]
        self.declared = frozenset(s.dim_param for s in sizes if s.dim_param.isidentifier())

    def shape_of_type(self, declared: TypeProto, name: str) -> tuple[Dim, ...] | None:
        """Returns the declared shape of a value, or None; sizes that no input names are fresh."""
        tensor = declared.tensor_type
        if declared.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
            return None
        sizes: list[Dim] = []
        for axis, size in enumerate(tensor.shape.dim):
            known = size.WhichOneof("value") == "dim_value" or size.dim_param in self.by_name
            sizes.append(self.dim(size, name) if known else self.fresh(f"{name}_{axis}"))
        return tuple(sizes)

    def fresh(self, name: str, sources: frozenset[str] = frozenset()) -> Dim:
        """Returns a fresh symbolic size that the elements of some graph inputs fix."""
        result: Dim = sym(identifier(name))
        self.sources.update(dict.fromkeys(syms(result), sources))
        return result

    def sources_of(self, size: Dim) -> frozenset[str]:
        """Returns the graph inputs whose elements fix a size."""
        return frozenset().union(*[self.sources.get(v, frozenset()) for v in syms(size)])


def is_size_name(text: str) -> bool:
    """Returns whether a `dim_param` names a size; a literal `?` names nothing."""
    return re.search(r"[A-Za-z]", text) is not None


def identifier(name: str) -> str:
    """Returns a name as a Python identifier."""
    result = re.sub(r"\W", "_", name, flags=re.ASCII)
    return result if result[:1].isalpha() or result[:1] == "_" else f"d_{result}"


def info_of_type(declared: TypeProto, symbols: OnnxSymbols, name: str) -> StructInfo:
    """Returns the StructInfo of a declared type."""
    kind = declared.WhichOneof("value")
    if kind == "tensor_type":
        tensor = declared.tensor_type
        dtype = dtype_name(tensor.elem_type) if tensor.elem_type else None
        dtype = None if dtype == STRINGS else dtype
        if not tensor.HasField("shape"):
            return TensorStructInfo(None, dtype)
        sizes = enumerate(tensor.shape.dim)
        return TensorStructInfo(tuple(symbols.dim(d, f"d_{name}_{i}") for i, d in sizes), dtype)
    return OBJECT


def items_of_type(declared: TypeProto) -> StructInfo | None:
    """Returns the dtype and rank of the items of a declared sequence type, or None."""
    kind = declared.WhichOneof("value")
    if kind == "optional_type":
        return items_of_type(declared.optional_type.elem_type)
    if kind != "sequence_type":
        return None
    item = info_of_type(declared.sequence_type.elem_type, OnnxSymbols(), "item")
    return unsized(item)


def unsized(info: StructInfo) -> StructInfo:
    """Returns the StructInfo of a value without its sizes."""
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(None, info.dtype, info.ndim)
    return info


def type_of_info(info: StructInfo | None) -> TypeProto:
    """Returns the ONNX type of a value; unknown fields are left out."""
    result = TypeProto()
    if isinstance(info, TensorStructInfo) and info.dtype is not None:
        result.tensor_type.elem_type = element_type(info.dtype)
        if info.ndim is not None:
            result.tensor_type.shape.CopyFrom(onnx.TensorShapeProto())
            sizes = info.dims if isinstance(info.dims, tuple) else (None,) * info.ndim
            for size in sizes:
                dim = result.tensor_type.shape.dim.add()
                if isinstance(size, int):
                    dim.dim_value = size
    elif isinstance(info, TupleStructInfo) and info.fields:
        result.sequence_type.elem_type.CopyFrom(type_of_info(info.fields[0]))
    return result


def with_shapes(
    inputs: Iterable[ValueInfoProto], shapes: Shapes, constants: Container[str]
) -> list[ValueInfoProto]:
    """Returns inputs with the shapes that are given by name, of integers and names of sizes.

    Raises DiagnosticError for a name or a size that is not valid, and for another rank than that
    which the model declares.
    """
    if not isinstance(shapes, Mapping):
        message = f"shapes: expected a dict of shapes by name, found {type(shapes).__name__}"
        raise wrong(message, '`shapes={"x": ("n", 4)}`')
    by_name = {declared.name: declared for declared in inputs}
    for name, sizes in shapes.items():
        _require_input("shapes", name, by_name, constants)
        if by_name[name].type.WhichOneof("value") not in ("tensor_type", None):
            raise wrong(f"shapes: expected the name of a tensor, found {name!r}", "omit it")
        by_name[name] = _with_shape(by_name[name], sizes)
    return list(by_name.values())


def check_values(
    inputs: Iterable[ValueInfoProto], values: Mapping[str, Any], constants: Container[str]
) -> None:
    """Raises DiagnosticError for a value of another name, dtype or shape than the inputs have."""
    by_name = {declared.name: declared for declared in inputs}
    for name, value in values.items():
        _require_input("values", name, by_name, constants)
        info = info_of_type(by_name[name].type, OnnxSymbols(), name)
        dtype = info.dtype if isinstance(info, TensorStructInfo) else None
        is_numeric = value.dtype.kind not in "OSU"
        if dtype is None and not is_numeric:
            message = f"values: {name}: expected numbers, found {value.dtype}"
            raise wrong(message, f"omit `{name}` in `values`, and pass it in calls")
        if not isinstance(info, TensorStructInfo) or dtype is None:
            continue
        edit = f'`values={{"{name}": value}}` with a value of {info}'
        if str(value.dtype) != dtype:
            if is_numeric:
                edit = f'`values={{"{name}": np.asarray(value, "{dtype}")}}`'
            raise wrong(f"values: {name}: expected {dtype}, found {value.dtype}", edit)
        sizes = info.dims if isinstance(info.dims, tuple) else value.shape
        known = zip(sizes, value.shape, strict=False)
        if len(sizes) != value.ndim or any(isinstance(n, int) and n != m for n, m in known):
            given = TensorStructInfo(value.shape, dtype)
            raise wrong(f"values: {name}: expected {info}, found {given}", edit)


def _require_input(
    parameter: str, name: str, inputs: Mapping[str, Any], constants: Container[str]
) -> None:
    if name not in inputs or name in constants:
        names = ", ".join([n for n in inputs if n not in constants])
        edit = f"use {names}" if names else f"omit `{parameter}`: all inputs have values"
        raise wrong(f"{parameter}: expected the name of an input, found {name!r}", edit)


def _with_shape(declared: ValueInfoProto, sizes: Sequence[int | str]) -> ValueInfoProto:
    result = ValueInfoProto()
    result.CopyFrom(declared)
    edit = f'`shapes={{"{declared.name}": ("n", 4)}}`'
    tensor = result.type.tensor_type
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise wrong(f"shapes: {declared.name}: expected a tuple of sizes, found {sizes!r}", edit)
    if tensor.HasField("shape") and len(tensor.shape.dim) != len(sizes):
        rank = len(tensor.shape.dim)
        message = f"shapes: {declared.name}: expected {rank} sizes, found {len(sizes)}"
        raise wrong(message, "give each axis of the model's input a size")
    tensor.shape.ClearField("dim")
    tensor.shape.SetInParent()
    for size in sizes:
        is_integer = isinstance(size, Integral) and not isinstance(size, bool)
        number = int(size) if is_integer else -1
        if 0 <= number < 2**63:
            tensor.shape.dim.add().dim_value = number
        elif isinstance(size, str) and is_size_name(size):
            tensor.shape.dim.add().dim_param = size
        else:
            message = f"shapes: {declared.name}: expected an integer or a name, found {size!r}"
            raise wrong(message, edit)
    return result


def without_shape(declared: TypeProto) -> TypeProto:
    """Returns the type of a tensor without its shape, another type as it is."""
    result = TypeProto()
    result.CopyFrom(declared)
    if result.WhichOneof("value") == "tensor_type":
        result.tensor_type.ClearField("shape")
    return result
