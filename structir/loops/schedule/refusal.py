"""Errors of refused primitives, with the conflicting locations and a suggested edit."""

from __future__ import annotations

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.node import Node, replace

Location = Node | tuple[str, Node]  # with a label


class ScheduleError(DiagnosticError):
    """A primitive does not apply to a kernel, or would change its results."""

    code = "E1117"


class UnknownPrimitiveError(ScheduleError, AttributeError):
    """There is no primitive of this name."""

    code = "E1115"


def refusal(code: str, message: str, *locations: Location, help: str) -> ScheduleError:
    """Returns the error of a refused primitive; `Primitive` adds the name.

    The locations are statements, loops or expressions; the first is the location of the error.
    `help` is an edit of the kernel or of the schedule.
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
    if hasattr(node, "body"):  # which takes long to print
        node = replace(node, body=())
    return str(node).splitlines()[0].strip().removesuffix(":")
