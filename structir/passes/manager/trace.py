"""A trace of a run of passes, for a machine as JSON or for a reader as one HTML page."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import attrs

from structir.passes.base import Instrument, Step
from structir.passes.manager.printing import difference

STYLE = """body{font:15px sans-serif;margin:2em auto;max-width:70em}
pre{background:#f6f8fa;padding:1em;overflow:auto}.add{color:#116329;background:#dafbe1}.cut{color:#82071e;background:#ffebe9}
summary{cursor:pointer}.same{color:#777}"""


@attrs.define(eq=False)
class Trace(Instrument):
    """Remembers every run of a pass, with what it changed."""

    steps: list[Step] = attrs.field(factory=list, init=False)

    def begin(self, step: Step) -> None:
        self.steps.append(step)

    def records(self) -> list[dict[str, Any]]:
        """Each run as plain data: pass, options, depth, start and length in seconds, difference."""
        first = self.steps[0].start if self.steps else 0.0
        return [
            {
                "pass": step.applied.name,
                "options": {name: str(value) for name, value in step.applied.options.items()},
                "depth": step.depth,
                "start": step.start - first,
                "seconds": step.seconds,
                "changed": step.changed,
                "notes": step.notes,
                "difference": difference(step) if step.changed else "",
            }
            for step in self.steps
        ]

    def page(self) -> str:
        """One HTML page that needs nothing else: the passes, their times, and their differences."""
        parts = [_entry(record) for record in self.records()]
        head = f"<meta charset=utf-8><title>passes</title><style>{STYLE}</style>"
        return f"<!doctype html><html><head>{head}</head><body>{''.join(parts)}</body></html>\n"

    def write(self, file: Path) -> None:
        """Write the trace: a page if the file's name ends in .html, else JSON."""
        if file.suffix == ".html":
            file.write_text(self.page(), encoding="utf-8")
        else:
            file.write_text(json.dumps(self.records(), indent=1) + "\n", encoding="utf-8")


def _entry(record: dict[str, Any]) -> str:
    options = " ".join(f"{name}={value}" for name, value in record["options"].items())
    title = html.escape(f"{record['pass']} {options}".strip())
    time = f"{record['seconds'] * 1e3:.2f} ms"
    margin = f"style='margin-left:{2 * record['depth']}em'"
    if not record["changed"]:
        return f"<p class=same {margin}>{title}: {time}, as before</p>"
    notes = "".join(f"<div>{html.escape(text)}</div>" for text in record["notes"])
    lines = "\n".join(map(_line, record["difference"].splitlines()))
    return (
        f"<details {margin}><summary>{title}: {time}</summary>{notes}<pre>{lines}</pre></details>"
    )


def _line(line: str) -> str:
    kind = {"+": "add", "-": "cut"}.get(line[:1])
    text = html.escape(line)
    return f"<span class={kind}>{text}</span>" if kind else text
