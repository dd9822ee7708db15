"""Generates the list of primitives: `python -m structir.tools.schedule_page docs/schedule.md`.

What is above the list is written by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from structir.ir.kernel import Kernel
from structir.loops.primitive import Example, Primitive
from structir.loops.primitives import find_primitive, primitive_names
from structir.printer.parser.parser import parse
from structir.printer.syntax import HEADER

MARK = "## Every primitive\n"


def page(old: str) -> str:
    """Returns the page with the list of all primitives and the results of their examples."""
    head, mark, _ = old.partition(MARK)
    return "\n".join([head + mark, *[entry(find_primitive(name)) for name in primitive_names()]])


def entry(primitive: Primitive) -> str:
    """Returns the section of one primitive: its description, and a kernel before and after."""
    example = primitive.example
    parameters = ", ".join(["kernel", *map(_parameter, primitive.parameters.values())])
    arguments = [*map(_literal, example.arguments)]
    arguments += [f"{name}={_literal(value)}" for name, value in example.keywords.items()]
    call = f"{primitive.name}({', '.join(['kernel', *arguments])})"
    before = kernel_of(example)
    after = primitive(before, *example.arguments, **example.keywords)
    mark = "\nMay change results by rounding.\n" if primitive.rounds else ""
    notice = f"\n{example.notice}\n" if example.notice else ""
    return f"""### `{primitive.name}({parameters})`

{primitive.summary}
{mark}
```python
from structir.loops.primitives import {primitive.name}

kernel = structir.parse(\"\"\"
{before.script().strip()}
\"\"\")["kernel"]
print({call})
```

```text
{after}
```
{notice}"""


def kernel_of(example: Example) -> Kernel:
    """Returns the kernel of an example."""
    lines = "".join(f"    {line}\n" for line in example.body.strip("\n").splitlines())
    text = f"{HEADER}\n@I.kernel\ndef kernel({example.parameters}):\n{lines}"
    return parse(text).functions["kernel"]  # type: ignore[return-value]


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _parameter(parameter: object) -> str:
    name, _, rest = str(parameter).partition(":")
    default = rest.partition("=")[2].strip()
    return f"{name}={default}" if default else name


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
