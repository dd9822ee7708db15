"""Tracks the rule applications that produced each value, and detects rules that diverge."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import attrs

from structir.errors import Diagnostic, PassError, Span
from structir.ir.expr import Call, Expr, PrimValue, ShapeExpr, Tuple, Var
from structir.ir.op import Op

MAX_GROWTH = 6  # consecutive applications of a rule to ever larger replacements
MAX_SHOWN = 6  # applications in a message
MAX_SIZE = 2**62  # a DAG of shared values is a tree of exponential size

Size = tuple[int, int]  # calls in the tree of a value, and the sum of integers in its attributes


@attrs.frozen(eq=False)
class Application:
    """One application of a rule to the value of a variable."""

    rule: str
    variable: str
    value: Expr
    size: Size
    span: Span | None
    parent: Application | None  # the application whose replacement contains the value

    def chain(self) -> Iterator[Application]:
        """Yields this application and its ancestors, the latest first."""
        application: Application | None = self
        while application is not None:
            yield application
            application = application.parent

    def __str__(self) -> str:
        location = "" if self.span is None else f"  {self.span}"
        return f"{self.rule} at {self.variable} = {self.value}{location}"


class Provenance:
    """The latest application that produced each variable, over all walks of one pass.

    A rule may match in its own replacement if the matched values do not grow without bound. A rule
    that moves an op past others matches smaller values; reassociation matches equal ones.
    """

    def __init__(self) -> None:
        self._latest: dict[Var, Application] = {}
        self._sizes: dict[Expr, int] = {}

    def of(self, var: Var) -> Application | None:
        """Returns the latest application whose replacement contains the value of a variable."""
        return self._latest.get(var)

    def record_part(self, application: Application | None, var: Var) -> None:
        """Records that a variable is bound to a part of a replacement."""
        if application is not None:
            self._latest[var] = application

    def measure(self, var: Var, value: Expr) -> None:
        """Records the size of the value of a variable."""
        self._sizes[var] = self._call_count(value) if type(value) is Call else 1

    def record(self, rule: str, var: Var, value: Expr, span: Span | None) -> None:
        """Records an application; raises PassError if the rule diverges."""
        parent = self._latest.get(var)
        application = Application(rule, var.name, value, self._size(value), span, parent)
        self._latest[var] = application
        applications = [
            application for application in application.chain() if application.rule == rule
        ]
        growing = sum(_grows(old, new) for new, old in pairwise(applications))
        if growing >= MAX_GROWTH or any(
            _is_same_call(value, old.value) for old in applications[1:]
        ):
            raise self.divergence_error(var)

    def divergence_error(self, var: Var) -> PassError:
        """Returns the error for a rule that diverges on a variable."""
        last = self._latest[var]
        chain = list(last.chain())[::-1]
        message = f"rewrite rule `{last.rule}` diverges: it matches in its own replacement"
        diagnostic = Diagnostic(message, chain[0].span)
        for application in chain[:MAX_SHOWN]:
            diagnostic = diagnostic.note(str(application))
        if len(chain) > MAX_SHOWN:
            diagnostic = diagnostic.note(f"and {len(chain) - MAX_SHOWN} more applications")
        return PassError(
            diagnostic.hinted("yield a replacement that the pattern does not match, or add a guard")
        )

    def _size(self, value: Any) -> Size:
        if not isinstance(value, Call):
            return 1, 0
        numbers = sum(map(_numbers, (*value.args, *value.attrs.values())))
        return self._call_count(value), numbers

    def _call_count(self, value: Call | Tuple) -> int:
        count = 1
        for argument in value.args if isinstance(value, Call) else value.fields:
            if isinstance(argument, Tuple):
                count += self._call_count(argument)
            else:
                count += self._sizes.get(argument, 0)
        return min(count, MAX_SIZE)


def _grows(old: Application, new: Application) -> bool:
    return new.size[0] > old.size[0] and new.size[1] >= old.size[1]


def _is_same_call(first: Expr, second: Expr) -> bool:
    """Returns whether two calls have the same op, attributes and (identical) operands."""
    if not isinstance(first, Call) or not isinstance(second, Call):
        return False
    if not isinstance(first.op, Op) or not isinstance(second.op, Op):
        return False
    if first.op.definition is not second.op.definition or first.attrs != second.attrs:
        return False
    pairs = zip(first.args, second.args, strict=False)
    return len(first.args) == len(second.args) and all(a is b for a, b in pairs)


def _numbers(value: Any) -> int:
    """Returns the sum of the integers in an attribute."""
    if isinstance(value, PrimValue):
        value = value.value
    if isinstance(value, ShapeExpr):
        value = value.dims
    if isinstance(value, tuple | list):
        return sum(map(_numbers, value))
    return abs(value) if isinstance(value, int) else 0
