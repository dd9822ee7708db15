"""numba's numbers and operators one at a time, as a kernel's form for LLVM is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from typing import Any

import attrs
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.callconv import create_error_model
from numba.core.cpu_options import FastMathOptions
from numba.core.fastmathpass import FastFloatBinOpVisitor
from numba.core.registry import cpu_target

from structir.backend.cpu.registries import all_read, read_all
from structir.backend.cpu.typing_once import TypingOnce

error_model: Any = create_error_model
one_alloca: Any = cgutils.alloca_once
literal: Any = types.literal
unliteral: Any = types.unliteral
TUPLE: Any = types.BaseTuple
fast: Any = FastMathOptions
visitor: Any = FastFloatBinOpVisitor
contract = visitor({"contract"})


class UntranslatedError(Exception):
    """A text says what only the whole of numba's compiler understands.

    `blamed` says that a function that was taken in is at fault: it is called from now on.
    """

    blamed = False


@attrs.frozen(eq=False)
class Typed:
    """A value in LLVM's form, and numba's type of it; `number` where the text says it."""

    value: Any
    kind: Any
    number: int | None = None


@cache
def target(contracted: bool) -> Any:
    """numba's context for functions in which a product and a sum may be rounded at once, or not."""
    context: Any = cpu_target.target_context
    options: dict[str, Any] = {"error_model": error_model("numpy", context)}
    if contracted:
        options["fastmath"] = fast({"contract"})
    return context.subtarget(**options)


class Operations:
    """What operators and functions make of values, written where the builder stands."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder
        self.typing: Any = TypingOnce(context.typing_context)

    def constant(self, value: Any) -> Typed:
        """A number that the text says."""
        value = value.value if isinstance(value, Enum) else value
        kind = unliteral(self.typing.resolve_value_type(value))
        plain = value.item() if isinstance(value, np.generic) else value
        number = plain if isinstance(plain, int) else None
        return Typed(self.context.get_constant(kind, plain), kind, number)

    def nothing(self) -> Typed:
        """What a function without a result gives."""
        return Typed(self.context.get_dummy_value(), types.none)

    @contextmanager
    def contracted(self) -> Iterator[None]:
        """What is written meanwhile may round a product and a sum at once."""
        function, block = self.builder.function, self.builder.block
        instructions, blocks = len(block.instructions), len(function.blocks)
        yield
        if not self.context.fastmath:
            added = [*block.instructions[instructions:]]
            added += [i for b in function.blocks[blocks:] for i in b.instructions]
            for instruction in added:
                contract.visit_Instruction(instruction)

    def cast(self, given: Typed, kind: Any) -> Any:
        """The value as one of another type."""
        if given.kind == kind:
            return given.value
        try:
            return self.context.cast(self.builder, given.value, given.kind, kind)
        except NotImplementedError as error:
            raise UntranslatedError(f"{given.kind} as {kind}") from error

    def truth(self, given: Typed) -> Any:
        """The value as one bit."""
        return self.cast(given, types.boolean)

    def applied(self, function: Any, args: Sequence[Typed]) -> Typed:
        """A Python operator or function, or one that numba compiles, on some values."""
        kind = _kind_of_function(self.typing, function)
        if isinstance(kind, types.Dispatcher):
            read_all()  # numba compiles the function, and may need any registry
            kind = _kind_of_function(self.typing, function)
        literal = getattr(function, "_prefer_literal", False)
        kinds = tuple([_literal(a) if literal else a.kind for a in args])
        signature = self.typing.resolve_function_type(kind, kinds, {})
        if signature is None or len(signature.args) != len(args):
            raise UntranslatedError(f"{function} on {kinds}")
        values = [self.cast(a, k) for a, k in zip(args, signature.args, strict=True)]
        key = (self.context, function, signature)
        made = _implementations.get(key)
        if made is None:
            made = _implementations[key] = self.context.get_function(kind, signature)
        return Typed(made(self.builder, values), signature.return_type)

    def together(self, fields: Sequence[Typed]) -> Typed:
        """A tuple."""
        kind = TUPLE.from_types([f.kind for f in fields])
        value = self.context.make_tuple(self.builder, kind, [f.value for f in fields])
        return Typed(value, kind)

    def fields(self, given: Typed) -> list[Typed]:
        """What a tuple holds."""
        kinds = enumerate(given.kind)
        return [Typed(self.builder.extract_value(given.value, k), kind) for k, kind in kinds]

    def common_kind(self, kinds: Sequence[Any]) -> Any:
        """The type that values of several types have together."""
        kind = self.typing.unify_types(*kinds)
        if kind is None:
            raise UntranslatedError(f"{kinds} together")
        return kind

    def slot(self, kind: Any) -> Any:
        """Memory for a variable."""
        return one_alloca(self.builder, self.context.get_value_type(kind))


def _literal(given: Typed) -> Any:
    return given.kind if given.number is None else literal(given.number)


def _kind_of_function(typing: Any, function: Any) -> Any:
    key = (function, all_read())
    kind = _function_kinds.get(key)
    if kind is None:
        try:
            kind = _function_kinds[key] = typing.resolve_value_type(function)
        except ValueError as error:
            raise UntranslatedError(f"{function} is nothing that numba compiles") from error
    return kind


_function_kinds: dict[Any, Any] = {}
_implementations: dict[Any, Callable[..., Any]] = {}
