"""Operations of GPU kernels, with numba's types and implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.callconv import create_error_model
from numba.core.cpu_options import FastMathOptions
from numba.core.registry import cpu_target

from structir.targets.cpu.kinds import BOOLEAN, Intrinsic, Kind, element_of, is_pointer
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError
from structir.targets.cpu.registries import all_read, read_all
from structir.targets.cpu.typing_once import MemoizedTypingContext

error_model: Any = create_error_model
one_alloca: Any = cgutils.alloca_once
literal: Any = types.literal
unliteral: Any = types.unliteral
TUPLE: Any = types.BaseTuple
fast: Any = FastMathOptions


@cache
def target(contracted: bool) -> Any:
    """Returns numba's target context, with fused multiply-add allowed if `contracted`."""
    context: Any = cpu_target.target_context
    options: dict[str, Any] = {"error_model": error_model("numpy", context)}
    if contracted:
        options["fastmath"] = fast({"contract"})
    return context.subtarget(**options)


class NumbaOperations(Operations):
    """Emits operators and function calls at the position of a builder."""

    index: Any = types.int64
    boolean: Any = types.boolean
    nothing_kind: Any = types.none

    def __init__(self, context: Any, builder: Any) -> None:
        super().__init__(builder)
        self.context = context
        self.typing: Any = MemoizedTypingContext(context.typing_context)

    def constant(self, value: Any) -> Typed:
        """Returns a literal."""
        value = value.value if isinstance(value, Enum) else value
        kind = unliteral(self.typing.resolve_value_type(value))
        plain = value.item() if isinstance(value, np.generic) else value
        number = plain if isinstance(plain, int) else None
        return Typed(self.context.get_constant(kind, plain), kind, number)

    def nothing(self) -> Typed:
        """Returns the value of a function without a result."""
        return Typed(self.context.get_dummy_value(), types.none)

    @contextmanager
    def contracted(self) -> Iterator[None]:
        """Allows fused multiply-add in the instructions that are emitted in this context."""
        with nullcontext() if self.context.fastmath else super().contracted():
            yield

    def is_pointer(self, kind: Any) -> bool:
        """Whether values of a type are pointers."""
        return isinstance(kind, types.CPointer)

    def cast(self, operand: Typed, kind: Any) -> Any:
        """Converts a value to a type."""
        if operand.kind == kind:
            return operand.value
        try:
            return self.context.cast(self.builder, operand.value, operand.kind, kind)
        except NotImplementedError as error:
            raise UntranslatedError(f"cannot convert {operand.kind} to {kind}") from error

    def applied(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Applies a Python operator or function, an intrinsic, or a compiled function."""
        if isinstance(function, Intrinsic):
            return self._emitted(function, args)
        kind = _kind_of_function(self.typing, function)
        if isinstance(kind, types.Dispatcher):
            read_all()  # numba compiles the function, and may need any registry
            kind = _kind_of_function(self.typing, function)
        literal = getattr(function, "_prefer_literal", False)
        kinds = tuple([_literal(a) if literal else a.kind for a in args])
        signature = self.typing.resolve_function_type(kind, kinds, {})
        if signature is None or len(signature.args) != len(args):
            raise UntranslatedError(f"{function} has no signature for {kinds}")
        values = [self.cast(a, k) for a, k in zip(args, signature.args, strict=True)]
        key = (self.context, function, signature)
        implementation = _implementations.get(key)
        if implementation is None:
            implementation = _implementations[key] = self.context.get_function(kind, signature)
        return Typed(implementation(self.builder, values), signature.return_type)

    def _emitted(self, function: Intrinsic, args: Sequence[Typed]) -> Typed:
        """Emits the instructions of an intrinsic of the CPU."""
        result, kinds = function.signature(*[str(a.kind) for a in args])
        if len(kinds) != len(args):
            raise UntranslatedError(f"expected {len(kinds)} arguments, found {len(args)}")
        pairs = zip(args, kinds, strict=True)
        values = [self.cast(operand, _type_of(kind)) for operand, kind in pairs]
        return Typed(function.write(self.builder, values, kinds), _type_of(result))

    def together(self, fields: Sequence[Typed]) -> Typed:
        """Returns a tuple of values."""
        kind = TUPLE.from_types([f.kind for f in fields])
        value = self.context.make_tuple(self.builder, kind, [f.value for f in fields])
        return Typed(value, kind)

    def fields(self, operand: Typed) -> list[Typed]:
        """Returns the fields of a tuple."""
        kinds = enumerate(operand.kind)
        return [Typed(self.builder.extract_value(operand.value, k), kind) for k, kind in kinds]

    def common_kind(self, kinds: Sequence[Any]) -> Any:
        """Returns the common type of several types."""
        kind = self.typing.unify_types(*kinds)
        if kind is None:
            raise UntranslatedError(f"{kinds} have no common type")
        return kind

    def slot(self, kind: Any) -> Any:
        """Allocates a stack slot for a variable."""
        return one_alloca(self.builder, self.context.get_value_type(kind))


def _type_of(kind: Kind) -> Any:
    """Returns the type of numba for a kind."""
    if is_pointer(kind):
        pointer: Any = types.CPointer
        return pointer(_type_of(element_of(kind)))
    return types.boolean if kind == BOOLEAN else getattr(types, kind)


def _literal(operand: Typed) -> Any:
    return operand.kind if operand.number is None else literal(operand.number)


def _kind_of_function(typing: Any, function: Any) -> Any:
    key = (function, all_read())
    kind = _function_kinds.get(key)
    if kind is None:
        try:
            kind = _function_kinds[key] = typing.resolve_value_type(function)
        except ValueError as error:
            raise UntranslatedError(f"{function}: not supported by numba") from error
    return kind


_function_kinds: dict[Any, Any] = {}
_implementations: dict[Any, Callable[..., Any]] = {}
