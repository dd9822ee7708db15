"""Colours diagnostics on a terminal."""

from rich.highlighter import RegexHighlighter
from rich.theme import Theme


class DiagnosticHighlighter(RegexHighlighter):
    """Marks the parts of a rendered diagnostic."""

    base_style = "diagnostic."
    highlights = (
        r"(?m)^(?P<error>error)(?=:)",
        r"(?m)^(?P<warning>warning)(?=:)",
        r"(?m)^(?:error|warning)(?P<message>:.*)$",
        r"(?m)^ *(?P<place>-->.*)$",
        r"(?m)^ *(?P<gutter>\d* \|)",
        r"(?m)^ *\|\s*(?P<caret>\^+)\s*$",
        r"(?m)^ *(?P<note>=) ",
        r"(?m)^ *= (?P<hint>hint:)",
    )


THEME = Theme(
    {
        "diagnostic.error": "bold red",
        "diagnostic.warning": "bold yellow",
        "diagnostic.message": "bold",
        "diagnostic.place": "blue",
        "diagnostic.gutter": "blue",
        "diagnostic.caret": "bold red",
        "diagnostic.note": "blue",
        "diagnostic.hint": "bold green",
    }
)
