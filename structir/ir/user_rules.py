"""Checks rules that other packages attach to ops: what they raise and what they return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, StructInfoError, raising_span
from structir.ir.code_hash import is_of_package
from structir.ir.node import Node

Accepts = Callable[[Any], bool]


def checked_rule(
    rule: Callable[..., Any],
    noun: str,
    owner: str,
    expected: str,
    accepts: Accepts,
    raises: tuple[type[Exception], ...] = (),
) -> Callable[..., Any]:
    """Returns a rule that raises StructInfoError where it fails or returns a value of another kind.

    `noun` and `owner` name it in messages. It may raise the exceptions of `raises`. A rule of this
    package is returned unchanged.
    """
    if is_of_package(rule):
        return rule

    @functools.wraps(rule)
    def checked(*args: Any, **keywords: Any) -> Any:
        span = next(
            (arg.span for arg in args if isinstance(arg, Node) and hasattr(arg, "span")), None
        )
        try:
            result = rule(*args, **keywords)
        except raises:
            raise
        except Exception as error:  # a rule may raise any exception
            if type(error).__module__.partition(".")[0] == "structir":
                raise
            place = raising_span(error)
            where = f" at {place}" if place else ""
            message = f"the {noun} raises {type(error).__name__}{where}: {error}"
            raise StructInfoError(Diagnostic(message, span, owner, code="E1135")) from error
        if not accepts(result):
            message = f"the {noun}: expected {expected} as its result, found {result!r}"
            raise StructInfoError(Diagnostic(message, span, owner, code="E1135"))
        return result

    return checked
