"""Generates the page of commands: `python -m structir.tools.command_page docs/command-line.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from structir.tools.cli import command_names, load_command
from structir.tools.exit_codes import EXIT_CODES

HEADER = """# The command line

This page lists the commands of `structir`, with their options and examples. Use it to look up an
option; `structir --help` and `structir COMMAND --help` print the same text. The
[tour](tour.md#on-the-command-line) has an example session.

A FILE is the source of a program, a `.sir` file, a model (`.onnx` or `.pt2`), or a dash for the
standard input. Results go to the standard output. Errors, warnings, progress and times go to the
standard error.

- **Colours** follow the terminal. `NO_COLOR=1` disables them; `FORCE_COLOR=1` enables them
  without a terminal.
- **Completion**: `structir --install-completion` adds completion to bash, zsh, fish or PowerShell:
  commands, options, passes of a pipeline, and functions and symbolic dims of the FILE.
  `--show-completion` prints the script instead of installing it.
- **Sizes**: `--sizes batch=4,seq=16` sets symbolic dims, in every command that needs sizes.
- **Scripts**: with `--json` a command prints one JSON object to the standard output. For an
  invalid program it has `errors`: each has `severity`, `message`, a location (`file`, `line`,
  `column`, `end`), the `op`, `notes` with locations, and a `hint`. The exit code is the same with
  and without `--json`. NaN and infinity become null.

## Exit codes

| code | meaning |
|---|---|
"""


def page() -> str:
    """Returns the whole page."""
    codes = "".join(f"| {code:d} | {text} |\n" for code, text in EXIT_CODES.items())
    parts = [HEADER + codes, *[entry(name, load_command(name)) for name in command_names()]]
    return "\n".join(parts).rstrip() + "\n"


def entry(name: str, command: Any) -> str:
    """Returns the section of one command: its help, examples and options."""
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
        text = _plain(getattr(param, "help", None) or "").replace("|", "\\|")
        yield f"| {shown} | {text} |"


def _plain(text: str) -> str:
    return re.sub(r"\[/?bold\]", "**", text).strip()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
