"""Parentheses around the texts of expressions."""

from __future__ import annotations


def bare(text: str) -> str:
    """A text without the parentheses around all of it."""
    return text[1:-1] if is_enclosed(text, 0) else text


def enclosed(text: str) -> str:
    """A text in parentheses, unless it is a call that brings them."""
    called = text.find("(")
    return text if text[:called].isidentifier() and is_enclosed(text, called) else f"({text})"


def is_enclosed(text: str, start: int) -> bool:
    """Whether the parenthesis at a place closes at the very end."""
    if text[start : start + 1] != "(" or text[-1:] != ")":
        return False
    depth = 0
    for place, letter in enumerate(text[start:], start):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def without_call(text: str, name: str) -> str:
    """What is in the parentheses of a call, if a text is one of this function and nothing more."""
    called = text.startswith(f"{name}(") and is_enclosed(text, len(name))
    return text[len(name) + 1 : -1] if called else text
