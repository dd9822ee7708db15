"""Reports allocations that fail."""

from __future__ import annotations

from types import TracebackType

import attrs

from structir.errors import OutOfMemoryError

# NumPy's messages for arrays with more elements than an index can count
TOO_LARGE_MESSAGES = (
    "Maximum allowed dimension exceeded",
    "iterator is too large",
    "array is too big",
)


@attrs.frozen
class within_memory:
    """A context manager that turns failed allocations of a function into OutOfMemoryError."""

    name: str

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, OutOfMemoryError):
            return
        uncountable = isinstance(error, ValueError) and str(error).startswith(TOO_LARGE_MESSAGES)
        if uncountable or isinstance(error, MemoryError | OverflowError):
            text = f"{self.name}: out of memory for values of these sizes: {error}"
            raise OutOfMemoryError(text) from None
