"""Kernel deduplication: kernels of one program that differ only in numbers share one source, which
reads these from its table.

Layers of a model often differ only in scales and widths. Machine code generation dominates compile
time, and reading a few numbers costs a kernel nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import attrs
import numpy as np

from structir.backend.loops.as_scalar import LEAST
from structir.backend.loops.writer import INDENT, KernelText

HEAD = "def kernel(a, lo, hi):\n"
NUMBER = re.compile(r"float32\((-?[\d.]+(?:e[-+]\d+)?)\)|(?<![\w.\[])(?<!e[-+])(\d+)(?![\w.])")
EVERY_ELEMENT = INDENT * 3  # the indentation of lines that run for each element
AROUND = re.compile(r"\):\n +for ")  # follows the last number of a loop around a loop
# LLVM makes nothing of knowing the numbers in tables of offsets, which are filled once for a call,
# in the ends of the blocks of a part, and those that functions of the library are called with.
PLAIN = re.compile(
    r"^ *at = 0\n(?: .*\n)*? *at \+= 1\n|^.*\b(?:multiply_\w+|pack_panels)\(\(.*\n"
    r"|^ *for t in range\(.*\n|^ *(?:first|last|block|g|i0|i1|j0|j1) = .*\n",
    re.MULTILINE,
)
DIVIDED = (
    "/ ",
    "% ",
)  # what stands before a divisor: LLVM has no vectors for one that it knows not


@attrs.frozen
class _Cut:
    """The source of a kernel without the numbers that its table can hold."""

    rest: tuple[str, ...]
    numbers: tuple[str, ...]  # between the parts of the rest, as written


def shared(kernels: Sequence[KernelText]) -> tuple[KernelText, ...]:
    """Returns the kernels, with one source for those that differ only in numbers."""
    cuts = {text: _cut(text) for text in dict.fromkeys(k.text for k in kernels if _is_plain(k))}
    alike = defaultdict[tuple[str, ...], list[tuple[str, ...]]](list)
    for cut in cuts.values():
        alike[cut.rest].append(cut.numbers)
    found = [(kernel, cuts.get(kernel.text)) for kernel in kernels]
    return tuple([k if cut is None else _sharing(k, cut, alike[cut.rest]) for k, cut in found])


def _is_plain(kernel: KernelText) -> bool:
    return kernel.text.startswith(HEAD) and not (kernel.sites or kernel.names or kernel.function)


def _cut(text: str) -> _Cut:
    rest, numbers, start = list[str](), list[str](), 0
    plain = {k for found in PLAIN.finditer(text) for k in range(*found.span())}
    for found in NUMBER.finditer(text):
        if found[2] is not None and found.start() not in plain and _shapes_code(text, found):
            continue
        rest.append(text[start : found.start()])
        numbers.append(found[0])
        start = found.end()
    return _Cut((*rest, text[start:]), tuple(numbers))


def _shapes_code(text: str, number: re.Match[str]) -> bool:
    """Whether LLVM optimises for the value of an integer: small ones, unless they are the iteration
    count of a whole loop, and divisors."""
    if int(number[0]) < LEAST:
        return AROUND.match(text, number.end()) is None
    line = text[text.rfind("\n", 0, number.start()) + 1 : number.start()]
    return line.endswith(DIVIDED) and line.startswith(EVERY_ELEMENT)


def _sharing(kernel: KernelText, cut: _Cut, alike: Sequence[tuple[str, ...]]) -> KernelText:
    """Returns a kernel over the common source of all similar ones; numbers that they share stay in
    it."""
    columns = list(zip(*alike, strict=True))
    given = [column for column in dict.fromkeys(columns) if len(set(column)) > 1]
    if not given:
        return kernel
    sizes, head = list(kernel.sizes), [HEAD]
    names = {}
    for column in sorted(given, key=lambda column: _is_single(column[0])):
        names[column] = name = f"n{len(sizes)}"
        word = f"a[{len(kernel.pointers) + len(sizes)}]"
        read = f"single_of_bits(int32({word}))" if _is_single(column[0]) else word
        head.append(f"{INDENT}{name} = {read}\n")
        sizes.append(_word(cut.numbers[columns.index(column)]))
    written = [names.get(column, column[0]) for column in columns]
    parts = [part for both in zip(cut.rest, [*written, ""], strict=True) for part in both]
    text = "".join([*head, "".join(parts).removeprefix(HEAD)])
    singles = sum(map(_is_single, [column[0] for column in given]))
    return attrs.evolve(kernel, text=text, sizes=tuple(sizes), singles=singles)


def _is_single(number: str) -> bool:
    return not number.isdecimal()


def _word(number: str) -> int:
    """Returns a number as a word of a table: an integer, or the bits of a float32."""
    if not _is_single(number):
        return int(number)
    match = NUMBER.fullmatch(number)
    assert match is not None
    return int(np.float32(match[1]).view(np.int32))
