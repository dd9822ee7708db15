"""What a pattern is made of: holes, and calls of ops that are noted down instead of being made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from structir.ir.expr import Call, Expr
from structir.ir.op import Op


class PatternExpr(Expr):
    """A part of a pattern. Once it is matched, `value` is what stands there in the program."""

    def __init__(self) -> None:
        self.value: Any = None

    @property
    def struct_info(self) -> Any:
        """That of what was found."""
        return None if self.value is None else self.value.struct_info

    @property
    def span(self) -> Any:  # type: ignore[override]
        """That of what was found."""
        return None if self.value is None else self.value.span

    def __getitem__(self, index: int) -> Expr:
        return ItemPattern(self, index) if RECORDER.open else super().__getitem__(index)

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)


class PatternVar(PatternExpr):
    """Stands for any value; in several places, for the same one."""

    def __init__(self, name: str, constant: bool = False) -> None:
        super().__init__()
        self.name = name
        self.constant = constant  # only for a value that is known when compiling


class ParallelVar(PatternExpr):
    """Stands for the operands at this place of all calls that are alike but for it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class AttributeVar:
    """Stands for an attribute of an op, or for its sizes."""

    def __init__(self, name: str) -> None:
        self.name = name


class OpVar:
    """Stands for any op; called in a pattern, for a call of it on these operands."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> CallPattern:
        return CallPattern(self, {str(k): argument for k, argument in enumerate(args)})


class CallPattern(PatternExpr):
    """A call: the op, and what stands for each parameter that is named; others have defaults."""

    def __init__(self, callee: Any, given: Mapping[str, Any]) -> None:
        super().__init__()
        self.callee = callee  # an op's definition, or an OpHole
        self.given = given
        RECORDER.trail.append(self)


class ItemPattern(PatternExpr):
    """A field of a tuple."""

    def __init__(self, of: PatternExpr, index: int) -> None:
        super().__init__()
        self.of = of
        self.index = index
        RECORDER.trail.append(self)


class MatchedOp:
    """An op that was found for a hole; called, it makes a call with the attributes found."""

    def __init__(self, call: Call) -> None:
        assert isinstance(call.op, Op)
        self.op = call.op
        self.attrs = call.attrs

    def __call__(self, *args: Any) -> Expr:
        if RECORDER.open:
            return CallPattern(self, {str(k): argument for k, argument in enumerate(args)})
        return self.op(*args, **self.attrs)


class PatternRecorder:
    """Whether calls are noted down, and those of the pattern under way in order."""

    def __init__(self) -> None:
        self.open = False
        self.trail: list[Any] = []

    @contextmanager
    def recording(self) -> Iterator[list[Any]]:
        """Note calls down instead of making them."""
        self.open, self.trail = True, []
        try:
            yield self.trail
        finally:
            self.open = False

    def note(self, definition: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """The pattern of a call of this op."""
        names = [parameter.name for parameter in definition.signature.parameters]
        return CallPattern(definition, {**dict(zip(names, args, strict=False)), **keywords})


RECORDER = PatternRecorder()
