"""Parses pipelines: `fold_constant,cse,fuse_ops{max_depth=8}`."""

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
    """Returns the pass that a pipeline describes: names or aliases of passes, with options in
    braces.

    A value is a Python literal; an identifier is a string; true and false may be lower case.
    Strings with spaces, commas or braces are quoted: `specialise{sizes="n=4 m=8"}`. `str` of a pass
    parses back to an equal pass. Raises ParseError.
    """
    if not isinstance(text, str):
        raise StructIRError(f"pipeline: expected a string such as 'cse,dce', found {text!r}")
    steps = list(steps_of(text))
    return steps[0] if len(steps) == 1 else Sequential(steps, "pipeline")


def steps_of(text: str) -> Iterator[Pass]:
    """Yields the passes of a pipeline in order."""
    start = 0
    while start < len(text):
        step = STEP.match(text, start)
        if step is None:
            raise _error(text, start, len(text), "expected a pass such as `cse` or `cse{a=1}`")
        parsed = _parse_pass(text, step)
        start = step.end()
        yield parsed
    if not text.strip() or text.rstrip().endswith(","):
        raise _error(text, len(text), len(text), "expected a pass such as `cse`")


def _parse_pass(text: str, step: re.Match[str]) -> Pass:
    try:
        result: Pass = find_pass(step["name"])
    except StructIRError as error:
        raise _error(text, *step.span("name"), error.message, error.code) from None
    if step["options"] is None:
        return result
    start, end = step.span("options")
    while text[start:end].strip():
        option = OPTION.match(text, start, end)
        if option is None:
            raise _error(text, start, end, "expected an option such as `max_depth=8`")
        try:
            result = result.with_options(**{option["name"]: _value(option["value"])})
        except StructIRError as error:
            raise _error(text, *option.span("name"), error.message, error.code) from None
        start = option.end()
    return result


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _error(text: str, start: int, end: int, message: str, code: str = "E0612") -> ParseError:
    source = Source("pipeline", text)
    return ParseError(
        Diagnostic(message, Span(source, 1, start, 1, max(end, start + 1)), code=code)
    )
