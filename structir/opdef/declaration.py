"""What an op declares: its line, its body, its signature, its hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import attrs

from structir.ir.expr import Call, Constant, DataflowVar, Var
from structir.ir.op import Op
from structir.opdef.attributes import SIZE
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.examples import build_argument, sample_operands
from structir.opdef.parameters import REQUIRED, OpSignature, signature_of

LineFunction = Callable[[CallView], "ResolvedSignature | str"]
PACKAGE = __name__.partition(".")[0]
PLAIN = frozenset({Var, DataflowVar, Call, Constant})


def is_built_in(body: Any) -> bool:
    """Whether an op's body is part of this package; an op without one is."""
    return str(getattr(body, "__module__", PACKAGE)).partition(".")[0] == PACKAGE


@attrs.define(eq=False, slots=False)
class DeclaredOp:
    """What its author wrote of an op, and what is remembered of its calls.

    `line` is the op line, or a function from the ranks and attributes of a call to it. `body` says
    what happens at one point, or gives a tree of calls where `parts` is set. Hooks replace derived
    things.
    """

    name: str
    line: str | LineFunction
    body: Callable[..., Any]
    reduce: str | None = None
    where: str = ""
    on: str = ""
    at: Mapping[str, str] = attrs.Factory(dict)
    fill: str | float | None = None
    base: str | None = None
    parts: bool = False
    reads_sizes: bool = False  # the line function looks at sizes, not only at ranks
    reads_values: bool = False  # it looks into constants
    operator: str | None = None
    pure: bool = True
    hooks: dict[str, Any] = attrs.Factory(dict)
    samples: list[tuple[tuple[Any, ...], dict[str, Any]]] = attrs.Factory(list)
    op: Op = attrs.field(init=False)
    memo: dict[Any, Any] = attrs.Factory(dict)
    lines: dict[Any, Any] = attrs.Factory(dict)
    prepared: dict[Any, Any] = attrs.Factory(dict)

    @cached_property
    def signature(self) -> OpSignature:
        """The parameters, in the order in which they are written."""
        return signature_of(self.name, self.body)

    @property
    def doc(self) -> str:
        """What the op does, in its author's words."""
        return inspect.getdoc(self.body) or ""

    @property
    def examples(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Arguments that the op runs with, tensors as NumPy arrays."""
        return [
            (
                tuple([build_argument(arg) for arg in args]),
                {n: build_argument(arg) for n, arg in keywords.items()},
            )
            for args, keywords in self.sampled
        ]

    @property
    def sampled(self) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """The examples with samples in place of tensors: those that are stated, else operands that
        follow from the line, where it is constant and the rest has defaults."""
        if self.samples:
            return self.samples
        required = [p for p in self.signature.parameters if p.default is REQUIRED]
        if callable(self.line) or any(p.kind is not None or p.is_list for p in required):
            return []
        return sample_operands(self.line)

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        """The names of a call's arguments, in order."""
        return tuple([p.name for p in self.signature.arguments])

    @cached_property
    def of_sizes(self) -> tuple[bool, ...]:
        """For each argument of a call, whether it is made of sizes, not an operand."""
        return tuple([p.kind is not None for p in self.signature.arguments])

    @cached_property
    def lengths(self) -> tuple[bool, ...]:
        """For each argument of a call, whether it is a size."""
        return tuple([p.kind is SIZE for p in self.signature.arguments])

    @cached_property
    def leading(self) -> int:
        """How many parameters stand before the first static attribute."""
        found = [k for k, p in enumerate(self.signature.parameters) if not p.is_argument]
        return found[0] if found else len(self.signature.parameters)

    def takes_as_it_is(self, args: tuple[Any, ...]) -> bool:
        """Whether the arguments are tensors in their places and all else is left out."""
        fewest, most = self.plain
        return fewest <= len(args) <= most and all([type(a) in PLAIN for a in args])

    @cached_property
    def plain(self) -> tuple[int, int]:
        """How few and how many arguments can be operands alone."""
        parameters = self.signature.parameters
        most = 0
        while most < len(parameters) and parameters[most].kind is None:
            if parameters[most].is_list:
                break
            most += 1
        fewest = max([k + 1 for k, p in enumerate(parameters) if p.default is REQUIRED], default=0)
        return fewest, most
