"""Random programs under every check; what fails is reduced, and kept as a file to be run again."""

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
from structir.tools.reduction import reduced

METADATA = "metadata["  # where a text refers to an array that stands beside it
FROM_EXAMPLES = 0.25  # of all calls: some ops take hardly anything but what their examples show
RARE = (*sorted(EVERY_DTYPE - set(DTYPES)), "float16", "bfloat16", "bfloat16", "int8")
NAME = re.compile(r"(\w+)-(\d+)")  # of a kept failure: its check, and the seed of its draws
NUMBERS = re.compile(r"[\d'\"]\S*")


@attrs.frozen
class Failure:
    """A check that a program fails, and how."""

    check: str
    seed: int
    module: IRModule
    error: Exception

    @property
    def signature(self) -> str:
        """What two failures have in common if they have, in all likelihood, the same cause."""
        return f"{self.check}: {signature_of(self.error)}"

    def text(self) -> str:
        """The program, with what goes wrong above it."""
        said = [self.signature, *str(self.error).splitlines()]
        notes = "".join([f"# {line}\n" for line in said])
        return f"{notes}\n{self.module.script()}"


def signature_of(error: BaseException) -> str:
    """An error without the names and numbers of one program: for what is no diagnostic, the place
    in the code that raised it."""
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
    """A program to be checked; in every other one, the helpers of `main` are private."""
    rng = Random(seed)
    dtypes = (*DTYPES, *(rng.sample(RARE, 3) if rng.random() < 0.4 else ()))
    drawer = CallGenerator(rng, dtypes, from_examples=FROM_EXAMPLES)
    if rng.random() < 0.2:
        drawer = attrs.evolve(drawer, admits=has_device_kernel)
    module = random_module(seed, size, drawer)
    return with_private_helpers(module) if seed % 2 else module


@cache
def has_device_kernel(op: Op) -> bool:
    """Whether a GPU can run an op: some programs hold such ops alone, so that one can run them."""
    definition: Any = op.definition
    if not definition.pure or not getattr(definition, "sampled", None):
        return False
    return device_backend(definition, example_call(definition)) != "none"


def with_private_helpers(module: IRModule) -> IRModule:
    """The module with all functions but main marked private: passes may change how they are
    called."""
    functions = {
        name: replace(function, attrs={PRIVATE: True})
        if isinstance(function, Function) and name != "main"
        else function
        for name, function in module.functions.items()
    }
    return module.with_functions(functions)


def failures(module: IRModule, seed: int, checks: Sequence[str]) -> Iterator[Failure]:
    """How a program fails, by each check."""
    for name in checks:
        found = failure(name, module, seed)
        if found is not None:
            yield found


def failure(name: str, module: IRModule, seed: int) -> Failure | None:
    """How a program fails a check, if it does."""
    try:
        run_check(name, module, seed)
    except Exception as error:  # whatever escapes a check is a finding
        return Failure(name, seed, module, error)
    return None


def smallest(found: Failure) -> Failure:
    """The failure of the smallest part of its program that fails alike."""

    def fails(candidate: IRModule) -> bool:
        again = failure(found.check, candidate, found.seed)
        return again is not None and again.signature == found.signature

    small = reduced(found.module, fails)
    return failure(found.check, small, found.seed) or found


def kept(found: Failure, folder: Path) -> Path:
    """Write a failure to a file of its own in a folder: text, unless it has large constants."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{found.check}-{found.seed}.py"
    text = found.text()
    if METADATA in text:
        place = place.with_suffix(".sir")
        save(found.module, place)
    else:
        place.write_text(text, encoding="utf-8")
    return place


def replayed(file: Path) -> list[Failure]:
    """How a kept program fails now: by its own check, or by all where its name tells none."""
    name = NAME.fullmatch(file.stem)
    own = name is not None and name[1] in CHECKS
    checks, seed = ((name[1],), int(name[2])) if name and own else (tuple(CHECKS), 0)
    return list(failures(read_program(file), seed, checks))
