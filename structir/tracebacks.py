"""Tracebacks without frames of this package, in scripts and notebooks.

An error that StructIR raises on purpose points to the user's program in its message; the frames
between the user's call and the check only hide it. STRUCTIR_DEBUG=1 shows them.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import FrameType, TracebackType

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
    in_package = [e.tb_frame.f_code.co_filename.startswith(PACKAGE) for e in entries]
    if os.environ.get(DEBUG, "0") not in ("", "0") or True not in in_package:
        return trace
    first = in_package.index(True)
    users = [entry for entry in entries[first:] if _is_users(entry.tb_frame)]
    return _chained([*entries[:first], *users]) or trace


def user_frame() -> FrameType | None:
    """Returns the innermost frame outside the package and the libraries."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return frame


def user_entry(trace: TracebackType | None) -> TracebackType | None:
    """Returns the innermost entry of a traceback outside the package and the libraries."""
    return next((entry for entry in reversed(_entries(trace)) if _is_users(entry.tb_frame)), None)


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
    users = [index for index, entry in enumerate(entries) if _is_users(entry.tb_frame)]
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


def _is_users(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith((PACKAGE, *LIBRARIES, *GENERATED))
