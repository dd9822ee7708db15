"""Pauses of garbage collection, in a process with few objects: a collection visits all of them."""

import os
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).with_name("collection_pauses.py")


def test_pauses_of_garbage_collection() -> None:
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FILE)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
