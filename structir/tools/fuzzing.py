"""Runs checks on random programs; reduces failures and writes them to files."""

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
from structir.ir.dtype import DTYPES as ALL_DTYPES
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.printer.files.archive import save
from structir.tools.calls import DTYPES, CallGenerator
from structir.tools.checks import CHECKS, run_check
from structir.tools.generate import random_module
from structir.tools.op_page import device_backend, example_call
from structir.tools.polymorphic import polymorphic_module
from structir.tools.programs import read_program
from structir.tools.reduction import reduce_module

METADATA = "metadata["  # the prefix of a reference to a separately stored array
FROM_EXAMPLES = 0.25  # of all calls: random arguments fit some ops only rarely
POLYMORPHIC_PROBABILITY = 0.1  # of a program of any rank and dtype
RARE_DTYPES = (*sorted(ALL_DTYPES - set(DTYPES)), "float16", "bfloat16", "bfloat16", "int8")
FILE_NAME = re.compile(r"(\w+)-(\d+)")  # a saved failure: check and seed
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
        messages = [self.signature, *str(self.error).splitlines()]
        notes = "".join([f"# {line}\n" for line in messages])
        return f"{notes}\n{self.module.script()}"


def signature_of(error: BaseException) -> str:
    """Returns a key of an error: its message without names and numbers of the program.

    For exceptions other than StructIRError, the key is the raising function.
    """
    notes = " ".join(getattr(error, "__notes__", ()))
    kind = type(error).__name__
    if isinstance(error, StructIRError):
        messages = [d.message for d in getattr(error, "diagnostics", ())] or [str(error)]
        shown = messages[:2] if isinstance(error, PassError) else messages[:1]
        words = " ".join([NUMBERS.sub("_", line.splitlines()[0]) for line in shown])
        return f"{kind} {words} {notes}".strip()
    if error.__cause__ is not None:
        return f"{kind} from {signature_of(error.__cause__)} {notes}".strip()
    frames = traceback.extract_tb(error.__traceback__)
    location = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{kind} at {location} {notes}".strip()


def random_program(seed: int, size: int, polymorphic: bool = False) -> IRModule:
    """Returns a random program; some, or all with `polymorphic`, have row and dtype variables.

    With odd seeds, all functions except `main` are private.
    """
    if polymorphic or Random(f"polymorphic {seed}").random() < POLYMORPHIC_PROBABILITY:
        module = polymorphic_module(seed, size)
        return with_private_helpers(module) if seed % 2 else module
    rng = Random(seed)
    dtypes = (*DTYPES, *(rng.sample(RARE_DTYPES, 3) if rng.random() < 0.4 else ()))
    generator = CallGenerator(rng, dtypes, example_probability=FROM_EXAMPLES)
    if rng.random() < 0.2:
        generator = attrs.evolve(generator, admits=has_device_kernel)
    module = random_module(seed, size, generator)
    return with_private_helpers(module) if seed % 2 else module


@cache
def has_device_kernel(op: Op) -> bool:
    """Returns whether a GPU can run an op; some programs contain such ops only."""
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
        violation = failure(name, module, seed)
        if violation is not None:
            yield violation


def failure(name: str, module: IRModule, seed: int) -> Failure | None:
    """Returns the failure of a program under one check, if any."""
    try:
        run_check(name, module, seed)
    except Exception as error:  # any exception from a check is a failure
        return Failure(name, seed, module, error)
    return None


def reduce_failure(original: Failure) -> Failure:
    """Returns the failure of the smallest part of the program with the same signature."""

    def fails(candidate: IRModule) -> bool:
        new = failure(original.check, candidate, original.seed)
        return new is not None and new.signature == original.signature

    small = reduce_module(original.module, fails)
    return failure(original.check, small, original.seed) or original


def save_failure(failed: Failure, folder: Path) -> Path:
    """Writes a failure to a file: source, or an archive if the program has large constants."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{failed.check}-{failed.seed}.py"
    text = failed.text()
    if METADATA in text:
        path = path.with_suffix(".sir")
        save(failed.module, path)
    else:
        path.write_text(text, encoding="utf-8")
    return path


def replay(file: Path) -> list[Failure]:
    """Runs the check in the name of a saved failure again; all checks if there is none."""
    match = FILE_NAME.fullmatch(file.stem)
    is_check = match is not None and match[1] in CHECKS
    checks, seed = ((match[1],), int(match[2])) if match and is_check else (tuple(CHECKS), 0)
    return list(failures(read_program(file), seed, checks))
