"""Reasons: the origins in the program that a derived fact or a conflict depends on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from structir.errors import Span


@attrs.frozen(eq=False)
class Origin:
    """A location of the program that asserts something, such as a parameter or an op."""

    label: str
    kind: str = "op"  # parameter, op, annotation, fact (assumption), chosen (default)
    text: str = ""
    span: Span | None = None
    order: int = 0  # in program order


Reason: TypeAlias = "Origin | tuple[Reason, ...]"
NO_REASON: Reason = ()


def origins(reason: Reason | Iterable[Reason], nearest: int | None = None) -> list[Origin]:
    """Returns the origins that a reason depends on, nearest first, at most `nearest` of them."""
    collected: dict[Origin, None] = {}
    layer: list[Reason] = [reason if isinstance(reason, Origin) else tuple(reason)]
    seen: set[int] = set()
    while layer and (nearest is None or len(collected) < nearest):
        next_layer: list[Reason] = []
        for inner in layer:
            if isinstance(inner, Origin):
                collected[inner] = None
            elif id(inner) not in seen:
                seen.add(id(inner))
                next_layer += inner
        layer = next_layer
    return list(collected)[:nearest]


class Conflict(Exception):
    """Two facts that contradict each other, with the reason for them."""

    def __init__(self, message: str, reason: Reason = NO_REASON, code: str = "E0401") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.code = code
