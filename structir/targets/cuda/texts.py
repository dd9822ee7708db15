"""Parentheses around the sources of expressions."""

from __future__ import annotations


def bare(text: str) -> str:
    """Returns a source without its outer parentheses."""
    return text[1:-1] if is_enclosed(text, 0) else text


def enclosed(text: str) -> str:
    """Returns a source in parentheses, unless it is a call."""
    called = text.find("(")
    return text if text[:called].isidentifier() and is_enclosed(text, called) else f"({text})"


def is_enclosed(text: str, start: int) -> bool:
    """Whether the parenthesis at a position is closed at the end."""
    if text[start : start + 1] != "(" or text[-1:] != ")":
        return False
    depth = 0
    for place, letter in enumerate(text[start:], start):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def without_call(text: str, name: str) -> str:
    """Returns the arguments of a call if the source is exactly one call of this function."""
    called = text.startswith(f"{name}(") and is_enclosed(text, len(name))
    return text[len(name) + 1 : -1] if called else text
