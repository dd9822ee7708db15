"""Measures how many wrong edits of `wrong_edits*.txt` `VerifyResults()` catches with its defaults.

The files have programs as users write them, each with wrong rewrites as pairs of an old and a new
fragment. `@{n == m}` compares two sizes during the run. For each edit there is an input in the
domain of the program whose results differ. The programs were written in ten sets, and each was
measured once before `VerifyResults` was changed for it. Programs of the last ones also have edits
that change no result, of which none may be rejected.

Run `python -m tests.passes.manager.wrong_edits`, or with names of programs. It prints every miss,
and the passes that are rejected.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

import structir
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import Pass, PassContext, VerifyResults, all_passes

SOURCES = sorted(Path(__file__).parent.glob("wrong_edits*.txt"))
NOTHING = "E0513"  # no input is accepted
COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    ">=": "greater_equal",
    "<=": "less_equal",
    ">": "greater",
    "<": "less",
}


@attrs.define
class Program:
    """A program with its wrong edits: a name for each, and pairs of fragments."""

    params: str = ""
    body: list[str] = attrs.Factory(list)
    also: list[str] = attrs.Factory(list)  # other functions
    wrong: dict[str, list[tuple[str, str]]] = attrs.Factory(dict)
    equal: dict[str, list[tuple[str, str]]] = attrs.Factory(dict)  # that change no result

    def module(self, edits: list[tuple[str, str]] | None = None) -> IRModule:
        """Returns the program, or an edited one."""
        body, also = "\n".join(self.body), "\n".join(self.also)
        for old, new in edits or []:
            assert old in body or old in also, old
            if old in body:
                body = body.replace(old, new)
            else:
                also = also.replace(old, new)
        dims = dict.fromkeys(re.findall(r'"([a-z])"', self.params))
        head = "".join(f"    {dim} = T.int64()\n" for dim in dims)
        text = f"{also}\n@R.function\ndef main({self.params}):\n{head}{body}\n"
        return structir.parse(re.sub(r"@\{([^}]*)\}", _comparison, text))


def _comparison(condition: re.Match[str]) -> str:
    lhs, op, rhs = re.split(r"\s*(==|!=|>=|<=|>|<)\s*", condition.group(1))
    sizes = [f"R.shape_to_tensor(R.shape([{size}]))" for size in (lhs, rhs)]
    return f"R.{COMPARISONS[op]}({', '.join(sizes)})"


def programs() -> dict[str, Program]:
    """Returns the programs of the file by name."""
    by_name: dict[str, Program] = {}
    program, lines, pairs = Program(), list[str](), list[tuple[str, str]]()
    last = ""
    for line in "\n".join(source.read_text() for source in SOURCES).splitlines():
        word, _, rest = line.partition(" ")
        if word == "program":
            program = by_name[rest] = Program()
            lines = program.body
        elif word == "params":
            program.params = rest
        elif word == "also":
            lines = program.also
        elif word == "wrong":
            pairs = program.wrong[rest] = []
        elif word == "equal":
            pairs = program.equal[rest] = []
        elif word == "-":
            if last == "-":
                pairs[-1] = f"{pairs[-1][0]}\n{rest}", ""
            else:
                pairs.append((rest, ""))
        elif word == "+":
            old, new = pairs[-1]
            pairs[-1] = old, f"{new}\n{rest}" if new else rest
        elif line:
            lines.append(line[4:] if lines is program.also else line)
        last = word
    return by_name


def is_caught(before: IRModule, after: IRModule) -> bool:
    """Whether `VerifyResults()` rejects a pass that returns another program, after a comparison."""
    try:
        with PassContext([VerifyResults()]):
            Pass("edit", lambda _: after)(before)
    except PassError as error:
        return all(diagnostic.code != NOTHING for diagnostic in error.diagnostics)
    return False


def false_alarms(module: IRModule) -> Iterator[str]:
    """Yields the shipped passes that `VerifyResults()` rejects, with the errors."""
    for each in all_passes():
        if each.comparable:
            try:
                with PassContext([VerifyResults()]):
                    each(module)
            except PassError as error:
                yield f"{each.name}: {error}"


def main(names: list[str]) -> None:
    """Prints the wrong edits that are missed, and the passes that are rejected."""
    total = caught = 0
    for name, program in programs().items():
        if names and name not in names:
            continue
        before = program.module()
        for kind, edits in program.wrong.items():
            hit = is_caught(before, program.module(edits))
            total, caught = total + 1, caught + hit
            if not hit:
                print(f"MISSED  {name}: {kind}", flush=True)
        for kind, edits in program.equal.items():
            if is_caught(before, program.module(edits)):
                print(f"ALARM  {name}: {kind}", flush=True)
        for alarm in false_alarms(before):
            print(f"ALARM  {name}: {alarm}", flush=True)
    print(f"{caught} of {total} ({caught / max(total, 1):.1%})")


if __name__ == "__main__":
    main(sys.argv[1:])
