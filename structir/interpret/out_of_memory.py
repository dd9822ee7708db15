"""Where memory ends: what a call says whose values do not fit."""

from __future__ import annotations

from types import TracebackType

import attrs

from structir.errors import OutOfMemoryError

# NumPy's words for arrays whose elements no index counts
UNCOUNTABLE = ("Maximum allowed dimension exceeded", "iterator is too large", "array is too big")


@attrs.frozen
class within_memory:
    """What is done inside needs memory for a function; raises OutOfMemoryError if there is none."""

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
        uncountable = isinstance(error, ValueError) and str(error).startswith(UNCOUNTABLE)
        if uncountable or isinstance(error, MemoryError | OverflowError):
            text = f"{self.name}: there is not the memory for values of these sizes: {error}"
            raise OutOfMemoryError(text) from None
