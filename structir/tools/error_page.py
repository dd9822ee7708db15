"""Generates the page of errors: `python -m structir.tools.error_page docs/errors.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from structir import errors
from structir.tools.explanations import Explanation, explanations

HEADER = '''# Errors

This page has an entry for each error code: the cause, a wrong program, its message, the fix, and a
corrected program. Use it when a message shows a code; `structir explain CODE` prints its entry.

An error in a program is a `DiagnosticError`. Its message has a code, the op, the expected and the
actual value, a caret with a label at each location involved, and a help line with an edit.
Independent errors are reported together, in `error.diagnostics`:

```python
import structir

try:
    structir.parse("""
@R.function
def main(x: R.Tensor((3, 4), "float32")):
    return R.matmul(x, x)
""")
except structir.errors.DiagnosticError as error:
    print(error.code, error.diagnostics[0].message)
```

```text
E0201 contraction dimension mismatch: lhs has k = 4 (axis -1), rhs has k = 3 (axis -2)
```

Tracebacks in scripts and notebooks contain user frames only: frames of StructIR are omitted from
diagnostics. `STRUCTIR_DEBUG=1` in the environment shows all frames.

On the command line, an invalid program ends with exit code 1, one that fails at run time with 3,
one that a pass changed with 4.

## Exception classes

'''

CHAPTERS = {
    "E00": "General",
    "E01": "Parser",
    "E02": "StructInfo",
    "E03": "Ops",
    "E04": "Solver",
    "E05": "Well-formedness",
    "E06": "Passes and rewrites",
    "E07": "Run time",
    "E08": "Importers",
    "E09": "Projections and sharding",
    "E10": "Compiler and command line",
    "E11": "Traced functions and schedules",
}


def page() -> str:
    """Returns the whole page."""
    parts = [HEADER + _table()]
    for prefix, title in CHAPTERS.items():
        entries = [e for code, e in explanations().items() if code.startswith(prefix)]
        parts += [f"## {title}\n"] * bool(entries) + [_section(entry) for entry in entries]
    return "\n".join(parts)


def _table() -> str:
    lines = ["| class | code | meaning |", "|---|---|---|"]
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.StructIRError):
            doc = (kind.__doc__ or "").partition("\n")[0]
            lines.append(f"| `{kind.__name__}` | {kind.code} | {doc} |")
    doc = errors.DiagnosticWarning.__doc__ or ""
    return "\n".join([*lines, f"| `DiagnosticWarning` | E0004 | {doc} |", ""])


def _section(entry: Explanation) -> str:
    # with the space, wrong programs are not run as examples of the page
    text = entry.text.replace("```python\n", "``` python\n").replace("```text\n", "``` text\n")
    return f"### {entry.code}: {entry.title}\n\n{text}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
