"""Tracebacks without frames of this package, in scripts and notebooks.

An error that StructIR raises on purpose points to the user's program in its message; the frames
between the user's call and the check only hide it. STRUCTIR_DEBUG=1 shows them.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import TracebackType

import attrs

DEBUG = "STRUCTIR_DEBUG"
PACKAGE = f"{Path(__file__).parent}{os.sep}"
# the standard library, and the packages that are installed beside attrs
LIBRARIES = tuple(
    [f"{file.parent}{os.sep}" for file in (Path(os.__file__), Path(attrs.__file__).parent)]
)
GENERATED = ("<frozen ", "<attrs generated ")


def user_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without frames of the package, and without library frames that the
    package calls. A traceback without user frames, and any under STRUCTIR_DEBUG=1, is unchanged."""
    entries = _entries(trace)
    in_package = [_file(entry).startswith(PACKAGE) for entry in entries]
    if os.environ.get(DEBUG, "0") not in ("", "0") or True not in in_package:
        return trace
    first = in_package.index(True)
    return _chained([*entries[:first], *filter(_is_users, entries[first:])]) or trace


def is_called_by_package() -> bool:
    """Returns whether the caller of the calling method is code of the package."""
    return sys._getframe(2).f_code.co_filename.startswith((PACKAGE, *GENERATED))


def hide_frames(error: BaseException) -> None:
    """Removes the frames of the package from an error and from the errors that it was raised
    from."""
    seen: set[int] = set()
    chained: BaseException | None = error
    while chained is not None and id(chained) not in seen:
        seen.add(id(chained))
        chained.__traceback__ = user_traceback(chained.__traceback__)
        chained = chained.__cause__ or (
            None if chained.__suppress_context__ else chained.__context__
        )


def notebook_lines(error: BaseException) -> list[str]:
    """Returns the lines of a traceback in a notebook: user frames and the message."""
    hide_frames(error)
    entries = _entries(error.__traceback__)
    users = [index for index, entry in enumerate(entries) if _is_users(entry)]
    trace = _chained(entries[users[0] :]) if users else error.__traceback__
    return "".join(traceback.format_exception(type(error), error, trace)).splitlines()


def install(kind: type[BaseException]) -> None:
    """Hides frames of the package in uncaught errors of a kind, before the hook in place."""
    previous = sys.excepthook

    def hook(
        error_type: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, kind):
            hide_frames(error)
            trace = error.__traceback__
        previous(error_type, error, trace)

    sys.excepthook = hook


def _entries(trace: TracebackType | None) -> list[TracebackType]:
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    return entries


def _chained(entries: list[TracebackType]) -> TracebackType | None:
    trace: TracebackType | None = None
    for entry in reversed(entries):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


def _is_users(entry: TracebackType) -> bool:
    return not _file(entry).startswith((PACKAGE, *LIBRARIES, *GENERATED))
