"""Functions of NVIDIA's math library (libdevice) in LLVM IR, each with its dependencies."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from cuda.pathfinder import find_bitcode_lib

from structir.system.locks import cached_property

CALLED = re.compile(r'@"?(__nv_\w+)')
NAMED = re.compile(r"@([\w.]+)")
QUESTION = re.compile(r"call i32 @__nvvm_reflect\(ptr @([\w.]+)\)")
TEXT = re.compile(r'c"(\w+)\\00"')
LEFT_OUT = re.compile(r"^; .*\n| #\d+\b|, !\S+ !\d+", re.MULTILINE)
PUBLIC = re.compile(r"^define (?!internal)", re.MULTILINE)
# libdevice's options: correctly rounded square roots and quotients, no flush of subnormals to zero
ANSWERS = {"__CUDA_PREC_SQRT": 1, "__CUDA_PREC_DIV": 1}


def functions_called(text: str, capability: tuple[int, int]) -> str:
    """Returns a module with the library functions that a module calls, and their dependencies."""
    names = frozenset(CALLED.findall(text))
    return _module(names, 100 * capability[0] + 10 * capability[1]) if names else ""


@cache
def _module(names: frozenset[str], architecture: int) -> str:
    library, names_needed = _library(), sorted(names)
    for name in names_needed:
        names_needed += [n for n in library.needed(name) if n not in names_needed]
    texts = [library.text(name, architecture) for name in names_needed]
    return "\n".join([*library.structures, *texts])


@cache
def _library() -> _Library:
    return _Library(llvm.parse_bitcode(Path(find_bitcode_lib("device")).read_bytes()))


class _Library:
    """The library, parsed once. Functions are converted to text one by one, on demand."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.tables = {table.name: str(table) for table in module.global_variables}
        self.structures = [str(kind) for kind in module.struct_types if kind.name]
        self.texts: dict[str, str] = {}

    def plain(self, name: str) -> str:
        """Returns the library's definition of a name."""
        if name not in self.texts:
            text = self.tables.get(name) or str(self.module.get_function(name))
            self.texts[name] = LEFT_OUT.sub("", text)
        return self.texts[name]

    @cached_property
    def questions(self) -> dict[str, str]:
        """Returns the values of the library's options, by the names of their strings."""
        texts = {name: TEXT.search(text) for name, text in self.tables.items()}
        return {name: text[1] for name, text in texts.items() if text}

    def needed(self, name: str) -> list[str]:
        """Returns the names that a function calls or reads."""
        callees = [n for n in NAMED.findall(self.plain(name)) if n not in self.questions]
        return [n for n in dict.fromkeys(callees) if n not in (name, "__nvvm_reflect")]

    def text(self, name: str, architecture: int) -> str:
        """Returns the IR of a function for an architecture, with internal linkage."""
        answers = {**ANSWERS, "__CUDA_ARCH": architecture}

        def answer(match: re.Match[str]) -> str:
            return f"add i32 0, {answers.get(self.questions[match[1]], 0)}"

        text = QUESTION.sub(answer, self.plain(name))
        return PUBLIC.sub("define linkonce_odr ", text)
