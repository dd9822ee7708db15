"""Patterns: pattern variables and recorded calls of ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from structir.ir.expr import Call, Expr
from structir.ir.op import Op


class PatternExpr(Expr):
    """A part of a pattern; after a match, `value` is the matched value."""

    def __init__(self) -> None:
        self.value: Any = None

    @property
    def struct_info(self) -> Any:
        """Returns the StructInfo of the matched value."""
        return None if self.value is None else self.value.struct_info

    @property
    def span(self) -> Any:  # type: ignore[override]
        """Returns the source location of the matched value."""
        return None if self.value is None else self.value.span

    def __getitem__(self, index: Any) -> Expr:
        return ItemPattern(self, index) if RECORDER.open else super().__getitem__(index)

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)


class PatternVar(PatternExpr):
    """A pattern variable that matches any value; all occurrences match the same value."""

    def __init__(self, name: str, constant: bool = False) -> None:
        super().__init__()
        self.name = name
        self.constant = constant  # whether it matches compile-time constants only


class ParallelVar(PatternExpr):
    """A pattern variable for the operands in which parallel calls differ."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class AttributeVar:
    """A pattern variable that matches an attribute of an op, or a shape."""

    def __init__(self, name: str) -> None:
        self.name = name


class OpVar:
    """A pattern variable that matches any op; a call of it is a call pattern."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> CallPattern:
        return CallPattern(self, {str(k): argument for k, argument in enumerate(args)})


class CallPattern(PatternExpr):
    """A pattern of a call: the op, and patterns by parameter; others must have defaults."""

    def __init__(self, callee: Any, arguments: Mapping[str, Any]) -> None:
        super().__init__()
        self.callee = callee  # the definition of an op, or an OpVar
        self.arguments = arguments
        RECORDER.trail.append(self)


class ItemPattern(PatternExpr):
    """A pattern of a tuple field, by its position or its name."""

    def __init__(self, of: PatternExpr, index: int | str) -> None:
        super().__init__()
        self.of = of
        self.index = index
        RECORDER.trail.append(self)


class MatchedOp:
    """The op matched by an `OpVar`; a call of it has the matched attributes."""

    def __init__(self, call: Call) -> None:
        assert isinstance(call.op, Op)
        self.op = call.op
        self.attrs = call.attrs

    def __eq__(self, other: object) -> bool:
        """Returns whether both are the same op with equal attributes."""
        if not isinstance(other, MatchedOp):
            return False
        return self.op is other.op and self.attrs == other.attrs

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, *args: Any) -> Expr:
        if RECORDER.open:
            return CallPattern(self, {str(k): argument for k, argument in enumerate(args)})
        return self.op(*args, **self.attrs)


class PatternRecorder:
    """The recorder of pattern calls, in order of construction."""

    def __init__(self) -> None:
        self.open = False
        self.trail: list[Any] = []

    @contextmanager
    def recording(self) -> Iterator[list[Any]]:
        """Enters a context in which calls of ops are recorded as patterns."""
        self.open, self.trail = True, []
        try:
            yield self.trail
        finally:
            self.open = False

    def record(self, definition: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Returns the pattern of a call of an op."""
        names = [parameter.name for parameter in definition.signature.parameters]
        return CallPattern(definition, {**dict(zip(names, args, strict=False)), **keywords})


RECORDER = PatternRecorder()
