"""The child process of a run: `python -m structir.tools.hostile.worker KIND:SEED ...`.

It writes one line of JSON per seed: null, or the error as a string.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import traceback
from random import Random
from typing import Any

from structir.tools.hostile import kinds

LIMIT = 600  # seconds for one seed, on a busy machine; then the process ends with a traceback


def error_of(kind: Any, seed: int) -> str | None:
    """Returns the error of one seed of a kind, or None if its check passes."""
    case = None
    try:
        case = kind.sample(Random(seed))
        kind.check(case)
    except BaseException:  # also KeyboardInterrupt and SystemExit: none may leave a check
        return f"{traceback.format_exc()}\n{case}"
    return None


def main(cases: list[str]) -> None:
    """Runs seeds of kinds. Output of the tested code goes to the standard error."""
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        for case in cases:
            name, _, seed = case.partition(":")
            kind = importlib.import_module(f"{kinds.__name__}.{name}")
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            print(json.dumps(error_of(kind, int(seed))), file=output, flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    faulthandler.enable()
    main(sys.argv[1:])
