"""Runs all checks on random programs; failures are reduced and written to files."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import attrs

from structir.analysis.internal_functions import PRIVATE
from structir.errors import PassError, StructIRError
from structir.ir.dtype import DTYPES as EVERY_DTYPE
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.printer.files.archive import save
from structir.tools.calls import DTYPES, CallGenerator
from structir.tools.checks import CHECKS, run_check
from structir.tools.generate import random_module
from structir.tools.op_page import device_backend, example_call
from structir.tools.programs import read_program
from structir.tools.reduction import reduce_module

METADATA = "metadata["  # the prefix of a reference to a separately stored array
FROM_EXAMPLES = 0.25  # of all calls: random arguments fit some ops only rarely
RARE = (*sorted(EVERY_DTYPE - set(DTYPES)), "float16", "bfloat16", "bfloat16", "int8")
NAME = re.compile(r"(\w+)-(\d+)")  # header of a failure: check, seed of the inputs
NUMBERS = re.compile(r"[\d'\"]\S*")


@attrs.frozen
class Failure:
    """A violated check of a program, and its error."""

    check: str
    seed: int
    module: IRModule
    error: Exception

    @property
    def signature(self) -> str:
        """A key that failures with the same cause are likely to share."""
        return f"{self.check}: {signature_of(self.error)}"

    def text(self) -> str:
        """The program, with the error as a comment."""
        said = [self.signature, *str(self.error).splitlines()]
        notes = "".join([f"# {line}\n" for line in said])
        return f"{notes}\n{self.module.script()}"


def signature_of(error: BaseException) -> str:
    """Returns an error without the names and numbers of one program; for other exceptions, the
    raising location in the code."""
    notes = " ".join(getattr(error, "__notes__", ()))
    kind = type(error).__name__
    if isinstance(error, StructIRError):
        said = [d.message for d in getattr(error, "diagnostics", ())] or [str(error)]
        shown = said[:2] if isinstance(error, PassError) else said[:1]
        words = " ".join([NUMBERS.sub("_", line.splitlines()[0]) for line in shown])
        return f"{kind} {words} {notes}".strip()
    if error.__cause__ is not None:
        return f"{kind} from {signature_of(error.__cause__)} {notes}".strip()
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{kind} at {place} {notes}".strip()


def random_program(seed: int, size: int) -> IRModule:
    """Returns a random program; in every second one, the helpers of `main` are private."""
    rng = Random(seed)
    dtypes = (*DTYPES, *(rng.sample(RARE, 3) if rng.random() < 0.4 else ()))
    drawer = CallGenerator(rng, dtypes, from_examples=FROM_EXAMPLES)
    if rng.random() < 0.2:
        drawer = attrs.evolve(drawer, admits=has_device_kernel)
    module = random_module(seed, size, drawer)
    return with_private_helpers(module) if seed % 2 else module


@cache
def has_device_kernel(op: Op) -> bool:
    """Whether a GPU can run an op; some programs contain such ops only."""
    definition: Any = op.definition
    if not definition.pure or not getattr(definition, "sampled", None):
        return False
    return device_backend(definition, example_call(definition)) != "none"


def with_private_helpers(module: IRModule) -> IRModule:
    """Returns the module with all functions except main marked private, which permits passes to
    change their signatures."""
    functions = {
        name: replace(function, attrs={PRIVATE: True})
        if isinstance(function, Function) and name != "main"
        else function
        for name, function in module.functions.items()
    }
    return module.with_functions(functions)


def failures(module: IRModule, seed: int, checks: Sequence[str]) -> Iterator[Failure]:
    """Yields the failures of a program, at most one for each check."""
    for name in checks:
        found = failure(name, module, seed)
        if found is not None:
            yield found


def failure(name: str, module: IRModule, seed: int) -> Failure | None:
    """Returns the failure of a program under one check, if any."""
    try:
        run_check(name, module, seed)
    except Exception as error:  # any exception from a check is a failure
        return Failure(name, seed, module, error)
    return None


def reduce_failure(found: Failure) -> Failure:
    """Returns the failure of the reduce_failure part of its program with the same signature."""

    def fails(candidate: IRModule) -> bool:
        again = failure(found.check, candidate, found.seed)
        return again is not None and again.signature == found.signature

    small = reduce_module(found.module, fails)
    return failure(found.check, small, found.seed) or found


def save_failure(found: Failure, folder: Path) -> Path:
    """Writes a failure to a file of its own: source, or an archive if it has large constants."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{found.check}-{found.seed}.py"
    text = found.text()
    if METADATA in text:
        place = place.with_suffix(".sir")
        save(found.module, place)
    else:
        place.write_text(text, encoding="utf-8")
    return place


def replay(file: Path) -> list[Failure]:
    """Runs the check of a saved failure again, or all checks if its name gives none."""
    name = NAME.fullmatch(file.stem)
    own = name is not None and name[1] in CHECKS
    checks, seed = ((name[1],), int(name[2])) if name and own else (tuple(CHECKS), 0)
    return list(failures(read_program(file), seed, checks))
