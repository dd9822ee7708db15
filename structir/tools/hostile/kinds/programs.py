"""Broken program text is parsed, or rejected with one diagnostic; parsed text survives printing."""

from __future__ import annotations

import re
import warnings
from random import Random

from structir.errors import DiagnosticError
from structir.ir.structural import structural_equal
from structir.lazy import lazy_module
from structir.tools.comparison import Disagreement
from structir.tools.fuzzing import random_program

structir = lazy_module("structir")

PROGRAMS = 40  # random programs that are broken
WORD = re.compile(r"(\W)")
PIECES = (
    *("(", ")", "[", "]", "{", "}", ",", ":", "=", "*", "**", ".", "@", "#", "\t", "\\", "'''"),
    *("1e400", "10**9999", "-1", "0", "1 << 900", "None", "...", "lambda: 0", "f'{x}'", "\ud800"),
    *("yield", "await x", "del x", "import os", "__class__", "x.__dict__", "eval('1')", "~x"),
    *("R.Tensor((10**20,))", "R.const(1e400, 'float16')", "R.shape([-1])", "T.int64(10**30)"),
)


def sample(random: Random) -> str:
    """Generates a program with a few words replaced, removed, repeated or cut off."""
    words = WORD.split(random_program(random.randrange(PROGRAMS), 4).script())
    for _ in range(random.choice([1, 1, 2, 4])):
        index, chance = random.randrange(len(words)), random.random()
        if chance < 0.4:
            words[index] = random.choice(words)
        elif chance < 0.75:
            words[index] = random.choice(PIECES)
        elif chance < 0.9:
            del words[index : index + random.randrange(20)]
        else:
            del words[index:]
        words = words or [""]
    return "".join(words)


def check(text: str) -> None:
    """Parses the text, and what is printed of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = structir.parse(text)
        except DiagnosticError as error:
            str(error)
            return
        again = structir.parse(module.script())
    if not structural_equal(module, again):
        raise Disagreement(f"printing changes the program:\n{module.script()}\n{again.script()}")
