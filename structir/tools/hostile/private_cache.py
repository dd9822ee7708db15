"""A cache of machine code that belongs to one process of a run, and a marker of executed code."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from structir.system.cache import LOCATION
from structir.tools.comparison import Disagreement


@cache
def private_folder() -> Path:
    """Returns a folder of this process that is removed at its end, and puts the cache there."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[LOCATION] = str(Path(folder) / "cache")
    return Path(folder)


def marker() -> Path:
    """Returns the directory that planted code makes if it is executed."""
    return private_folder() / "executed"


def planted_code() -> str:
    """Returns Python code that makes the marker."""
    return f"__import__('os').mkdir({str(marker())!r})"


def require_no_marker() -> None:
    """Raises Disagreement if planted code was executed."""
    if marker().exists():
        marker().rmdir()
        raise Disagreement("planted code was executed")
