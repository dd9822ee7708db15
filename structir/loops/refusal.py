"""Refusals of primitives: errors that name both locations and an edit that avoids the obstacle."""

from __future__ import annotations

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.node import Node

Location = Node | tuple[str, Node]  # with a label


class ScheduleError(DiagnosticError):
    """A primitive does not apply to a kernel, or would change its results."""

    code = "E1117"


class UnknownPrimitiveError(ScheduleError, AttributeError):
    """A primitive of this name does not exist: handles have no such method."""

    code = "E1115"


def refusal(code: str, message: str, *locations: Location, help: str) -> ScheduleError:
    """Returns the error of a refused primitive, whose name is added where it is called.

    The locations are statements, loops or expressions, that of the error first. `help` is an edit
    of the kernel or of the schedule.
    """
    labelled = [place if isinstance(place, tuple) else ("", place) for place in locations]
    span = getattr(labelled[0][1], "span", None) if labelled else None
    diagnostic = Diagnostic(message, span, code=code, hint=help)
    for label, node in labelled:
        text = f"{label}: `{headline(node)}`" if label else f"`{headline(node)}`"
        diagnostic = diagnostic.note(text, getattr(node, "span", None))
    return ScheduleError(diagnostic)


def headline(node: Node) -> str:
    """Returns the first line of the source of a node, without the colon of a loop or branch."""
    return str(node).splitlines()[0].strip().removesuffix(":")
