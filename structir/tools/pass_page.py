"""The page of all passes: `python -m structir.tools.pass_page docs/passes.md` writes it anew."""

from __future__ import annotations

import sys
from pathlib import Path

from structir.passes import all_passes
from structir.passes.base import Pass

HEADER = """# Every pass

What `structir opt FILE -p PIPELINE` can run, told by the passes themselves: short names after the
name, options with their defaults, and what the pass does. A pass is idempotent, and gives the same
results on the same inputs, unless it says otherwise. Rewrites are passes too; they stand at the
end. [write-a-pass.md](write-a-pass.md) adds one.
"""


def page() -> str:
    """The whole page; only what the package itself holds."""
    ours = [each for each in all_passes() if _home(each).startswith("structir.")]
    rewrites = [each for each in ours if ".rewrites." in _home(each)]
    files = [each for each in ours if each not in rewrites]
    parts = [HEADER, *map(entry, files), "## Rewrites\n", *map(_line, rewrites)]
    return "\n".join(parts).rstrip() + "\n"


def entry(each: Pass) -> str:
    """What the page says of one pass."""
    names = ", ".join(f"`{name}`" for name in (each.name, *each.aliases))
    options = [f"- `{p.name}={p.default!r}`" for p in each.parameters()]
    facts = [f"Not idempotent: {each.idempotent}."] if each.idempotent is not True else []
    facts += [] if each.comparable else ["Results may differ from those before."]
    facts += [f"Needs {', '.join(each.requires)} first."] if each.requires else []
    text = "\n\n".join(filter(None, (each.__doc__, "\n".join(options), " ".join(facts))))
    return f"## {names}\n\n{text}\n"


def _line(each: Pass) -> str:
    return f"- `{each.name}`: {each.__doc__.partition(chr(10))[0]}"


def _home(each: Pass) -> str:
    return each.transform.__module__


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
