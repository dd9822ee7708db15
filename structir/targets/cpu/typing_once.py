"""Memoization of numba's call typing: kernels repeat the same few calls."""

from __future__ import annotations

from typing import Any


class MemoizedTypingContext:
    """A typing context that resolves each call once per combination of argument types.

    The table keeps the function types alive, on which numba caches implementations.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, keywords: Any) -> Any:
        """Returns the signature of a call; None, which is not memoized, if there is none."""
        if keywords:
            return self._context.resolve_function_type(function, args, keywords)
        key = (function, tuple(args))
        signature = _signatures.get(key)
        if signature is None:
            signature = self._context.resolve_function_type(function, args, keywords)
            if signature is not None:
                _signatures[key] = signature
        return signature


_signatures: dict[Any, Any] = {}
