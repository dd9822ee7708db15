"""Explicit memory: storage, tensors in storage, and calls that write to them.

    storage = R.memory.alloc_storage(R.prim_value(256 * n))
    space = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n, 64]), dtype="float32")
    y = R.memory.call_into(x, space, callee="exp")

Tensors of one storage may overlap: these calls have side effects. They appear in plain blocks only,
and passes neither merge nor remove them. `force_pure` marks a function whose effects are limited to
its own storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import attrs

from structir.analysis.lattice import FAIL_L0, base_check
from structir.errors import (
    Diagnostic,
    DiagnosticError,
    ShapeMismatchError,
    Span,
    StructInfoError,
)
from structir.ir.dims import Dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Call, Expr, Tuple
from structir.ir.op import Op, find_op, register_op
from structir.ir.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
)
from structir.lazy import lazy_module
from structir.opdef.memo import memoize
from structir.opdef.opaque import opaque_op

np = lazy_module("numpy")
Array = Any
DESTINATION = "destination"
MAX_ARGUMENTS = 64


def _storage_info(size: StructInfo) -> StructInfo:
    if not isinstance(size, PrimStructInfo) or size.dtype != "int64":
        raise StructInfoError(
            Diagnostic(f"size: expected an integer such as R.prim_value(64), found {size}")
        )
    value: Dim | None = size.value
    return TensorStructInfo(None if value is None else (value,), "uint8", 1)


def _tensor_info(
    storage: StructInfo, offset: StructInfo, shape: StructInfo, dtype: str = "float32"
) -> StructInfo:
    if not isinstance(storage, TensorStructInfo) or not isinstance(offset, PrimStructInfo):
        raise StructInfoError(
            Diagnostic(
                "storage, offset: expected storage and a byte offset such as R.prim_value(0),"
                f" found {storage} and {offset}"
            )
        )
    if not isinstance(shape, ShapeStructInfo):
        raise StructInfoError(
            Diagnostic(f"shape: expected a shape such as R.shape([n, 64]), found {shape}")
        )
    return TensorStructInfo(shape.dims, dtype, shape.ndim)


@opaque_op(_storage_info, "memory.alloc_storage", pure=False)
def alloc_storage(size: int) -> Array:
    """Allocates uninitialized storage of a number of bytes."""
    if size < 0:
        raise ShapeMismatchError(
            f"memory.alloc_storage: expected a size of at least 0 bytes, found {size}"
        )
    return np.empty(size, "uint8")


@opaque_op(_tensor_info, "memory.alloc_tensor", pure=False)
def alloc_tensor(
    storage: Array, offset: int, shape: tuple[int, ...], *, dtype: str = "float32"
) -> Array:
    """Creates an uninitialized tensor at a byte offset of storage."""
    element_type = numpy_dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64)) * element_type.itemsize
    if min((offset, *shape)) < 0 or offset + count > storage.nbytes:
        text = (
            f"expected at most {storage.nbytes} bytes of storage, found {count} at offset {offset}"
        )
        raise ShapeMismatchError(f"memory.alloc_tensor: {text}")
    return storage[offset : offset + count].view(element_type).reshape(shape)


def _destination_info(
    kernel: StructInfo, destination: StructInfo, operands: StructInfo = OBJECT
) -> StructInfo:
    return destination


@opaque_op(_destination_info, "memory.fill", pure=False)
def fill(kernel: Any, destination: Array, operands: tuple[Any, ...] = ()) -> Array:
    """Fills the destination with the result of a kernel of the module."""
    kernel(*operands, destination)
    return destination


fill.definition.hooks["calls_kernel"] = True  # type: ignore[attr-defined]


def _is_operand(argument: Expr) -> bool:
    """Returns whether an argument is not that of an omitted operand."""
    return not isinstance(argument, Tuple) or bool(argument.fields)


@attrs.define(eq=False)
class IntoDefinition:
    """The definition of `memory.call_into`, which delegates to the callee's definition."""

    name: str = "memory.call_into"
    pure: bool = False
    operator: str | None = None
    hooks: dict[str, Any] = attrs.Factory(dict)
    op: Op = attrs.field(init=False)

    argument_names = tuple([f"argument_{k}" for k in range(MAX_ARGUMENTS)])
    leading = MAX_ARGUMENTS
    of_sizes = (False,) * MAX_ARGUMENTS

    def __attrs_post_init__(self) -> None:
        self.op = register_op(self)

    @property
    def doc(self) -> str:
        """The documentation of the op."""
        return "Computes the op `callee` on the other arguments into the last argument."

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """Builds a call from arguments, the destination last, and the attributes of the callee."""
        attributes = dict(keywords)
        positions = {name: k for k, name in enumerate(self.argument_names)}
        operands = {
            **dict(enumerate(args)),
            **{positions[n]: attributes.pop(n) for n in {*attributes} & {*positions}},
        }
        last = max(operands, default=-1)
        arguments = tuple([self._argument(operands.get(k, ()), span) for k in range(last + 1)])
        static = {n: tuple(v) if isinstance(v, list) else v for n, v in attributes.items()}
        call = Call(self.op, arguments, static, span=span)
        return Call(self.op, arguments, static, (), self.deduce(call), span)

    def _argument(self, value: Any, span: Span | None) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, tuple | list):
            return Tuple(tuple([self._argument(field, span) for field in value]))
        message = f"expected a value of the program as argument, found {value!r}"
        raise StructInfoError(Diagnostic(message, span, self.name))

    def deduce(self, call: Call) -> StructInfo:
        """Returns the StructInfo of the destination; rejects a result that does not match it."""
        result, destination = self.forward(call).struct_info, call.args[-1].struct_info
        if not isinstance(destination, TensorStructInfo) or result is None:
            raise self._wrong(call, f"destination: expected a tensor, found {destination}")
        if base_check(destination, result) is FAIL_L0:
            raise self._wrong(call, f"destination: expected {result}, found {destination}")
        return destination

    def _wrong(self, call: Call, message: str) -> StructInfoError:
        return StructInfoError(Diagnostic(message, call.span, self.name))

    def forward(self, call: Call) -> Call:
        """Returns the call whose result is written to the destination."""
        name = call.attrs.get("callee")
        op = find_op(name) if isinstance(name, str) else None
        if op is None or not call.args:
            raise self._wrong(
                call, f"callee: expected the name of an op and a destination, found {name!r}"
            )
        static = {n: v for n, v in call.attrs.items() if n != "callee"}
        args = call.args[:-1]
        count = min(len([*takewhile(_is_operand, args)]), op.definition.leading)
        pairs = [*zip(op.definition.argument_names, args, strict=False)][count:]
        named = {n: a for n, a in pairs if _is_operand(a)}
        try:
            keywords = {**named, **static}
            call_with_attributes = op.definition.bind(args[:count], keywords, call.span)
        except DiagnosticError as error:
            raise self._wrong(call, f"invalid call of {name}: {error}") from None
        return Call(
            op, args, call_with_attributes.attrs, (), call_with_attributes.struct_info, call.span
        )

    def index_spec(self, call: Call) -> None:
        """Returns None: an index spec does not express side effects."""

    def decompose(self, call: Call) -> None:
        """Returns None: the op has no decomposition."""

    def assumptions(self, call: Call) -> tuple[Any, ...]:
        """Returns the assumptions of the callee."""
        forward = memoize(self.forward, call)
        callee_assumptions: tuple[Any, ...] = forward.op.definition.assumptions(forward)  # type: ignore[attr-defined]
        return callee_assumptions

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """Computes the result into the destination and returns it."""
        forward = memoize(self.forward, call)
        result = forward.op.definition.reference(forward, values[:-1])  # type: ignore[attr-defined]
        destination = values[-1]
        if np.shape(result) != destination.shape:
            text = f"expected shape {np.shape(result)}, found {destination.shape}"
            raise ShapeMismatchError(f"{self.name}: destination: {text}")
        destination[...] = result
        return destination


CALL_INTO = IntoDefinition().op
