"""The page of the command line: `python -m structir.tools.command_page docs/command-line.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from structir.tools.cli import build
from structir.tools.terminal import EXIT_CODES

HEADER = """# The command line

`structir --help` lists the commands, `structir COMMAND --help` teaches one by examples. This page
is made from what they say.

A FILE is the text of a program, a `.sir` file, a model that ends in `.onnx` or `.pt2`, or a dash
for the standard input. Results go to the standard output; errors, warnings, progress and times to
the standard error.

- **Colours** follow the terminal. `NO_COLOR=1` turns them off; `FORCE_COLOR=1` turns them on where
  there is no terminal.
- **Completion**: `structir --install-completion` teaches bash, zsh, fish or PowerShell the
  commands, their options, and the names of passes in a pipeline; `--show-completion` shows what
  would be added.
- **Scripts**: with `--json` a command writes one JSON object to the standard output. Where a
  program is wrong, it is an object with `errors`: each has `severity`, `message`, the `file`,
  `line`, `column` and `end` where it stands, the `op`, `notes` with places of their own, and a
  `hint`. The exit code is the same with and without. A number that JSON does not know is null.

## Exit codes

| code | what it tells |
|---|---|
"""


def page() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(build())
    codes = "".join(f"| {code:d} | {told} |\n" for code, told in EXIT_CODES.items())
    parts = [HEADER + codes, *[entry(name, group.commands[name]) for name in group.commands]]
    return "\n".join(parts).rstrip() + "\n"


def entry(name: str, command: Any) -> str:
    """What the page says of one command: its help, its examples, its options."""
    text, _, examples = command.help.partition("[bold]Examples[/bold]")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    rows = "\n".join(_rows(command))
    shown = "\n".join(lines)
    return (
        f"## `structir {name}`\n\n{_plain(text)}\n\n```text\n{shown}\n```\n\n"
        f"| | |\n|---|---|\n{rows}\n"
    )


def _rows(command: Any) -> Iterator[str]:
    for param in command.params:
        names = [name for name in (*param.opts, *param.secondary_opts) if name.startswith("-")]
        shown = (
            ", ".join(f"`{name}`" for name in names) or f"`{param.metavar or param.name.upper()}`"
        )
        told = _plain(getattr(param, "help", None) or "").replace("|", "\\|")
        yield f"| {shown} | {told} |"


def _plain(text: str) -> str:
    return re.sub(r"\[/?bold\]", "**", text).strip()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
