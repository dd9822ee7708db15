"""Runs seeds of a kind of hostile input in child processes, which a fault ends."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import attrs

from structir.tools.hostile import kinds

BATCH = 50  # seeds of one child process where the kind defines no other number as BATCH
SHOWN = 4000  # characters of the error output of a child process


@attrs.frozen
class Outcome:
    """The result of one seed; `error` is None if its check passed."""

    kind: str
    seed: int
    error: str | None = None

    @property
    def command(self) -> str:
        """The command that runs this seed again."""
        return f"structir fuzz --hostile {self.kind} --seed {self.seed} --programs 1"


def outcomes(
    kind: str, seeds: Iterable[int], environment: Mapping[str, str] | None = None
) -> Iterator[Outcome]:
    """Yields the outcome of each seed. After a fault or a hang, a new process runs the rest."""
    count = getattr(importlib.import_module(f"{kinds.__name__}.{kind}"), "BATCH", BATCH)
    remaining: list[tuple[str, int]] = []
    for seed in seeds:
        remaining.append((kind, seed))
        if len(remaining) == count:
            yield from outcomes_of(remaining, environment)
            remaining = []
    yield from outcomes_of(remaining, environment)


def outcomes_of(
    cases: Sequence[tuple[str, int]], environment: Mapping[str, str] | None = None
) -> Iterator[Outcome]:
    """Yields the outcomes of pairs of kind and seed, which one process runs unless one ends it."""
    while cases:
        count = 0
        for outcome in _child(cases, environment or {}):
            yield outcome
            count += 1
        cases = cases[count:]


def _child(cases: Sequence[tuple[str, int]], environment: Mapping[str, str]) -> Iterator[Outcome]:
    """Yields the outcomes of one child process; the last one is an error if the process dies."""
    words = [f"{kind}:{seed}" for kind, seed in cases]
    command = [sys.executable, "-m", "structir.tools.hostile.worker", *words]
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment},
        )
        count = 0
        try:
            for line in child.stdout or ():
                yield Outcome(*cases[count], json.loads(line))
                count += 1
            status = child.wait()
        finally:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
        if count < len(cases):
            message = f"the process ended with exit status {status}\n{_end_of(errors)}"
            yield Outcome(*cases[count], message)


def _end_of(errors: IO[Any]) -> str:
    errors.seek(0)
    text: str = errors.read().decode(errors="replace")
    return text[-SHOWN:]
