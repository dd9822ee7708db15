"""Pipelines as text: `fold_constant,cse,fuse_ops{max_depth=8}`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from structir.errors import Diagnostic, ParseError, Source, Span, StructIRError
from structir.passes import find_pass
from structir.passes.base import Pass, Sequential

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
LISTED = rf"\[(?:[^\]'\"]|{QUOTED})*\]"
STEP = re.compile(
    rf"\s*(?P<name>\w+)\s*(?:\{{(?P<options>(?:[^{{}}'\"]|{QUOTED})*)\}})?\s*(?P<end>,|$)"
)
OPTION = re.compile(rf"\s*(?P<name>\w+)\s*=\s*(?P<value>{LISTED}|{QUOTED}|[^\s,'\"]+)\s*,?")


def pipeline(text: str) -> Pass:
    """The pass that a text describes: names or short names of passes with their options in braces.

    A value is a Python literal; a word is a text, and true and false may be written small. Quotes
    hold texts with spaces, commas or braces: `specialise{sizes="n=4 m=8"}`. What `str` says of a
    pass is read back as the same.
    """
    if not isinstance(text, str):
        raise StructIRError(f"a pipeline is a text, such as 'cse,dce', not {text!r}")
    steps = list(steps_of(text))
    return steps[0] if len(steps) == 1 else Sequential(steps, "pipeline")


def steps_of(text: str) -> Iterator[Pass]:
    """The passes of a pipeline, one after the other."""
    place = 0
    while place < len(text):
        step = STEP.match(text, place)
        if step is None:
            raise _wrong(text, place, len(text), "a pass is expected here, as in cse or cse{a=1}")
        found = _made(text, step)
        place = step.end()
        yield found
    if not text.strip() or text.rstrip().endswith(","):
        raise _wrong(text, len(text), len(text), "a pass is expected here, as in cse,dce")


def _made(text: str, step: re.Match[str]) -> Pass:
    try:
        found: Pass = find_pass(step["name"])
    except StructIRError as error:
        raise _wrong(text, *step.span("name"), error.message, error.code) from None
    if step["options"] is None:
        return found
    place, end = step.span("options")
    while text[place:end].strip():
        option = OPTION.match(text, place, end)
        if option is None:
            raise _wrong(text, place, end, "an option is expected here, as in max_depth=8")
        try:
            found = found.with_options(**{option["name"]: _value(option["value"])})
        except StructIRError as error:
            raise _wrong(text, *option.span("name"), error.message, error.code) from None
        place = option.end()
    return found


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _wrong(text: str, start: int, end: int, message: str, code: str = "") -> ParseError:
    source = Source("pipeline", text)
    return ParseError(
        Diagnostic(message, Span(source, 1, start, 1, max(end, start + 1)), code=code)
    )
