"""Keywords of SciPy that are hints for its implementation."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from structir.lazy import exported

F = TypeVar("F", bound=Callable[..., Any])
HINTS = frozenset(
    (
        *("overwrite_a", "overwrite_b", "check_finite", "lapack_driver", "lwork", "debug"),
        *("turbo", "allow_singular"),
    )
)


def without_hints(function: F) -> F:
    """Makes a function accept the keywords that are hints, which have no effect."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        chosen = {name: value for name, value in keywords.items() if name not in HINTS}
        return function(*args, **chosen)

    return exported(call)  # type: ignore[return-value]
