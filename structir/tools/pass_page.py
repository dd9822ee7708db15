"""Generates the page of all passes: `python -m structir.tools.pass_page docs/passes.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from structir.passes import all_passes
from structir.passes.base import Pass

HEADER = '''# Every pass

This page lists every pass: name and aliases, description, options with their defaults. Use it to
write a pipeline, on the command line (`structir opt FILE -p 'inline,cse,dce{entries=main}'`) or in
Python:

```python
import structir
from structir import passes

module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    y = R.exp(x)
    z = R.exp(x)
    return R.add(y, z)
""")
print(len(passes.pipeline("cse,dce")(module)["main"].bindings()), "bindings")
```

```text
2 bindings
```

A pass is idempotent and preserves results, except where stated. Rewrites are passes, too; they are
at the end of the page. [write-a-pass.md](write-a-pass.md) adds a pass.
'''


def page() -> str:
    """Returns the whole page, for the passes of this package."""
    package_passes = [each for each in all_passes() if _module_of(each).startswith("structir.")]
    rewrites = [each for each in package_passes if ".rewrites." in _module_of(each)]
    files = [each for each in package_passes if each not in rewrites]
    parts = [HEADER, *map(entry, files), "## Rewrites\n", *map(_line, rewrites)]
    return "\n".join(parts).rstrip() + "\n"


def entry(each: Pass) -> str:
    """Returns the section of one pass."""
    names = ", ".join(f"`{name}`" for name in (each.name, *each.aliases))
    options = [f"- `{p.name}={p.default!r}`" for p in each.parameters()]
    properties = [f"Not idempotent: {each.idempotent}."] if each.idempotent is not True else []
    properties += [] if each.comparable else ["This pass may change results."]
    properties += [f"Requires {', '.join(each.requires)}."] if each.requires else []
    text = "\n\n".join(filter(None, (each.__doc__, "\n".join(options), " ".join(properties))))
    return f"## {names}\n\n{text}\n"


def _line(each: Pass) -> str:
    return f"- `{each.name}`: {each.__doc__.partition(chr(10))[0]}"


def _module_of(each: Pass) -> str:
    return each.transform.__module__


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
