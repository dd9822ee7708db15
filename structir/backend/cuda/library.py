"""Functions of NVIDIA's math library in LLVM's form, each with what it needs."""

from __future__ import annotations

import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from cuda.pathfinder import find_bitcode_lib

CALLED = re.compile(r'@"?(__nv_\w+)')
NAMED = re.compile(r"@([\w.]+)")
QUESTION = re.compile(r"call i32 @__nvvm_reflect\(ptr @([\w.]+)\)")
TEXT = re.compile(r'c"(\w+)\\00"')
LEFT_OUT = re.compile(r"^; .*\n| #\d+\b|, !\S+ !\d+", re.MULTILINE)
PUBLIC = re.compile(r"^define (?!internal)", re.MULTILINE)
# What the library asks its compiler: roots and quotients are rounded right, tiny numbers are kept.
ANSWERS = {"__CUDA_PREC_SQRT": 1, "__CUDA_PREC_DIV": 1}


def functions_called(text: str, capability: tuple[int, int]) -> str:
    """The functions of the library that a module calls, with all that they need, as a module."""
    names = frozenset(CALLED.findall(text))
    return _module(names, 100 * capability[0] + 10 * capability[1]) if names else ""


@cache
def _module(names: frozenset[str], architecture: int) -> str:
    library, wanted = _library(), sorted(names)
    for name in wanted:
        wanted += [n for n in library.needed(name) if n not in wanted]
    texts = [library.text(name, architecture) for name in wanted]
    return "\n".join([*library.structures, *texts])


@cache
def _library() -> _Library:
    return _Library(llvm.parse_bitcode(Path(find_bitcode_lib("device")).read_bytes()))


class _Library:
    """The library, read once. A function's text is cheap to have, all of them are not."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.tables = {table.name: str(table) for table in module.global_variables}
        self.structures = [str(kind) for kind in module.struct_types if kind.name]
        self.texts: dict[str, str] = {}

    def plain(self, name: str) -> str:
        """What the library says of a name."""
        if name not in self.texts:
            found = self.tables.get(name) or str(self.module.get_function(name))
            self.texts[name] = LEFT_OUT.sub("", found)
        return self.texts[name]

    @cached_property
    def questions(self) -> dict[str, str]:
        """What may be asked, by the names of the texts that say it."""
        found = {name: TEXT.search(text) for name, text in self.tables.items()}
        return {name: text[1] for name, text in found.items() if text}

    def needed(self, name: str) -> list[str]:
        """The names that a function calls or reads."""
        found = [n for n in NAMED.findall(self.plain(name)) if n not in self.questions]
        return [n for n in dict.fromkeys(found) if n not in (name, "__nvvm_reflect")]

    def text(self, name: str, architecture: int) -> str:
        """The text of a function for an architecture; it goes where nobody calls it any more."""
        answers = {**ANSWERS, "__CUDA_ARCH": architecture}

        def answer(found: re.Match[str]) -> str:
            return f"add i32 0, {answers.get(self.questions[found[1]], 0)}"

        text = QUESTION.sub(answer, self.plain(name))
        return PUBLIC.sub("define linkonce_odr ", text)
