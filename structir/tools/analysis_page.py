"""Generates the page of analyses: `python -m structir.tools.analysis_page docs/analyses.md`."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from structir.analysis.declaration import Analysis, all_analyses

HEADER = '''# Every analysis

This page lists every analysis: a function that computes facts about a program and does not change
it. Use it to find what a pass can ask for. `passes.base.analysis` memoizes one of a module while
passes preserve it.

```python
import structir
from structir.analysis import all_analyses, free_vars

module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    return R.exp(x)
""")
print([v.name for v in free_vars(module["main"].body)])
print("free_vars" in [each.name for each in all_analyses()])
```

```text
['x']
True
```

`@analysis` above a function, from `structir.analysis`, declares one; nothing else has to be edited.
'''


def page() -> str:
    """Returns the whole page, for the analyses of this package."""
    analyses = [each for each in all_analyses() if each.module.startswith("structir.")]
    sections = [_section(name, list(own)) for name, own in groupby(analyses, lambda a: a.module)]
    return "\n".join([HEADER, *sections]).rstrip() + "\n"


def _section(module: str, analyses: list[Analysis]) -> str:
    lines = [f"- `{each.name}{each.signature}`: {each.summary}" for each in analyses]
    return "\n".join([f"## {module}", "", *lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
