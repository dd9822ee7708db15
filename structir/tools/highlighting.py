"""Colours diagnostics on a terminal."""

from rich.highlighter import RegexHighlighter
from rich.theme import Theme


class DiagnosticHighlighter(RegexHighlighter):
    """Assigns a style to each part of a rendered diagnostic."""

    base_style = "diagnostic."
    highlights = (
        r"(?m)^(?P<error>error(\[\w+\])?)(?=:)",
        r"(?m)^(?P<warning>warning(\[\w+\])?)(?=:)",
        r"(?m)^(?:error|warning)(?:\[\w+\])?(?P<message>:.*)$",
        r"(?m)^ *(?P<location>(?:-->|:::).*)$",
        r"(?m)^ *(?P<gutter>\d* \|)",
        r"(?m)^ *\|\s*(?P<caret>\^+.*)$",
        r"(?m)^ *\|\s*(?P<label>-+.*)$",
        r"(?m)^ *(?P<note>=) ",
        r"(?m)^ *= (?P<help>help:)",
    )


THEME = Theme(
    {
        "diagnostic.error": "bold red",
        "diagnostic.warning": "bold yellow",
        "diagnostic.message": "bold",
        "diagnostic.location": "blue",
        "diagnostic.gutter": "blue",
        "diagnostic.caret": "bold red",
        "diagnostic.label": "blue",
        "diagnostic.note": "blue",
        "diagnostic.help": "bold green",
    }
)
