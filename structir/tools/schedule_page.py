"""Generates the page of schedules: `python -m structir.tools.schedule_page docs/schedule.md`."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.schedule.primitive import Example, Primitive
from structir.printer.parser.parser import parse

MARK = "## Primitives\n"


def page(text: str) -> str:
    """Returns the page with the sections of all primitives; the text before them is kept."""
    primitives = [find_primitive(name) for name in primitive_names()]
    own = [each for each in primitives if each.transform.__module__.startswith("structir.")]
    entries = [entry(each) for each in own]
    return "\n".join([text.partition(MARK)[0] + MARK, *entries]).rstrip() + "\n"


def entry(primitive: Primitive) -> str:
    """Returns the section of a primitive: description, and each example before and after."""
    title = f"### `{primitive.name}{primitive.parameter_text()}`"
    unless = f", unless `{primitive.exact_option}`" if primitive.exact_option else ""
    rounding = [f"May change rounding{unless}."] if primitive.changes_rounding else []
    parts = [
        title,
        primitive.__doc__,
        *rounding,
        *[_shown(primitive, e) for e in primitive.examples],
    ]
    return "\n\n".join(parts) + "\n"


def _shown(primitive: Primitive, example: Example) -> str:
    source = textwrap.dedent(example.source).strip()
    module: IRModule = parse(source)
    (kernel,) = [f for f in module.functions.values() if isinstance(f, Kernel)]
    after = primitive(kernel, *example.args, **example.options)
    options = [f"{name}={_literal(value)}" for name, value in example.options.items()]
    arguments = ", ".join([*map(_literal, example.args), *options])
    use = f"print(structir.schedule({kernel.name}).kernel().{primitive.name}({arguments}))"
    return f"```python\n{source}\n\n\n{use}\n```\n\n```text\n{after.script()}```"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
