"""Where facts come from: origins, reasons, and the conflict that a set of origins cannot avoid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from structir.errors import Span


@attrs.frozen(eq=False)
class Origin:
    """A place in the program that says something: a parameter, an op, an annotation, a fact."""

    label: str
    kind: str = "op"  # parameter, op, annotation, fact; chosen for what closing assumes
    text: str = ""
    span: Span | None = None
    order: int = 0  # in program order


Reason: TypeAlias = "Origin | tuple[Reason, ...]"
NO_REASON: Reason = ()


def origins(reason: Reason | Iterable[Reason], nearest: int | None = None) -> list[Origin]:
    """The origins that a reason rests on, nearest first, at most `nearest` of them."""
    found: dict[Origin, None] = {}
    layer: list[Reason] = [reason if isinstance(reason, Origin) else tuple(reason)]
    seen: set[int] = set()
    while layer and (nearest is None or len(found) < nearest):
        below: list[Reason] = []
        for part in layer:
            if isinstance(part, Origin):
                found[part] = None
            elif id(part) not in seen:
                seen.add(id(part))
                below += part
        layer = below
    return list(found)[:nearest]


class Conflict(Exception):
    """Two facts that cannot both hold, with the reason that led to them."""

    def __init__(self, message: str, reason: Reason = NO_REASON) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
