"""numba's typing rules, with what they say of a call kept: kernels make the same few calls."""

from __future__ import annotations

from typing import Any


class TypingOnce:
    """A typing context whose answers about calls are found once for each combination of types.

    The table holds the types of the functions, so that the implementations that numba notes on
    them stay known.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """The signature of a call; None, which is not kept, where there is none."""
        if keywords:
            return self._context.resolve_function_type(function, args, keywords)
        key = (function, tuple(args))
        found = _signatures.get(key)
        if found is None:
            found = self._context.resolve_function_type(function, args, keywords)
            if found is not None:
                _signatures[key] = found
        return found


_signatures: dict[Any, Any] = {}
